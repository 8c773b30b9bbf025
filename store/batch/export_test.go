package batch

import "time"

// UnderWay is how many runs are under way, and how many of them are slow.
func (g *Group[T, R]) UnderWay() (running, slow int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.slow
}

// Waiting is how many items wait for a run.
func (c *Crowd[T]) Waiting() int { return c.group.Waiting() }

// SetMaxWait changes how long an item waits until it does not leave any more.
func (c *Crowd[T]) SetMaxWait(d time.Duration) { c.maxWait = d }
