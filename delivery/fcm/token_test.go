package fcm

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// clock is a clock that a test moves.
type clock struct {
	base time.Time
	past atomic.Int64
}

func newClock() *clock                    { return &clock{base: time.Now()} }
func (c *clock) now() time.Time           { return c.base.Add(time.Duration(c.past.Load())) }
func (c *clock) advance(d time.Duration)  { c.past.Add(int64(d)) }
func (c *clock) options(o *Options)       { o.Now = c.now }
func (c *clock) standIn() fcmtest.Options { return fcmtest.Options{Now: c.now} }
func (w *world) bearers() map[string]bool {
	all := map[string]bool{}
	for _, r := range w.Requests() {
		all[r.Bearer] = true
	}
	return all
}

// W9: one request for a token serves all that wait for it.
func TestW9_OneTokenForAll(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	if got := w.sendMany(90); got[transport.Delivered] != 90 || w.TokensAsked() != 1 || len(w.bearers()) != 1 {
		t.Errorf("%v, %d requests for a token", got, w.TokensAsked())
	}
}

// W9: the token is renewed by use in its last 5 min, once under concurrency and at most every 5 s, while
// others send with the present one.
func TestW9_TheTokenIsRenewedInTime(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, c.standIn(), c.options)
	w.mustDeliver(testNote(0))
	c.advance(54 * time.Minute)
	w.mustDeliver(testNote(1))
	if n := w.TokensAsked(); n != 1 {
		t.Fatalf("%d tokens before the last 5 min", n)
	}
	c.advance(2 * time.Minute)
	w.BreakTokens(func() (int, string) { return 500, "broken" })
	if got := w.sendMany(50); got[transport.Delivered] != 50 {
		t.Fatalf("with the present token: %v", got)
	}
	storetest.Eventually(t, time.Minute, "the endpoint has failed", func() bool { return w.sender.Apps()[topic+"/fcm"] != nil })
	w.mustDeliver(testNote(2))
	if n := w.TokensAsked(); n != 2 {
		t.Fatalf("%d requests within 5 s", n-1)
	}
	if e := w.sender.Apps()[topic+"/fcm"]; e == nil || !strings.Contains(e.Error(), "the token endpoint answers 500") {
		t.Errorf("last error %v", e)
	}
	c.advance(6 * time.Second)
	w.BreakTokens(nil)
	w.mustDeliver(testNote(3))
	storetest.Eventually(t, time.Minute, "there is a new token", func() bool { return w.sender.Apps()[topic+"/fcm"] == nil })
	w.mustDeliver(testNote(4))
	if n := w.TokensAsked(); n != 3 || len(w.bearers()) != 2 {
		t.Errorf("%d requests for a token, %d tokens sent", n, len(w.bearers()))
	}
}

// W9: while the token endpoint is away, notifications are not sent, which uses up no attempt.
func TestW9_WithoutATokenNothingIsSent(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]func() (int, string){
		"Refuses": func() (int, string) {
			return 400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`
		},
		"Redirects": func() (int, string) { return 307, "" },
		"NotJSON":   func() (int, string) { return 200, "<html>" },
		"NoToken":   func() (int, string) { return 200, `{"expires_in":3600}` },
		"NoEnd":     func() (int, string) { return 200, `{"access_token":"a"}` },
		"BadToken":  func() (int, string) { return 200, `{"access_token":"a b","expires_in":3600}` },
		"HugeAnswer": func() (int, string) {
			return 200, `{"access_token":"a","expires_in":3600,"x":"` + strings.Repeat("x", 70<<10) + `"}`
		},
		"HangsForGood": func() (int, string) { return 0, "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			w := setup(t, c.standIn(), c.options, func(o *Options) {
				if name == "HangsForGood" {
					o.TokenTimeout = 5 * time.Second
				}
			})
			w.BreakTokens(broken)
			for range 2 {
				if a := w.send(testNote(0)); a.Outcome != transport.NotSent || a.Err == nil || len(w.Requests()) != 0 {
					t.Fatalf("got %+v", a)
				}
			}
			if n := w.TokensAsked(); n != 1 {
				t.Errorf("%d requests within 5 s", n)
			}
			w.BreakTokens(nil)
			c.advance(6 * time.Second)
			w.mustDeliver(testNote(1))
		})
	}
}

// W9: claims that the endpoint does not accept give no token; the stand-in verifies their signature.
func TestW9_ClaimsAreSigned(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	file, err := w.WriteAccount(t.TempDir(), "other.json", func(a *fcmtest.Account) { a.ClientEmail = "somebody@else.example" })
	storetest.Must(t, err)
	e := entry(w.Server, topic)
	e["service_account_file"] = file
	w.mustConfigure(e)
	if a := w.send(testNote(0)); a.Outcome != transport.NotSent || !strings.Contains(a.Err.Error(), "invalid_grant") {
		t.Errorf("got %+v", a)
	}
}

// A notification that waits for a token ends with its context.
func TestWaitingForATokenEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{}, func(o *Options) { o.TokenTimeout = 3 * time.Second })
	w.BreakTokens(func() (int, string) { return 0, "" })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if a := transport.Await(ctx, w.sender, testNote(i)); a.Outcome != transport.NotSent {
				t.Errorf("got %+v", a)
			}
		})
	}
	storetest.Eventually(t, time.Minute, "a token is asked for", func() bool { return w.TokensAsked() == 1 })
	cancel()
	all.Wait()
}
