package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// maxUnpark is the most jobs that one step moves.
const maxUnpark = 100

// Now is the time by Redis' clock, which decides when the jobs of a shard are due: see
// redisdb.DB.Now.
func (q *Queue) Now(ctx context.Context, shard int) (time.Time, error) {
	return q.db.Now(ctx, q.shards[shard].DeadKey())
}

// Unpark lets at most most (100) of the jobs parked under a name in a shard go
// on, the oldest first, and tells how many those were; 0: none is left.
func (q *Queue) Unpark(ctx context.Context, shard int, name string, most int) (int, error) {
	value, err := q.db.Eval(ctx, redisdb.Write, q.common.Scripts.Unpark, q.shards[shard].Keys(), name, min(most, maxUnpark))
	if err != nil {
		return 0, err
	}
	q.shards[shard].CheckSoon(context.WithoutCancel(ctx))
	answer, _ := value.([]any)
	q.shards[shard].NoteParked(redisdb.NumberAt(answer, 1))
	return int(redisdb.NumberAt(answer, 0)), nil
}

// ParkedCounts tells how many jobs are parked under each name, those of all shards together, in one
// pipeline.
func (q *Queue) ParkedCounts(ctx context.Context) (map[string]int64, error) {
	cmds := make([]redis.Cmder, q.o.Shards)
	for n := range cmds {
		cmds[n] = redis.NewMapStringIntCmd(ctx, "hgetall", q.shards[n].ParkedCountsKey())
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	counts := map[string]int64{}
	for n, cmd := range cmds {
		of, err := cmd.(*redis.MapStringIntCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("parked jobs of %s shard %d: %w", q.o.Name, n, err)
		}
		for name, count := range of {
			counts[name] += count
		}
	}
	return counts, nil
}

// ParkedNames gives what the regular looks at the shards that this process
// works on find parked, some names each time and sooner or later all. Names are
// left out while nobody reads. The parked streams themselves are asked, so that
// no lost message and no ended process can hide a job.
func (q *Queue) ParkedNames() <-chan ParkedName { return q.common.Names }

// LookAgain has the shard's regular look, if this process works on the shard,
// come after d at the latest.
func (q *Queue) LookAgain(shard int, after time.Duration) { q.shards[shard].WakeMaintainer(after) }

// parkedPercent of what Redis may use is what parked jobs may take, unless Options say.
const parkedPercent = 30

// MayPark reports whether a job of this routing key that was enqueued then may be parked;
// both times are Redis'. While parked jobs take all the memory that they may, only jobs
// that were enqueued before that may be parked: those take no more memory than before.
func (q *Queue) MayPark(key string, enqueued, now time.Time) bool {
	n := q.Route(key)
	full, limit := &q.full[n], q.parkedBytes()/int64(q.o.Shards)
	switch bytes := q.shards[n].Parked.Load(); {
	case limit == 0 || bytes < limit-limit/10: // a job that is unparked as a probe and parked again makes no room
		full.Store(0)
		return true
	case bytes < limit && full.Load() == 0:
		return true
	}
	full.CompareAndSwap(0, now.UnixMilli())
	return enqueued.UnixMilli() <= full.Load()
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
