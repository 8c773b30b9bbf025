package queue

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// lookForRoom is how soon somebody looks again for room that nobody told of.
const lookForRoom = 5 * time.Millisecond

// gate bounds the unfinished jobs of a process, and lets one job run alone.
type gate struct {
	mu      sync.Mutex
	free    int
	total   int
	room    func() int     // Options.Room
	looking bool           // somebody will look for it
	quiet   bool           // nothing new may start: a job runs alone
	asking  []*shardWorker // those that found no place, in the order in which they asked
	changed chan struct{}  // closed, and made again, at every change
}

// endless is the room of a handler that says nothing of it.
func endless() int { return math.MaxInt }

func newGate(total int, room func() int) *gate {
	return &gate{free: total, total: total, room: room, changed: make(chan struct{})}
}

// take takes at most that many places, now; 0: there is none.
func (g *gate) take(most int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.quiet {
		return 0
	}
	n := min(most, max(g.free, 0)) // a job that runs alone may have one more than there are
	g.free -= n
	return n
}

// shut tells that nothing may be claimed. The handler does not say when it has room again:
// somebody looks in a moment. The lock is held.
func (g *gate) shut() bool {
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
			g.looking = false
			s := g.announce()
			g.mu.Unlock()
			if s != nil {
				s.ends.kick()
			}
		})
	}
	return true
}

// ask has a shard told when places are free, also when they came free since it found
// none. Shards are told in turns: a place that comes free belongs to none.
func (g *gate) ask(s *shardWorker) {
	g.mu.Lock()
	if !slices.Contains(g.asking, s) {
		g.asking = append(g.asking, s)
	}
	g.mu.Unlock()
	g.pass()
}

// pass tells the next in turn while places are free: release tells only one, who may
// have no use for them. Who was told asks again only if it finds none, so this ends.
func (g *gate) pass() {
	g.mu.Lock()
	s := g.next()
	g.mu.Unlock()
	if s != nil {
		s.ends.kick()
	}
}

// next is the shard to be told that places are free; nil: none. The lock is held.
func (g *gate) next() *shardWorker {
	if len(g.asking) == 0 || g.shut() {
		return nil
	}
	s := g.asking[0]
	g.asking = g.asking[1:]
	return s
}

// unasked tells that results may use the places that they free: no shard waits for
// any, and no job is to run alone.
func (g *gate) unasked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asking) == 0 && !g.quiet
}

// release frees places and tells the shard that has asked for the longest time.
func (g *gate) release(n int) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	g.free += n
	s := g.announce()
	g.mu.Unlock()
	if s != nil {
		s.ends.kick()
	}
}

// announce wakes those who wait and gives the shard to be told; the lock is held.
func (g *gate) announce() *shardWorker {
	close(g.changed)
	g.changed = make(chan struct{})
	return g.next()
}

// wait calls try, under the lock, until it says yes or ctx ends.
func (g *gate) wait(ctx context.Context, try func() bool) bool {
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
func (g *gate) open(ctx context.Context) bool {
	return g.wait(ctx, func() bool { return !g.shut() })
}

// alone keeps new jobs from starting and waits, at most for limit, until none
// is unfinished; then it takes one place. Some may still run when there are
// jobs longer than limit.
func (g *gate) alone(ctx context.Context, limit time.Duration) bool {
	if !g.wait(ctx, func() bool { ok := !g.quiet; g.quiet = true; return ok }) {
		return false
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g.wait(waiting, func() bool { return g.free == g.total })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free--
	return true
}

// together ends what alone began; the place taken is released by its job.
func (g *gate) together() {
	g.mu.Lock()
	g.quiet = false
	asking := g.asking
	g.asking = nil
	g.announce()
	g.mu.Unlock()
	for _, s := range asking {
		s.ends.kick()
	}
}

// idle waits until no job is unfinished.
func (g *gate) idle(ctx context.Context) bool {
	return g.wait(ctx, func() bool { return g.free == g.total })
}
