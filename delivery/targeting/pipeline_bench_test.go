package targeting_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
)

// BenchmarkPipeline measures events per second from post to arrival, with one device per event, in
// one process with the stand-in.
func BenchmarkPipeline(b *testing.B) {
	p := setup(b, options{apns: apnstest.Options{CountsOnly: true}})
	const users = 1000
	p.mustManyDevices(users)
	var next atomic.Int64
	b.ResetTimer()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			user := fmt.Sprintf("fan%06d", next.Add(1)%users)
			if _, _, err := p.first.events.Accept(b.Context(), hello(user), api.Idempotency{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	if err := p.apns.WaitTotal(b.N, time.Minute); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
