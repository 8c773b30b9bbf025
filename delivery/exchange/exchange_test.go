package exchange

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// silent makes a server that accepts connections and says nothing, so that each exchange waits.
func silent(t *testing.T) *h2.Pool {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base, err := BaseURL("https://" + listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	pool := h2.New(Address(base), TLS(base, nil), h2.Options{
		Name: "test", Host: base.Host, Logger: slog.New(slog.DiscardHandler),
		DialTimeout: time.Minute, ReadIdle: time.Minute, PingTimeout: time.Minute, SendWithin: time.Minute,
	})
	t.Cleanup(func() {
		pool.Close()
		_ = listener.Close()
	})
	return pool
}

// waits is an owner that only waits for a connection.
type waits struct{ Exchange }

func (w *waits) Try()                                                      { w.Acquire() }
func (w *waits) Post(*h2.Conn, *h2.Call) error                             { return errors.New("there is a connection") }
func (w *waits) Judge(*h2.Conn, *h2.Result) (a transport.Answer, u h2.Use) { return a, u }

// An exchange without a connection ends with its time or its context, whichever is first, and says
// that nothing was sent.
func TestAnExchangeEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		cancel  bool
		want    error
	}{"Time": {10 * time.Millisecond, false, context.DeadlineExceeded}, "Context": {time.Minute, true, context.Canceled}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answers := make(chan transport.Answer, 2)
			pool := silent(t)
			w := &waits{}
			w.Init(ctx, w, &transport.Notification{Topic: "app"}, Options{Pool: pool, Limiter: pool.NewLimiter(time.Now), Timeout: c.timeout, Done: func(a transport.Answer) { answers <- a }})
			w.Try()
			if c.cancel {
				cancel()
			}
			select {
			case a := <-answers:
				if a.Outcome != transport.NotSent || !errors.Is(a.Err, c.want) {
					t.Errorf("%v, %v", a.Outcome, a.Err)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it did not end")
			}
		})
	}
}

// A base URL names a server and nothing of it.
// A time in Retry-After is by the service's own clock. No wait is longer than an hour.
func TestRetryAfterIsByTheServicesClock(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0}, {"7", "", 7 * time.Second}, {" 7 ", "", 7 * time.Second}, {"-7", "", 0}, {"9223372036854775808", "", time.Hour}, {"soon", "", 0}, {"1.5", "", 0},
		{at(time.Minute), "", time.Minute}, {at(-time.Minute), "", 0}, {at(2 * time.Hour), "", time.Hour}, {at(time.Minute), "today", time.Minute},
		{at(time.Hour + time.Minute), at(time.Hour), time.Minute}, // a clock that is an hour ahead
		{at(-time.Hour), at(-time.Hour - time.Minute), time.Minute},
	} {
		if got := RetryAfter(c.after, c.date, now); got != c.want {
			t.Errorf("%q %q: %v", c.after, c.date, got)
		}
	}
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for text, address := range map[string]string{"https://a.example": "a.example:443", "https://a.example:2197/": "a.example:2197", "https://[::1]": "[::1]:443"} {
		if u, err := BaseURL(text); err != nil || Address(u) != address {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
	for _, text := range []string{"http://a.example", "https://", "https://a.example/v1", "https://u@a.example", "https://a.example?x", "a.example", "https://a.example:x"} {
		if u, err := BaseURL(text); err == nil {
			t.Errorf("%s is taken as %v", text, u)
		}
	}
}
