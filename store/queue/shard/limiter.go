package shard

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lookForRoom is how often the room of a handler without any is looked at.
const lookForRoom = 5 * time.Millisecond

// limiter bounds the unfinished jobs of a process, and lets some run without others.
type limiter struct {
	mu      sync.Mutex
	free    int
	total   int
	room    func() int    // how many more jobs the handler has use for
	looking bool          // a timer will look at room again
	quiet   bool          // nothing new may start: some jobs run without others
	asking  []*Worker     // shards that found no free place, in the order in which they asked
	changed chan struct{} // closed, and made again, at every change
}

func newLimiter(total int, room func() int) *limiter {
	return &limiter{free: total, total: total, room: room, changed: make(chan struct{})}
}

// take takes up to most places without waiting and returns how many it got.
func (l *limiter) take(most int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet {
		return 0
	}
	n := min(most, max(l.free, 0)) // jobs that run without others may have more than there are
	l.free -= n
	return n
}

// full reports whether nothing may be claimed. The handler does not say when it has room again,
// so a timer looks. The lock is held.
func (l *limiter) full() bool {
	if l.quiet || l.free <= 0 {
		return true
	}
	if l.room() > 0 {
		return false
	}
	if !l.looking {
		l.looking = true
		time.AfterFunc(lookForRoom, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.looking = false
			l.announce()
		})
	}
	return true
}

// ask has a shard woken when places are free, at once if some came free since it looked.
// Shards are woken in turns: a free place belongs to no shard.
func (l *limiter) ask(w *Worker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.asking, w) {
		l.asking = append(l.asking, w)
	}
	l.wakeNext()
}

// pass wakes the next shard in turn while places are free. release wakes one shard, which
// may not need a place and then passes the wake-up on. A woken shard asks again only
// without a place, so the chain ends.
func (l *limiter) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeNext()
}

// wakeNext wakes the shard that has asked for the longest time, if places are free. The
// lock is held.
func (l *limiter) wakeNext() {
	if len(l.asking) > 0 && !l.full() {
		w := l.asking[0]
		l.asking = slices.Delete(l.asking, 0, 1)
		w.sender.wake()
	}
}

// noWaiters reports whether no shard waits for places and no job is to run without others. Then a call
// may use the places that its results free.
func (l *limiter) noWaiters() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asking) == 0 && !l.quiet
}

// release frees places and wakes the shard that has asked for the longest time.
func (l *limiter) release(n int) {
	if n == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free += n
	l.announce()
}

// announce wakes all goroutines that wait, and the next shard. The lock is held.
func (l *limiter) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
	l.wakeNext()
}

// wait calls try under the lock until it returns true or ctx ends.
func (l *limiter) wait(ctx context.Context, try func() bool) bool {
	for {
		l.mu.Lock()
		if ctx.Err() == nil && try() {
			l.mu.Unlock()
			return true
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// open waits until there is a free place.
func (l *limiter) open(ctx context.Context) bool {
	return l.wait(ctx, func() bool { return !l.full() })
}

// isolate keeps new jobs from starting and waits, at most for the patience, until none is unfinished.
// Then it takes the places. Jobs that last longer than the patience still run.
func (l *limiter) isolate(ctx context.Context, how isolation) bool {
	if !l.wait(ctx, func() bool { ok := !l.quiet; l.quiet = true; return ok }) {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, how.patience)
	defer cancel()
	l.wait(waiting, func() bool { return l.free == l.total })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free -= how.most
	return true
}

// group is how many jobs may run without others: at most so many, and at least one.
func (l *limiter) group(most int) int { return min(most, l.total, max(l.room(), 1)) }

// together ends what isolate began. The jobs themselves release the places that isolate took.
func (l *limiter) together() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = false
	for _, w := range l.asking {
		w.sender.wake()
	}
	l.asking = nil
	l.announce()
}

// idle waits until no job is unfinished.
func (l *limiter) idle(ctx context.Context) bool {
	return l.wait(ctx, func() bool { return l.free == l.total })
}
