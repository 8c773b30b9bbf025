package targeting_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
)

// BenchmarkPipeline is posting to arrival, one device per event, all in one
// process with the stand-in: events per second.
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
