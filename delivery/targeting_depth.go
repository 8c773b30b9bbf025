package delivery

import (
	"sync"
	"time"
)

// depthGuess remembers the last known depth of the shards. A process that only
// targets learns the depth of a shard when it writes to it. When the depth has
// not changed for a while, it has to write a part to learn it.
type depthGuess struct {
	mu    sync.Mutex
	sum   int64
	since time.Time
}

// stale tells whether the number has not moved for a while. It says so once.
func (g *depthGuess) stale(sum int64, now time.Time, after time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sum == g.sum && now.Sub(g.since) < after {
		return false
	}
	moved := sum != g.sum
	g.sum, g.since = sum, now
	return !moved
}

// blindAfter is how long an unchanged depth defers parts.
const blindAfter = 250 * time.Millisecond

// blindDeepest is the contract's bound: beyond it no part is written to learn the
// depth.
const blindDeepest = 10_000

// tooDeep tells whether some notification shard holds more than the bound.
func (t *Targeting) tooDeep() bool {
	q := t.o.Notifications
	var sum, deepest int64
	for n := range q.Shards() {
		d := q.Depth(n)
		sum, deepest = sum+d, max(deepest, d)
	}
	if deepest <= t.o.Deep {
		return false
	}
	return deepest > blindDeepest || !t.deep.stale(sum, time.Now(), blindAfter)
}
