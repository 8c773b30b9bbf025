package queue

import (
	"context"
	"sync"
	"time"
)

// gate bounds the unfinished jobs of a process, and lets one job run alone.
type gate struct {
	mu      sync.Mutex
	free    int
	total   int
	quiet   bool          // nothing new may start: a job runs alone
	changed chan struct{} // closed at every change
}

func newGate(total int) *gate {
	return &gate{free: total, total: total, changed: make(chan struct{})}
}

func (g *gate) announce() {
	close(g.changed)
	g.changed = make(chan struct{})
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

// acquire takes 1 to most places, waiting for one; 0 when ctx ended.
func (g *gate) acquire(ctx context.Context, most int) (n int) {
	g.wait(ctx, func() bool {
		if g.quiet || g.free == 0 {
			return false
		}
		n = min(most, g.free)
		g.free -= n
		return true
	})
	return n
}

func (g *gate) release(n int) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free += n
	g.announce()
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
	defer g.mu.Unlock()
	g.quiet = false
	g.announce()
}

// idle waits until no job is unfinished.
func (g *gate) idle(ctx context.Context) bool {
	return g.wait(ctx, func() bool { return g.free == g.total })
}

// force takes places without asking, for jobs that are claimed already.
func (g *gate) force(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.free -= n
}
