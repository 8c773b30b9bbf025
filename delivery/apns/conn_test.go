package apns

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

func TestA6_OneUntilFirstAnswer(t *testing.T) {
	t.Parallel()
	// This peer would allow a thousand streams at once, but Apple's rule for provider tokens is to
	// wait for the first answer.
	w := setup(t, apnstest.Options{StartStreams: 1000})
	var early atomic.Int32
	w.ScriptFunc(func(r *apnstest.Request) (apnstest.Answer, bool) {
		if r.Stream > 1 {
			return apnstest.Answer{}, false
		}
		time.AfterFunc(50*time.Millisecond, func() { early.Store(int32(w.Total())) })
		return apnstest.After(100 * time.Millisecond), true
	})
	if got := outcomesOf(w.sendMany(0, 50)); got[transport.Delivered] != 50 {
		t.Fatalf("got %v", got)
	}
	if n := early.Load(); n != 1 {
		t.Fatalf("%d requests had come before the first answer", n)
	}
	if v := w.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
}

func TestA6_PeerStartsAtOne(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{MaxStreams: 40})
	if got := outcomesOf(w.sendMany(0, 2000)); got[transport.Delivered] != 2000 {
		t.Fatalf("got %v", got)
	}
	if v := w.Violations(); len(v) > 0 || w.PeakStreams() > 40 || w.Total() != 2000 {
		t.Fatalf("peak %d, %d requests, violations %v", w.PeakStreams(), w.Total(), v)
	}
}

// An app whose first requests on every new connection hang holds up no other app. The others get a
// connection long before these requests are given up, even if the app has all the connections that
// it may have.
func TestA6_AHangingAppLeavesAConnectionToOthers(t *testing.T) {
	t.Parallel()
	for name, tried := range map[string]int{"AtTheFirst": 1, "AtTheLast": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{}, func(o *Options) { o.ReadIdle = 20 * time.Second })
			w.ScriptTopic("com.example.broken", apnstest.Failing(apnstest.Hang))
			ctx, cancel := context.WithCancel(t.Context())
			var hanging sync.WaitGroup
			defer hanging.Wait()
			defer cancel()
			for i := range 100 {
				n := noteFor(i, "com.example.broken", api.EnvProduction)
				hanging.Go(func() { transport.Await(ctx, w.sender, n) })
			}
			if err := w.WaitTotal(tried, 15*time.Second); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for i := range 20 {
				w.mustDeliver(testNote(i))
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("the others waited %v", took)
			}
		})
	}
}

// The peer's limit also applies if it is lowered while requests are sent, from its acknowledgement
// on. Requests never stall if more of them wait than there are streams.
func TestA6_PeerLowersLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{MaxStreams: 500, Latency: 2 * time.Millisecond})
	stop := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		for changes := 0; ; changes++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				w.SetMaxStreams([]uint32{3, 200, 1, 50, 7}[changes%5])
			}
		}
	})
	answers := w.sendMany(0, 3000)
	close(stop)
	changing.Wait()
	if got := outcomesOf(answers); got[transport.Delivered] != 3000 {
		t.Fatalf("got %v", got)
	}
	if v := w.Violations(); len(v) > 0 || w.Total() != 3000 {
		t.Fatalf("%d requests, violations %v", w.Total(), v)
	}
}

func TestA6_AtMost900Streams32Connections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ allowed, requests, streams, conns int }{
		{5000, 2700, 900, 3}, {50, 3000, 50, 32},
	} {
		t.Run(strconv.Itoa(tt.allowed), func(t *testing.T) {
			t.Parallel()
			o := apnstest.Options{StartStreams: uint32(tt.allowed), MaxStreams: uint32(tt.allowed)}
			w := setup(t, o, func(o *Options) { o.Timeout = time.Minute })
			w.ScriptFunc(func(r *apnstest.Request) (apnstest.Answer, bool) {
				return apnstest.Failing(apnstest.Hang), r.Stream > 1
			})
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for i := range tt.requests {
				wg.Go(func() { transport.Await(ctx, w.sender, testNote(i)) })
			}
			full := min(tt.requests, tt.conns*(tt.streams+1)) // the first request of each was answered
			if err := w.WaitTotal(full, 30*time.Second); err != nil {
				t.Error(err)
			}
			if w.PeakStreams() != tt.streams || w.Accepted() < tt.conns || w.Accepted() > max(tt.conns, 8) || w.Total() != full {
				t.Errorf("peak %d on %d connections, %d requests", w.PeakStreams(), w.Accepted(), w.Total())
			}
			cancel()
			wg.Wait()
		})
	}
}

