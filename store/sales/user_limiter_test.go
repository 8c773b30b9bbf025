package sales

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// S15: per user, sale and process at most 10 attempts a second, replays included,
// whatever comes of them; and no others pay for it.
func TestS15_TriesOfOneUser(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(1, 60_000, 1))
	p.mustPut(s.sale+".2", request(100, 60_000, 1))
	storetest.Eventually(t, patience, "15 tries within a second", func() bool {
		began, user := time.Now(), unused()
		var codes []api.Code
		for range 15 {
			_, err := p.buy(s.sale, user, 1, "the same key")
			codes = append(codes, api.CodeOf(err))
		}
		if time.Since(began) > 900*time.Millisecond {
			return false
		}
		for i, code := range codes {
			if (code == api.CodeRateLimited) != (i >= api.MaxUserTries) {
				t.Fatalf("try %d: %q", i+1, code)
			}
		}
		p.mustBuy(s.sale+".2", user, 1) // another sale
		return true
	})
}

// The window slides: ten tries in any second, and the refusal says how long.
func TestS15_TheWindowSlides(t *testing.T) {
	t.Parallel()
	var limiter userLimiter
	b := buyer{"s", "u"}
	at := func(ms int) time.Duration { return 10*time.Second + time.Duration(ms)*time.Millisecond }
	for i := range 10 {
		storetest.Must(t, limiter.allowAt(b, at(i*50)))
	}
	for ms, want := range map[int]time.Duration{500: 500 * time.Millisecond, 999: time.Millisecond} {
		e := mustError(t, limiter.allowAt(b, at(ms)), api.CodeRateLimited)
		if e.RetryAfter != want {
			t.Errorf("at %d ms: try again after %v, want %v", ms, e.RetryAfter, want)
		}
	}
	storetest.Must(t, limiter.allowAt(b, at(1000)))
	storetest.WantCode(t, limiter.allowAt(b, at(1049)), api.CodeRateLimited)
	storetest.Must(t, limiter.allowAt(b, at(1050)))
	storetest.Must(t, limiter.allowAt(buyer{"s", "v"}, at(1050)))
	// Who has not been heard of for two seconds costs nothing.
	for i := range 1000 {
		storetest.Must(t, limiter.allowAt(buyer{"s", fmt.Sprint(i)}, at(3000)))
	}
	storetest.Must(t, limiter.allowAt(b, at(4100)))
	storetest.Must(t, limiter.allowAt(b, at(5200)))
	if n := len(limiter.now) + len(limiter.past); n > 2 {
		t.Errorf("%d users are remembered", n)
	}
}

// S15: more reservations at once than there is room for are refused with
// Retry-After within 5 ms, while those under way hang on a Redis that does not
// answer; afterwards all goes on.
func TestS15_CrowdedIsToldAtOnce(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	s := setup(t)
	s.redisURL = server.URL()
	const room = 8
	p := s.mustStartOn(storetest.OpenWith(t, redisdb.Options{URL: s.redisURL, Timeout: 20 * time.Second}), Options{MaxInFlight: room})
	p.mustPut(s.sale, request(1000, 60_000, 1))
	server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var inside sync.WaitGroup
	var fine atomic.Int64
	for i := range room {
		inside.Go(func() {
			_, _, err := p.Reserve(ctx, s.sale, &api.ReservationRequest{User: fmt.Sprint("in", i), Lines: []api.Line{{SKU: "s", Quantity: 1}}}, api.Idempotency{})
			if err == nil {
				fine.Add(1)
			}
		})
	}
	storetest.Eventually(t, patience, "the room is full", func() bool { return p.inFlight.Load() == room })
	var took []time.Duration
	for i := range 100 {
		began := time.Now()
		_, err := p.buy(s.sale, fmt.Sprint("out", i), 1)
		took = append(took, time.Since(began))
		if e := mustError(t, err, api.CodeOverloaded); e.RetryAfter <= 0 {
			t.Fatalf("no Retry-After: %+v", e)
		}
	}
	slow := 0
	for _, d := range took {
		if d > 5*time.Millisecond {
			slow++
		}
	}
	if slow > 5 { // what a busy machine holds up is not ours
		t.Errorf("%d of 100 refusals took more than 5 ms: %v", slow, took)
	}
	server.Resume()
	inside.Wait()
	if fine.Load() != room {
		t.Errorf("%d of %d that were under way succeeded", fine.Load(), room)
	}
	p.mustBuy(s.sale, "next", 1)
	if n := p.inFlight.Load(); n != 0 {
		t.Errorf("%d reservations count as under way", n)
	}
}
