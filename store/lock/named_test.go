package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// tryAs must succeed, whatever the answer.
func tryAs(t *testing.T, l *lock.Locker, r lock.Request) lock.Answer {
	t.Helper()
	a, err := l.TryAs(t.Context(), "x", r)
	storetest.Must(t, err)
	return a
}

func TestL2_ARepeatHasTheSameHold(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Hour})
		mine, theirs := lock.Request{Name: "mine", Body: "b1"}, lock.Request{Name: "theirs", Body: "b1"}
		first := tryAs(t, l, mine)
		if first.Status != lock.Acquired || first.Repeated {
			t.Fatalf("the first acquire: %+v", first)
		}
		for range 2 {
			if again := tryAs(t, l, mine); again.Status != lock.Acquired || !again.Repeated || again.Lease.Fence != first.Lease.Fence || again.Attempt != 1 {
				t.Errorf("a repeat: %+v", again)
			}
		}
		for r, want := range map[lock.Request]lock.Status{
			theirs: lock.Held, {Name: "mine", Body: "b2"}: lock.Reused, {Name: "mi", Body: "ne.b1"}: lock.Held, lock.NewRequest(): lock.Held,
		} {
			if a := tryAs(t, l, r); a.Status != want {
				t.Errorf("%+v is answered %v, want %v", r, a.Status, want)
			}
		}
		mustBe(t, true, "release", first.Lease.Release)
		if other := tryAs(t, l, mine); other.Status != lock.Acquired || other.Repeated || other.Lease.Fence <= first.Lease.Fence || other.Attempt != 1 {
			t.Errorf("a repeat after the release: %+v, after fence %d", other, first.Lease.Fence)
		}
		mustBe(t, false, "renew the hold before", first.Lease.Renew)
	})
}

func TestL2_TheFirstAcquireDecidesTheAttempts(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Hour, MaxAttempts: 2})
		other := l.With(lock.Options{MaxAttempts: 3})
		first := tryAs(t, l, lock.NewRequest())
		check := func() {
			t.Helper()
			if a := tryAs(t, other, lock.NewRequest()); a.Status != lock.OtherAttempts || a.MaxAttempts != 2 {
				t.Errorf("another number of attempts is answered %+v", a)
			}
		}
		check()
		mustBe(t, true, "fail", first.Lease.Fail)
		check()
		second := tryAs(t, l, lock.NewRequest())
		if second.Attempt != 2 {
			t.Errorf("the second attempt: %+v", second)
		}
		mustBe(t, true, "fail", second.Lease.Fail)
		for n, by := range []*lock.Locker{l, other} { // used-up attempts stay used up, for both Lockers
			if a := tryAs(t, by, lock.NewRequest()); a.Status != lock.Exhausted || a.First != (n == 0) {
				t.Errorf("after two failures: %+v", a)
			}
		}
	})
}

// A token is enough to go on with a hold in another process.
func TestToken(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{})
		elsewhere := lock.New(db, lock.Options{Name: lock.NameOf(l), Lease: time.Millisecond})
		a := tryAs(t, l.With(lock.Options{Lease: time.Hour, Retention: 2 * time.Hour}), lock.NewRequest())
		lease, ok := elsewhere.Resume("x", a.Lease.Token())
		if !ok || lease.Fence != a.Lease.Fence || lease.Attempt != 1 || lease.Duration() != time.Hour {
			t.Fatalf("%q is resumed as %+v, %v", a.Lease.Token(), lease, ok)
		}
		mustBe(t, true, "renew", lease.Renew)
		if left, ttl := lease.Left(), db.Client().PTTL(t.Context(), keyOf(l, "x")).Val(); left < 59*time.Minute || ttl < 179*time.Minute {
			t.Errorf("the renewed lease lasts %v, and its record %v", left, ttl)
		}
		mustBe(t, true, "done", lease.Done)
		mustBe(t, false, "renew after that", lease.Renew)
		for _, text := range []string{
			"", "x", "1.1.1", "1.1.1.1.1", "0.1.30000.3600000", "-1.1.30000.3600000", "+1.1.30000.3600000", "01.1.30000.3600000",
			"1.1.86400001.3600000", "1.1.30000.2592000001", "1.1.30000.", "1.1.30000.9223372036854775808", a.Lease.Token() + " ",
		} {
			if lease, ok := l.Resume("x", text); ok {
				t.Errorf("%q is a token: %+v", text, lease)
			}
		}
	})
}

