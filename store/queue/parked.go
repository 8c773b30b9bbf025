package queue

import (
	"sync/atomic"
	"time"
)

// parkedPercent of what Redis may use is what parked jobs may take, unless Options say.
const parkedPercent = 30

// parked is what this process knows of the parked jobs of a shard. Its own calls that park
// jobs or move them back update it at once, the regular look does for those of others.
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

// MayPark tells whether a job of this routing key that was enqueued then may be parked;
// both times are Redis'. While parked jobs take all the memory that they may, only jobs
// that were enqueued before that may be parked: those take no more memory than before.
func (q *Queue) MayPark(key string, enqueued, now time.Time) bool {
	p, limit := &q.shards[q.Route(key)].parked, q.parkedBytes()/int64(q.o.Shards)
	switch bytes := p.bytes.Load(); {
	case limit == 0 || bytes < limit-limit/10: // a job that is unparked as a probe and parked again makes no room
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
