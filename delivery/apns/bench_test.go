package apns

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sideshow/apns2"
	apnstoken "github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

const benchInFlight = 512

// BenchmarkSend compares the sender, with Send and with Start, with stock apns2, in turns and
// against the same stand-in. It reports rates, the median of their ratios to stock, and CPU time
// and allocations per notification. The latter include those of the stand-in, which are the same
// for all.
func BenchmarkSend(b *testing.B) {
	s := apnstest.Start(b, apnstest.Options{CountsOnly: true})
	ours := mustNew(b, optionsFor(s))
	stock := mustStock(b, s)
	notes := make([]*transport.Notification, 4096)
	for i := range notes {
		notes[i] = testNote(i)
	}
	ways := []struct {
		name string
		run  func(n int) (failed int64)
		cost []cost
	}{
		{name: "stock", run: func(n int) int64 {
			return inFlight(notes, n, func(n *transport.Notification) bool { return pushStock(stock, n) })
		}},
		{name: "send", run: func(n int) int64 {
			return inFlight(notes, n, func(n *transport.Notification) bool {
				return transport.Await(context.Background(), ours, n).Outcome == transport.Delivered
			})
		}},
		{name: "start", run: func(n int) int64 { return started(ours, notes, n) }},
	}
	for _, way := range ways { // warm up
		mustCost(b, 20_000, way.run)
	}
	for b.Loop() {
		for i := range ways {
			ways[i].cost = append(ways[i].cost, mustCost(b, 40_000, ways[i].run))
		}
	}
	for _, way := range ways {
		var rates, ratios, cpu, allocs []float64
		for i, c := range way.cost {
			rates, ratios = append(rates, c.rate), append(ratios, c.rate/ways[0].cost[i].rate)
			cpu, allocs = append(cpu, c.cpu), append(allocs, c.allocs)
		}
		b.ReportMetric(medianOf(rates), way.name+"/s")
		b.ReportMetric(medianOf(ratios), way.name+"-ratio")
		b.ReportMetric(medianOf(cpu), way.name+"-cpu-us")
		b.ReportMetric(medianOf(allocs), way.name+"-allocs")
	}
	b.ReportMetric(0, "ns/op") // the time of a whole turn has no meaning
}

func medianOf(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// cost is the cost of a number of notifications: the rate per second, and the CPU time in
// microseconds and the allocations of each.
type cost struct{ rate, cpu, allocs float64 }

// mustCost measures n notifications.
func mustCost(b *testing.B, n int, run func(n int) (failed int64)) cost {
	b.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), cpuTime(b)
	failed := run(n)
	took := time.Since(start)
	cpu = cpuTime(b) - cpu
	runtime.ReadMemStats(&after)
	if failed > 0 {
		b.Fatalf("%d of %d failed", failed, n)
	}
	per := float64(n)
	return cost{rate: per / took.Seconds(), cpu: float64(cpu.Nanoseconds()) / 1000 / per, allocs: float64(after.Mallocs-before.Mallocs) / per}
}

// cpuTime is the CPU time that this process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// inFlight sends n notifications, benchInFlight at a time, each from a goroutine that waits.
func inFlight(notes []*transport.Notification, n int, send func(*transport.Notification) bool) int64 {
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range benchInFlight {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if !send(notes[int(i)%len(notes)]) {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return failed.Load()
}

// started sends n notifications, benchInFlight at a time, from one goroutine.
func started(s *Sender, notes []*transport.Notification, n int) int64 {
	var failed atomic.Int64
	room := make(chan struct{}, benchInFlight)
	for i := range n {
		room <- struct{}{}
		s.Start(context.Background(), notes[i%len(notes)], func(a transport.Answer) {
			if a.Outcome != transport.Delivered {
				failed.Add(1)
			}
			<-room
		})
	}
	for range benchInFlight {
		room <- struct{}{}
	}
	return failed.Load()
}

// pushStock sends through apns2.
func pushStock(c *apns2.Client, n *transport.Notification) bool {
	r, err := c.Push(&apns2.Notification{
		ApnsID: n.ID, DeviceToken: n.Token, Topic: n.Topic, CollapseID: n.CollapseID,
		Priority: n.Priority, PushType: apns2.PushTypeAlert, Payload: n.Payload,
	})
	return err == nil && r.Sent()
}

// mustStock is apns2 unchanged, except for the trusted roots.
func mustStock(b *testing.B, s *apnstest.Server) *apns2.Client {
	b.Helper()
	key, err := apnstoken.AuthKeyFromFile(s.KeyFile())
	if err != nil {
		b.Fatal(err)
	}
	ca, err := os.ReadFile(s.CAFile())
	if err != nil {
		b.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	c := apns2.NewTokenClient(&apnstoken.Token{AuthKey: key, KeyID: s.KeyID(), TeamID: s.TeamID()})
	c.Host = s.URL()
	c.HTTPClient = &http.Client{Timeout: time.Minute, Transport: &http2.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ReadIdleTimeout: apns2.ReadIdleTimeout,
	}}
	b.Cleanup(c.CloseIdleConnections)
	return c
}
