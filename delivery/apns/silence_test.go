package apns

import (
	"context"
	"crypto/tls"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// impatient makes a sender give up a connection that answers nothing after this time.
func impatient(d time.Duration) func(*Options) {
	return func(o *Options) { o.ReadIdle, o.PingTimeout = d, 20*time.Second }
}

// TestA8_PingsAloneKeepNoConnection: a proven connection that acknowledges PINGs and answers no request gets
// no more requests, also if its app has requests under way already.
func TestA8_PingsAloneKeepNoConnection(t *testing.T) {
	t.Parallel()
	for name, hanging := range map[string]int{"Two": 2, "Many": 300} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{}, impatient(400*time.Millisecond))
			w.mustDeliver(testNote(0))
			w.ScriptFunc(func(r *apnstest.Request) (apnstest.Answer, bool) {
				return apnstest.Failing(apnstest.Hang), r.Connection == 1
			})
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			for i := range hanging {
				all.Go(func() { transport.Await(ctx, w.sender, testNote(i)) })
			}
			storetest.Must(t, w.WaitTotal(1+hanging, 20*time.Second))
			storetest.Eventually(t, 20*time.Second, "a delivery on another connection", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				return transport.Await(ctx, w.sender, testNote(1000)).Outcome == transport.Delivered
			})
		})
	}
}

// TestA8_OneAfterTheOther: requests that hang one after the other show a dead connection, too.
func TestA8_OneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, impatient(300*time.Millisecond), func(o *Options) { o.Timeout = time.Second })
	w.mustDeliver(testNote(0))
	w.ScriptFunc(func(r *apnstest.Request) (apnstest.Answer, bool) {
		return apnstest.Failing(apnstest.Hang), r.Connection == 1
	})
	for i := range 2 {
		if a := w.send(testNote(i)); a.Outcome != transport.UnknownOutcome {
			t.Fatalf("%d: got %s", i, a.Outcome)
		}
	}
	w.mustDeliver(testNote(2))
}

// TestA8_OneHangingDeviceCostsNoConnection: neither while nothing else is sent nor while others are answered.
func TestA8_OneHangingDeviceCostsNoConnection(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"Alone": false, "AmongOthers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const patience = 500 * time.Millisecond
			w := setup(t, apnstest.Options{}, impatient(patience))
			w.mustDeliver(testNote(0))
			w.Script(deviceToken(1), apnstest.Failing(apnstest.Hang))
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			var hanging sync.WaitGroup
			hanging.Go(func() { transport.Await(ctx, w.sender, testNote(1)) })
			for i := 2; others && ctx.Err() == nil; i++ {
				w.mustDeliver(testNote(i))
			}
			hanging.Wait()
			w.mustDeliver(testNote(0))
			if w.Accepted() != 1 {
				t.Errorf("%d connections", w.Accepted())
			}
		})
	}
}

// TestA8_SlowIsNotSilent: a server whose answers take longer than a connection may be silent gets its requests
// once each, on few connections.
func TestA8_SlowIsNotSilent(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{}, impatient(time.Second))
	w.ScriptAll(apnstest.After(1500 * time.Millisecond))
	for range 3 {
		if got := outcomesOf(w.sendMany(0, 100)); got[transport.Delivered] != 100 {
			t.Fatalf("got %v", got)
		}
	}
	if w.Accepted() > 6 || w.Total() != 300 {
		t.Errorf("%d connections, %d requests", w.Accepted(), w.Total())
	}
}

// TestA8_RefusedAfterTheHandshake: a server that ends each connection after the handshake is reported until an
// answer comes, and logged, whatever the version of TLS. An app whose certificate is refused is paused.
func TestA8_RefusedAfterTheHandshake(t *testing.T) {
	t.Parallel()
	app := transport.AppOf(api.PlatformAPNs, apnstest.DefaultTopic, string(api.EnvProduction))
	for _, tt := range []struct {
		name    string
		version uint16
		refuse  func(*apnstest.Server, bool)
		pauses  bool
	}{
		{"Certificate12", tls.VersionTLS12, (*apnstest.Server).RefuseCertificates, true},
		{"Certificate13", tls.VersionTLS13, (*apnstest.Server).RefuseCertificates, true},
		{"HangUp12", tls.VersionTLS12, (*apnstest.Server).HangUp, false},
		{"HangUp13", tls.VersionTLS13, (*apnstest.Server).HangUp, false},
		{"Refuse", tls.VersionTLS13, (*apnstest.Server).Refuse, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := apnstest.Start(t, apnstest.Options{MaxTLS: tt.version})
			var log lines
			o := Options{CAFile: s.CAFile()}
			o.Timeout, o.Logger = 2*time.Second, slog.New(slog.NewTextHandler(&log, nil))
			a := mustNew(t, o, mustAppsFile(t, "", map[string]string{
				"topic": apnstest.DefaultTopic, "environment": "production", "url": s.URL(), "cert_file": s.CertFile(),
			}))
			tt.refuse(s, true)
			for i := range 3 {
				answer := transport.Await(t.Context(), a, testNote(i))
				if answer.Status != 0 || tt.pauses != (answer.Outcome == transport.PauseApp) || tt.pauses && answer.Reason != reasonCertificate {
					t.Errorf("%d: got %s %s: %v", i, answer.Outcome, answer.Reason, answer.Err)
				}
				if a.Apps()[app] == nil {
					t.Errorf("%d: no error", i)
				}
			}
			if !strings.Contains(log.String(), "no connection to APNs") {
				t.Errorf("the log has only %q", log.String())
			}
			tt.refuse(s, false)
			storetest.Eventually(t, 30*time.Second, "a delivery", func() bool {
				return transport.Await(t.Context(), a, testNote(0)).Outcome == transport.Delivered
			})
			if err := a.Apps()[app]; err != nil {
				t.Errorf("after an answer there is still the error %v", err)
			}
		})
	}
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