func TestA8_BlackHole(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, func(o *Options) {
		o.ReadIdle, o.PingTimeout = 500*time.Millisecond, 2*time.Second
	})
	w.mustDeliver(testNote(0))
	w.BlackHole()
	start := time.Now()
	for i, a := range w.sendMany(1, 10) {
		if a.Outcome != transport.UnknownOutcome {
			t.Fatalf("%d: got %s: %v", i, a.Outcome, a.Err)
		}
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Fatalf("it took %v to find out", took)
	}
	w.mustDeliver(testNote(1)) // on a new connection
	storetest.Eventually(t, 20*time.Second, "the silent connection is closed", func() bool { return w.open() == 1 })
}

// A slow connection that answers PINGs is not given up.
func TestA8_SlowIsNotDead(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, func(o *Options) {
		o.ReadIdle, o.PingTimeout = 300*time.Millisecond, 5*time.Second
	})
	w.ScriptAll(apnstest.After(1500 * time.Millisecond))
	w.mustDeliver(testNote(0))
	if w.Accepted() != 1 {
		t.Fatalf("%d connections", w.Accepted())
	}
}

// A first request that is never answered holds up others only for a moment.
func TestA8_SilentFirstStream(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, func(o *Options) { o.ReadIdle, o.PingTimeout = 200*time.Millisecond, 10*time.Second })
	w.Script(deviceToken(0), apnstest.Failing(apnstest.Hang))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go transport.Await(ctx, w.sender, testNote(0))
	if err := w.WaitTotal(1, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	w.mustDeliver(testNote(1))
	if took := time.Since(start); took > 15*time.Second || w.Accepted() != 2 {
		t.Fatalf("delivered after %v on connection %d", took, w.Accepted())
	}
}

func TestA9_GoAwayAboveL(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		t.Run(map[bool]string{true: "first request", false: "later request"}[first], func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			if !first {
				w.mustDeliver(testNote(0))
			}
			w.Script(deviceToken(1), apnstest.Failing(apnstest.GoAwayBefore), apnstest.OK())
			w.mustDeliver(testNote(1))
			got := w.Of(deviceToken(1))
			if len(got) != 2 || got[0].Taken || !got[1].Taken || got[0].ID != got[1].ID || got[0].Connection == got[1].Connection {
				t.Fatalf("got %+v", got)
			}
		})
	}
}

func TestA9_GoAwayAtOrBelowLFinishes(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.mustDeliver(testNote(0))
	w.Script(deviceToken(1), apnstest.Answer{Fault: apnstest.GoAwayAfter, Delay: 50 * time.Millisecond})
	w.mustDeliver(testNote(1))
	w.mustDeliver(testNote(2))
	if n := len(w.Of(deviceToken(1))); n != 1 || w.Accepted() != 2 {
		t.Fatalf("%d requests, %d connections", n, w.Accepted())
	}
}

// Repeated GOAWAYs under load: each request is delivered, and none twice.
func TestA9_GoAwayUnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{TrackIDs: true, CountsOnly: true, Latency: time.Millisecond},
		func(o *Options) { o.Timeout = time.Minute })
	var n atomic.Int32
	w.ScriptFunc(func(*apnstest.Request) (apnstest.Answer, bool) {
		switch n.Add(1) % 400 {
		case 100:
			return apnstest.Failing(apnstest.GoAwayBefore), true
		case 300:
			return apnstest.Failing(apnstest.GoAwayAfter), true
		}
		return apnstest.Answer{}, false
	})
	got := outcomesOf(w.sendMany(0, 2000))
	if got[transport.Delivered] != 2000 {
		t.Fatalf("got %v", got)
	}
	if ids, again := w.IDs(); ids != 2000 || again != 0 {
		t.Fatalf("%d ids, %d again", ids, again)
	}
}

