package lock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// Lease is a hold on a lock. Its methods may be called from any goroutine.
//
// A result that is false means lost: another has acquired the lock since, or
// Redis no longer knows of it. Then nothing was changed.
type Lease struct {
	// ID is the lock's identifier and Attempt the number of this attempt. Fence is larger
	// than the fence of every earlier hold.
	ID      string
	Attempt int
	Fence   int64

	locker  *Locker
	text    string // the fence as the scripts write it
	started time.Time
	left    atomic.Int64 // the lease's end, ns after started, monotonic
}

func newLease(l *Locker, id, fence string, attempt int, until time.Time) *Lease {
	lease := &Lease{ID: id, Attempt: attempt, Fence: parseFence(fence), locker: l, text: fence, started: time.Now()}
	lease.left.Store(int64(until.Sub(lease.started)))
	return lease
}

// Alive reports whether the lease lasts, by a clock that only goes forward and
// was read before the request was sent; no wall clock matters. Ask immediately
// before each write to the outside, and start none when it is false.
func (l *Lease) Alive() bool { return int64(time.Since(l.started)) < l.left.Load() }

// Left is how long the lease still lasts. It is not positive if the lease is over.
func (l *Lease) Left() time.Duration {
	return time.Duration(l.left.Load()) - time.Since(l.started)
}

// Duration is how long the lease lasts after it was acquired or renewed.
func (l *Lease) Duration() time.Duration { return l.locker.o.Lease }

// Renew extends the lease to its full time from now on. False: the lease is lost.
func (l *Lease) Renew(ctx context.Context) (bool, error) {
	sent := time.Now()
	o := &l.locker.o
	value, err := l.locker.db.Eval(ctx, redisdb.Write, l.locker.renew, []string{l.locker.key(l.ID)},
		l.text, ms(o.Lease), ms(o.Retention))
	if err != nil {
		return false, fmt.Errorf("renew lock %s: %w", l.ID, err)
	}
	if redisdb.Number(value) != 1 {
		l.left.Store(0)
		return false, nil
	}
	l.left.Store(int64(sent.Sub(l.started) + o.Lease))
	return true, nil
}

// Keep renews the lease at a third of its time. The context that it returns ends when stop is
// called, or when the lease is lost or over.
func (l *Lease) Keep(ctx context.Context) (held context.Context, stop func()) {
	held, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		l.keep(held)
	}()
	return held, func() { cancel(); <-ended }
}

func (l *Lease) keep(ctx context.Context) {
	every := max(l.locker.o.Lease/3, time.Millisecond)
	for l.Alive() {
		timer := time.NewTimer(min(every, max(l.Left(), 0)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if !l.Alive() {
			return
		}
		trip, cancel := context.WithTimeout(ctx, l.Left())
		ok, err := l.Renew(trip)
		cancel()
		if err == nil && !ok {
			return
		}
	}
}

// Done records that the work is done: during the retention nobody acquires this lock.
func (l *Lease) Done(ctx context.Context) (bool, error) { return l.finish(ctx, "done") }

// Fail gives the lock up after a failure. The attempt counts, and a waiter gets the lock at
// once.
func (l *Lease) Fail(ctx context.Context) (bool, error) { return l.finish(ctx, "fail") }

// Release gives the lock up without a result. The attempt does not count, and a waiter gets
// the lock at once.
func (l *Lease) Release(ctx context.Context) (bool, error) { return l.finish(ctx, outcomeRelease) }

// outcomeRelease is the outcome of a hold that does not count as an attempt (lua/lock_end.lua).
const outcomeRelease = "release"

func (l *Lease) finish(ctx context.Context, outcome string) (bool, error) {
	value, err := l.locker.db.Eval(ctx, redisdb.Write, l.locker.end, []string{l.locker.key(l.ID)},
		l.text, outcome, ms(l.locker.o.Retention), l.locker.channel(l.ID))
	if err != nil {
		return false, fmt.Errorf("%s lock %s: %w", outcome, l.ID, err)
	}
	l.left.Store(0)
	return redisdb.Number(value) == 1, nil
}
