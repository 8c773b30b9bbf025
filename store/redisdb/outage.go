package redisdb

import (
	"sync"
	"sync/atomic"
	"time"
)

// tryAgainAfter is how long Avoid holds after a failure.
const tryAgainAfter = 5 * time.Second

// Outage remembers which parts of a whole (the shards of a queue) could not reach Redis at their
// last try. It reports once when the first part goes away, and once when the last part is back. The
// zero value works. It is safe for concurrent use.
type Outage struct {
	away  atomic.Int64 // how many parts; read without the lock
	mu    sync.Mutex
	parts map[int]time.Time // the parts that are away, and when Avoid lets a caller try again
	since time.Time
}

// Failed notes that a part could not reach Redis, and reports whether it is the first.
func (o *Outage) Failed(part int) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first = len(o.parts) == 0; first {
		o.parts, o.since = map[int]time.Time{}, time.Now()
	}
	o.parts[part] = time.Now().Add(tryAgainAfter)
	o.away.Store(int64(len(o.parts)))
	return first
}

// Worked notes that Redis answered a part. It reports whether that part was the last one
// away, and how long Redis was away.
func (o *Outage) Worked(part int) (away time.Duration, last bool) {
	if o.away.Load() == 0 {
		return 0, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, was := o.parts[part]; !was {
		return 0, false
	}
	delete(o.parts, part)
	o.away.Store(int64(len(o.parts)))
	return time.Since(o.since).Round(time.Millisecond), len(o.parts) == 0
}

// Avoid tells a caller to use another part if it can. While a part is away and nothing
// tries it, one caller in 5 s is let through to try.
func (o *Outage) Avoid(part int) bool {
	if o.away.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now, at := time.Now(), o.parts[part]
	if at.IsZero() || now.Before(at) {
		return !at.IsZero()
	}
	o.parts[part] = now.Add(tryAgainAfter)
	return false
}
