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
func (g *limiter) take(most int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quiet {
		return 0
	}
	n := min(most, max(g.free, 0)) // jobs that run without others may have more than there are
	g.free -= n
	return n
}

// shut tells that nothing may be claimed. The handler does not say when it has room again,
// so a timer looks. The lock is held.
func (g *limiter) shut() bool {
	if g.quiet || g.free <= 0 {
		return true
	}
	if g.room() > 0 {
		return false
	}
	if !g.looking {
		g.looking = true
		time.AfterFunc(lookForRoom, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.looking = false
			g.announce()
		})
	}
	return true
}

// ask has a shard woken when places are free, at once if some came free since it looked.
// Shards are woken in turns: a free place belongs to no shard.
func (g *limiter) ask(w *Worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.asking, w) {
		g.asking = append(g.asking, w)
	}
	g.wakeNext()
}

// pass wakes the next shard in turn while places are free. release wakes one shard, which
// may not need a place and then passes the wake-up on. A woken shard asks again only
// without a place, so the chain ends.
func (g *limiter) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wakeNext()
}

// wakeNext wakes the shard that has asked for the longest time, if places are free. The
// lock is held.
func (g *limiter) wakeNext() {
	if len(g.asking) > 0 && !g.shut() {
		w := g.asking[0]
		g.asking = g.asking[1:]
		w.sender.wake()
	}
}

// unasked tells that no shard waits for places and no job is to run without others, so that a call
// may use the places that its results free.
func (g *limiter) unasked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asking) == 0 && !g.quiet
}

// release frees places and wakes the shard that has asked for the longest time.
func (g *limiter) release(n int) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += n
	g.announce()
}

// announce wakes all goroutines that wait, and the next shard. The lock is held.
func (g *limiter) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
	g.wakeNext()
}

// wait calls try under the lock until it returns true or ctx ends.
func (g *limiter) wait(ctx context.Context, try func() bool) bool {
	for {
		g.mu.Lock()
		if ctx.Err() == nil && try() {
			g.mu.Unlock()
			return true
		}
		changed := g.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// open waits until there is a free place.
func (g *limiter) open(ctx context.Context) bool {
	return g.wait(ctx, func() bool { return !g.shut() })
}

// isolate keeps new jobs from starting and waits, at most for the patience, until none is unfinished.
// Then it takes the places. Jobs that last longer than the patience still run.
func (g *limiter) isolate(ctx context.Context, how isolation) bool {
	if !g.wait(ctx, func() bool { ok := !g.quiet; g.quiet = true; return ok }) {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, how.patience)
	defer cancel()
	g.wait(waiting, func() bool { return g.free == g.total })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free -= how.most
	return true
}

// group is how many jobs may run without others: at most so many, and at least one.
func (g *limiter) group(most int) int { return min(most, g.total, max(g.room(), 1)) }

// together ends what isolate began. The jobs themselves release the places that isolate took.
func (g *limiter) together() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.quiet = false
	for _, w := range g.asking {
		w.sender.wake()
	}
	g.asking = nil
	g.announce()
}

// idle waits until no job is unfinished.
func (g *limiter) idle(ctx context.Context) bool {
	return g.wait(ctx, func() bool { return g.free == g.total })
}