func TestLook(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Hour, MaxAttempts: 2})
		look := func(want lock.State) {
			t.Helper()
			got, err := l.Look(t.Context(), "x")
			storetest.Must(t, err)
			if held := got.Left > 59*time.Minute; held != (want.Status == lock.Held) {
				t.Errorf("%v are left of %+v", got.Left, want)
			}
			if got.Left = 0; got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		look(lock.State{})
		lease := mustHold(t, l, "x")
		look(lock.State{Status: lock.Held, Attempt: 1, Fence: lease.Fence})
		mustBe(t, true, "fail", lease.Fail)
		look(lock.State{Attempt: 1, Fence: lease.Fence})
		lease = mustHold(t, l.With(lock.Options{Lease: time.Millisecond}), "x")
		waitOver(t, l, "x")
		look(lock.State{Attempt: 2, Fence: lease.Fence})
		if a := mustTry(t, l, "x"); a.Status != lock.Exhausted {
			t.Fatalf("after two attempts: %+v", a)
		}
		look(lock.State{Status: lock.Exhausted})

		done, err := l.TryAcquire(t.Context(), "y")
		storetest.Must(t, err)
		mustBe(t, true, "done", done.Lease.Done)
		if got, err := l.Look(t.Context(), "y"); err != nil || got != (lock.State{Status: lock.Done, Fence: done.Lease.Fence}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// A wait that ends has the last answer, and is no error.
func TestWaitAs(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Hour})
		first, me := tryAs(t, l, lock.NewRequest()), lock.Request{Name: "me", Body: "b"}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		a, err := l.WaitAs(short, "x", me, tryAs(t, l, me))
		if err != nil || a.Status != lock.Held || a.Attempt != 1 || a.Left < 59*time.Minute || a.Left > time.Hour {
			t.Errorf("after the wait: %+v, %v", a, err)
		}
		woken := make(chan lock.Answer)
		go func() {
			a, err := l.WaitAs(t.Context(), "x", me, a)
			if err != nil {
				t.Error(err)
			}
			woken <- a
		}()
		eventually(t, "it waits", func() bool { return lock.Waiters(l, "x") == 1 })
		mustBe(t, true, "fail", first.Lease.Fail)
		if a = <-woken; a.Status != lock.Acquired || a.Attempt != 2 || a.Lease.Fence <= first.Lease.Fence {
			t.Errorf("woken with %+v", a)
		}
	})
}

// A request that nobody repeats, whose answer was lost, leaves no hold and no attempt behind. One that its caller
// repeats finds its hold.
func TestL1_ALostAnswer(t *testing.T) {
	t.Parallel()
	proxy, through := storetest.ProxyTo(t, storetest.Redis(t).URL())
	l := setup(t, storetest.Open(t, through), lock.Options{Lease: time.Hour, MaxAttempts: 1})
	if a, err := l.TryAs(t.Context(), "warm", lock.NewRequest()); err != nil || a.Status != lock.Acquired {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, r := range []lock.Request{lock.NewRequest(), {Name: "mine", Body: "b"}} {
		ctx, cancel := context.WithCancel(t.Context())
		var lost atomic.Bool
		proxy.OnAnswer(func(*storetest.ProxyConn, []byte) storetest.Fate {
			if lost.Swap(true) {
				return storetest.Pass
			}
			cancel()
			return storetest.Swallow
		})
		_, err := l.TryAs(ctx, "x", r)
		proxy.OnAnswer(nil)
		storetest.WantCode(t, err, api.CodeUnknownOutcome)
		if r.Body == "" {
			eventually(t, "the hold is given back", func() bool { return !lock.HeldNow(t.Context(), l, "x") })
		} else if a := tryAs(t, l, r); a.Status != lock.Acquired || !a.Repeated || a.Attempt != 1 {
			t.Errorf("a repeat: %+v", a)
		}
	}
}
