package queue

import (
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// outage has one line of the log for the time that Redis is away, for whichever shards
// of a queue, and one when all of them are back.
type outage struct {
	away   atomic.Int64 // how many shards; read it without the lock
	mu     sync.Mutex
	shards map[int]struct{}
	since  time.Time
}

// failed notes that a step of a shard failed, and why.
func (q *Queue) failed(shard int, step string, err error, args ...any) {
	args = append(args, "shard", shard, "error", err)
	switch api.CodeOf(q.db.Err(err, redisdb.Read)) {
	case api.CodeUnavailable, api.CodeUnknownOutcome:
	default:
		q.o.Logger.Warn(step, args...)
		return
	}
	o := &q.outage
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.shards) == 0 {
		o.shards, o.since = map[int]struct{}{}, time.Now()
		q.o.Logger.Warn("Redis is away, work waits", append(args, "step", step)...)
	} else {
		q.o.Logger.Debug(step, args...)
	}
	o.shards[shard] = struct{}{}
	o.away.Store(int64(len(o.shards)))
}

// worked notes that Redis answered for a shard.
func (q *Queue) worked(shard int) {
	o := &q.outage
	if o.away.Load() == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, was := o.shards[shard]; !was {
		return
	}
	delete(o.shards, shard)
	o.away.Store(int64(len(o.shards)))
	if len(o.shards) == 0 {
		q.o.Logger.Info("Redis is back", "away", time.Since(o.since).Round(time.Millisecond))
	}
}
