package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/lock"
	"fanfare/store/storetest"
)

// contender is one who wants a lock, in the textbook's way and in ours.
type contender interface {
	// acquire asks once; between runs between the check and the write, for an
	// algorithm that has both.
	acquire(between func()) (acquired bool)
	done()
	unlock() // gives up what it believes to hold
	fail()
}

// textbookLock is the textbook's algorithm: SETNX with the number of the attempt, a
// check of the value, a write of the next number or of DONE, DEL to unlock.
// Each worker has one attempt, and the last one cleans up.
type textbookLock struct {
	c     redis.Cmdable
	key   string
	tried bool
}

func (s *textbookLock) acquire(between func()) bool {
	ctx := context.Background()
	if s.tried {
		return false
	}
	if s.c.SetNX(ctx, s.key, 1, 0).Val() {
		s.tried = true
		return true
	}
	value := s.c.Get(ctx, s.key).Val()
	between()
	if value == "DONE" {
		return false
	}
	s.tried = true
	s.c.Incr(ctx, s.key) // the next attempt; on DONE the textbook's lock went on with NaN
	return true
}

func (s *textbookLock) done()   { s.c.Set(context.Background(), s.key, "DONE", 0) }
func (s *textbookLock) unlock() { s.c.Del(context.Background(), s.key) }
func (s *textbookLock) fail()   {}

// ourLock is this package behind the same face.
type ourLock struct {
	t     testing.TB
	l     *lock.Locker
	lease *lock.Lease
}

func (o *ourLock) acquire(between func()) bool {
	between() // there is nothing in between: it is one step
	a := mustTry(o.t, o.l, "x")
	if a.Status == lock.Acquired {
		o.lease = a.Lease
	}
	return a.Status == lock.Acquired
}

func (o *ourLock) done()   { _, _ = o.lease.Done(context.Background()) }
func (o *ourLock) unlock() { _, _ = o.lease.Release(context.Background()) }
func (o *ourLock) fail()   { _, _ = o.lease.Fail(context.Background()) }

// bench makes contenders of one lock, and tells its TTL.
type bench struct {
	contender func() contender
	leaseOver func()
	ttl       func() time.Duration
}

func nothing() {}

var textbookFaults = map[string]func(b bench) string{
	"DoneBetweenCheckAndReacquire": func(b bench) string {
		holder, other := b.contender(), b.contender()
		holder.acquire(nothing)
		b.leaseOver()
		if other.acquire(holder.done) {
			return "acquired although it was done"
		}
		return ""
	},
	"LateContender": func(b bench) string {
		holder := b.contender()
		holder.acquire(nothing)
		holder.done()
		holder.unlock() // everybody leaves
		if b.contender().acquire(nothing) {
			return "a late contender did it again"
		}
		return ""
	},
	"NoTTL": func(b bench) string {
		b.contender().acquire(nothing)
		if b.ttl() < 0 {
			return "the key stays for ever"
		}
		return ""
	},
	"AttemptsCappedByWorkers": func(b bench) string {
		workers, attempts := []contender{b.contender(), b.contender()}, 0
		for range 5 {
			for _, w := range workers {
				if w.acquire(nothing) {
					attempts++
					w.fail()
				}
			}
		}
		if attempts != 5 {
			return fmt.Sprintf("%d attempts of 5", attempts)
		}
		return ""
	},
	"UnlockOfAnothersLock": func(b bench) string {
		old, next := b.contender(), b.contender()
		old.acquire(nothing)
		b.leaseOver()
		next.acquire(nothing)
		old.unlock()
		if b.contender().acquire(nothing) {
			return "a third got in after a stale unlock"
		}
		return ""
	},
}

// TestFaultsOfTheTextbook shows that each check finds its fault in the textbook's
// algorithm, and none here.
func TestFaultsOfTheTextbook(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	for name, check := range textbookFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := "textbook:" + name
			textbook := bench{contender: func() contender { return &textbookLock{c: db.Client(), key: key} }, leaseOver: nothing,
				ttl: func() time.Duration { return db.Client().PTTL(t.Context(), key).Val() }}
			if check(textbook) == "" {
				t.Error("the check does not find the fault in the textbook's way")
			}
			l := setup(t, db, lock.Options{Lease: 300 * time.Millisecond, MaxAttempts: 5})
			ours := bench{contender: func() contender { return &ourLock{t: t, l: l} }, leaseOver: func() { waitOver(t, l, "x") },
				ttl: func() time.Duration { return db.Client().PTTL(t.Context(), keyOf(l, "x")).Val() }}
			if fault := check(ours); fault != "" {
				t.Error(fault)
			}
		})
	}
}
