package redisdb

import (
	"sync"
	"sync/atomic"
	"time"
)

// Outage tells when Redis went away and when it is back, each once, for whichever parts of
// a whole (the shards of a queue) are concerned. Its zero value works; it is safe for
// concurrent use.
type Outage struct {
	away  atomic.Int64 // how many parts; read it without the lock
	mu    sync.Mutex
	parts map[int]struct{}
	since time.Time
}

// Failed notes that a part could not reach Redis, and tells whether it is the first.
func (o *Outage) Failed(part int) (first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first = len(o.parts) == 0; first {
		o.parts, o.since = map[int]struct{}{}, time.Now()
	}
	o.parts[part] = struct{}{}
	o.away.Store(int64(len(o.parts)))
	return first
}

// Worked notes that Redis answered a part, and tells whether it was the last one away, and
// how long they were.
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

// Has tells that a part could not reach Redis when it was tried last.
func (o *Outage) Has(part int) bool {
	if o.away.Load() == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, is := o.parts[part]
	return is
}