// REFUSED_STREAM has the same meaning for one request.
func TestA9_RefusedStream(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.Script(deviceToken(1), apnstest.Failing(apnstest.Refuse), apnstest.Failing(apnstest.Refuse), apnstest.OK())
	w.mustDeliver(testNote(1))
	w.Script(deviceToken(2), apnstest.Failing(apnstest.Refuse))
	if a := w.send(testNote(2)); a.Outcome != transport.NotSent || a.RetryAfter <= 0 {
		t.Fatalf("refused for ever: %s %v", a.Outcome, a.Err)
	}
}

func TestA10_ConnectionLostIsUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]apnstest.Fault{
		"closed": apnstest.Drop, "closed after GOAWAY": apnstest.GoAwayDrop, "stream reset": apnstest.Reset,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			w.mustDeliver(testNote(0))
			w.Script(deviceToken(1), apnstest.Failing(fault), apnstest.OK())
			a := w.send(testNote(1))
			if a.Outcome != transport.UnknownOutcome || a.Status != 0 || a.Err == nil {
				t.Fatalf("got %s %d %v", a.Outcome, a.Status, a.Err)
			}
			w.mustDeliver(testNote(1))
			got := w.Of(deviceToken(1))
			if len(got) != 2 || got[0].ID != got[1].ID || got[0].CollapseID != got[1].CollapseID {
				t.Fatalf("sent again as %+v", got)
			}
		})
	}
}

// A request that was never written never has an unknown outcome.
func TestA10_NotSentWithoutConnection(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.Refuse(true)
	got := outcomesOf(w.sendMany(0, 100))
	if got[transport.NotSent] != 100 || w.Total() != 0 {
		t.Fatalf("got %v, %d requests", got, w.Total())
	}
	if err := w.sender.Apps()["*/production"]; err == nil || w.open() != 0 {
		t.Fatalf("%d connections, %v", w.open(), err)
	}
	w.Refuse(false)
	storetest.Eventually(t, 20*time.Second, "it connects again by itself", func() bool { return w.send(testNote(0)).Outcome == transport.Delivered })
	if err := w.sender.Apps()["*/production"]; err != nil || w.open() != 1 {
		t.Fatalf("%d connections, %v", w.open(), err)
	}
}

// A server that cannot be reached is not dialled for every request.
func TestA10_DialsBackOff(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := setup(t, apnstest.Options{}, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	w.Refuse(true)
	w.send(testNote(0))
	start := time.Now()
	for range 1000 {
		if a := w.send(testNote(0)); a.Outcome != transport.NotSent {
			t.Fatalf("got %s", a.Outcome)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("1,000 refusals took %v", took)
	}
	_ = w.sender.Close() // so that nothing is logged after this
	if n := strings.Count(log.String(), "no connection to APNs"); n < 1 || n > 6 {
		t.Fatalf("the log has it %d times:\n%s", n, log.String())
	}
}

// Connections die under load. Every request is delivered, not sent, or of unknown outcome, and
// requests that were not sent never arrived.
func TestA10_KilledConnectionsUnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{TrackIDs: true, Latency: 2 * time.Millisecond})
	stop := make(chan struct{})
	var killing sync.WaitGroup
	killing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
				w.KillConnections()
			}
		}
	})
	answers := w.sendMany(0, 4000)
	close(stop)
	killing.Wait()
	arrived := make(map[string]bool)
	for _, r := range w.Requests() {
		arrived[r.Token] = true
	}
	for i, a := range answers {
		switch {
		case a.Outcome == transport.NotSent && arrived[deviceToken(i)]:
			t.Fatalf("%d arrived and is called not sent: %v", i, a.Err)
		case a.Outcome != transport.NotSent && a.Outcome != transport.Delivered && a.Outcome != transport.UnknownOutcome:
			t.Fatalf("%d: got %s %v", i, a.Outcome, a.Err)
		}
	}
	if _, again := w.IDs(); again != 0 {
		t.Fatalf("%d arrived twice", again)
	}
}
