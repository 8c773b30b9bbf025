package h2

import (
	"context"
	"errors"
	"testing"
	"time"
)

// enter lets a new waiter acquire through a limiter.
func enter(p *Pool, l *Limiter) (*Waiter, grants) {
	r := make(grants, 1)
	w := &Waiter{Limiter: l, Context: context.Background(), Owner: r}
	p.Acquire(w)
	return w, r
}

// limited is a pool whose limiter admits all waiters and that has no connection, so that they wait.
func limited(now func() time.Time) (*Pool, *Limiter) {
	p := New("", nil, testOptions())
	p.dialing = 1
	return p, p.NewLimiter(now)
}

func TestLimiterHalvesOncePerRoundAndRecovers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, l := limited(func() time.Time { return now })
	var all []*Waiter
	for range 100 {
		w, _ := enter(p, l)
		all = append(all, w)
	}
	for _, w := range all {
		p.Leave(w, Slower)
	}
	if n, limit := l.State(); n != 0 || limit != 50 {
		t.Fatalf("100 refusals of one round made the limit %d; %d under way", limit, n)
	}
	succeed := func() int {
		w, _ := enter(p, l)
		p.Leave(w, Fine)
		_, limit := l.State()
		return limit
	}
	if limit := succeed(); limit != 50 {
		t.Fatalf("it grew at once to %d", limit)
	}
	seconds := 0
	for limit := 50; limit > 0; limit = succeed() {
		now = now.Add(time.Second)
		if seconds++; seconds > 120 {
			t.Fatalf("after two minutes the limit is %d", limit)
		}
	}
	if seconds < 20 {
		t.Fatalf("it recovered in %d s", seconds)
	}
}

func TestLimiterLetsWaitersIn(t *testing.T) {
	t.Parallel()
	p, l := limited(time.Now)
	first, _ := enter(p, l)
	p.Leave(first, Slower) // limit 1
	first, _ = enter(p, l)
	second, _ := enter(p, l)
	if second.entered || !first.entered {
		t.Fatalf("with a limit of 1: %v, %v", first.entered, second.entered)
	}
	if _, third := enter(p, l); !errors.Is((<-third).err, ErrLimited) {
		t.Fatal("a second one waits")
	}
	p.Leave(first, Unsaid)
	if !second.entered {
		t.Fatal("the one who waited was not let in")
	}
	for range 2 { // while it waits, and before its next Acquire
		waits, r := enter(p, l)
		p.Cancel(waits, context.Canceled)
		if got := <-r; !errors.Is(got.err, context.Canceled) {
			t.Fatalf("the one who gave up: %+v", got)
		}
		p.Acquire(waits)
		if got := <-r; !errors.Is(got.err, context.Canceled) {
			t.Fatalf("the one who had given up: %+v", got)
		}
		p.Leave(waits, Unsaid)
	}
	p.Leave(second, Unsaid)
	if n, _ := l.State(); n != 0 || l.waiting.Len() != 0 {
		t.Fatalf("%d are under way at the end, %d wait", n, l.waiting.Len())
	}
}

// A limiter that rests lets nothing in, and no request of others waits for that.
func TestALimiterRests(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, l := limited(func() time.Time { return now })
	other, others := enter(p, p.NewLimiter(time.Now))
	slow, _ := enter(p, l)
	p.Leave(slow, Slower)        // limit 1
	queued, first := enter(p, l) // waits for a connection
	_, second := enter(p, l)     // waits for the limiter
	mustRest := func(r grants, want time.Duration) {
		t.Helper()
		var rest *RestError
		if got := <-r; !errors.As(got.err, &rest) || rest.Left != want {
			t.Fatalf("got %+v, want a rest of %v", got, want)
		}
	}
	l.Rest(time.Minute)
	l.Rest(time.Second) // does not make it shorter
	mustRest(first, time.Minute)
	mustRest(second, time.Minute)
	now = now.Add(59 * time.Second)
	_, third := enter(p, l)
	mustRest(third, time.Second)
	p.Acquire(queued) // to be sent again
	mustRest(first, time.Second)
	p.Leave(queued, Unsaid)
	if len(others) != 0 || other.in == nil {
		t.Error("a request through another limiter does not wait any more")
	}
	now = now.Add(time.Second)
	again, _ := enter(p, l)
	if !again.entered || again.in == nil {
		t.Errorf("after the rest: %+v", again)
	}
	if n, limit := l.State(); n != 1 || limit != 1 {
		t.Errorf("%d are under way of %d", n, limit)
	}
}

// W12: a limiter that starts with a limit does so at first and after each minute without a request.
func TestLimiterStartsAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p, l := limited(func() time.Time { return now })
	l.StartWith(100)
	use := func(after time.Duration) int {
		now = now.Add(after)
		w, _ := enter(p, l)
		p.Leave(w, Fine)
		_, limit := l.State()
		return limit
	}
	if limit := use(0); limit != 100 {
		t.Fatalf("it starts with %d", limit)
	}
	if limit := use(time.Second); limit != 110 {
		t.Fatalf("after a second it is %d", limit)
	}
	for range 40 {
		use(time.Second)
	}
	if _, limit := l.State(); limit <= 1000 {
		t.Fatalf("after 40 s of requests it is %d", limit)
	}
	w, _ := enter(p, l)
	if now = now.Add(time.Hour); use(0) <= 1000 { // a request is under way
		t.Error("it started again during a request")
	}
	p.Leave(w, Unsaid)
	if limit := use(59 * time.Second); limit <= 1000 {
		t.Error("it started again before a minute was over")
	}
	if limit := use(time.Minute); limit != 100 {
		t.Errorf("after a minute it is %d", limit)
	}
}
