package queue

import (
	"sync/atomic"
	"time"
)

// parkedPercent of what Redis may use is what parked jobs may take, unless Options say.
const parkedPercent = 30

// parked is what this process knows of the parked jobs of a shard: its own calls that
// park or bring back tell at once, the regular look tells what others did.
type parked struct {
	bytes atomic.Int64
	full  atomic.Int64 // since when (Redis' time in ms) they have all that they may take; 0: they do not
}

// tell notes what a script said; negative: nothing.
func (p *parked) tell(bytes int64) {
	if bytes >= 0 {
		p.bytes.Store(bytes)
	}
}

// MayPark tells whether a job of this routing key may be parked, which was enqueued then;
// both times are Redis'. While parked jobs take all that they may, only what was enqueued before that
// may: the memory that it takes is no more than it took.
func (q *Queue) MayPark(key string, enqueued, now time.Time) bool {
	p, limit := &q.parked[q.Route(key)], q.parkedBytes()/int64(q.o.Shards)
	switch bytes := p.bytes.Load(); {
	case limit == 0 || bytes < limit-limit/10: // what goes for a probe, and comes back, makes no room
		p.full.Store(0)
		return true
	case bytes < limit && p.full.Load() == 0:
		return true
	}
	p.full.CompareAndSwap(0, now.UnixMilli())
	return enqueued.UnixMilli() <= p.full.Load()
}

// parkedBytes is what the parked jobs of all shards may take; 0: there is no limit.
func (q *Queue) parkedBytes() int64 {
	if q.o.ParkedBytes > 0 {
		return q.o.ParkedBytes
	}
	if r := q.db.Reading(); r != nil {
		return r.Limit * parkedPercent / 100
	}
	return 0
}
