package apns

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sideshow/apns2"
	apnstoken "github.com/sideshow/apns2/token"
	"golang.org/x/net/http2"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

const benchInFlight = 512

// BenchmarkSend compares the sender with stock apns2 against the same stand-in,
// turn by turn, and reports both rates and the median of their ratios.
func BenchmarkSend(b *testing.B) {
	s := apnstest.Start(b, apnstest.Options{CountsOnly: true})
	ours := mustNew(b, optionsFor(s))
	stock := mustStock(b, s)
	notes := make([]*transport.Notification, 4096)
	for i := range notes {
		notes[i] = testNote(i)
	}
	sendOurs := func(n *transport.Notification) bool {
		return ours.Send(context.Background(), n).Outcome == transport.Delivered
	}
	sendStock := func(n *transport.Notification) bool {
		r, err := stock.Push(&apns2.Notification{
			ApnsID: n.ID, DeviceToken: n.Token, Topic: n.Topic, CollapseID: n.CollapseID,
			Priority: n.Priority, PushType: apns2.PushTypeAlert, Payload: n.Payload,
		})
		return err == nil && r.Sent()
	}
	mustRate(b, notes, 20_000, sendOurs) // warm up
	mustRate(b, notes, 20_000, sendStock)
	var rates [2][]float64
	var ratios []float64
	for b.Loop() {
		o, st := mustRate(b, notes, 40_000, sendOurs), mustRate(b, notes, 40_000, sendStock)
		rates[0], rates[1], ratios = append(rates[0], o), append(rates[1], st), append(ratios, o/st)
	}
	b.ReportMetric(medianOf(rates[0]), "ours/s")
	b.ReportMetric(medianOf(rates[1]), "stock/s")
	b.ReportMetric(medianOf(ratios), "ratio")
}

func medianOf(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// mustRate sends n notifications, benchInFlight at a time, and returns how many
// were answered per second.
func mustRate(b *testing.B, notes []*transport.Notification, n int, send func(*transport.Notification) bool) float64 {
	b.Helper()
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
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
	if failed.Load() > 0 {
		b.Fatalf("%d of %d failed", failed.Load(), n)
	}
	return float64(n) / time.Since(start).Seconds()
}

// mustStock is apns2 as it comes, but for the roots it trusts.
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
