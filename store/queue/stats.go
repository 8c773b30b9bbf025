package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Values of shard_stats.lua by position.
const (
	statWaiting = iota
	statBlocked
	statLater
	statClaimed
	statRetries
	statDead
	statParked
	statOldest
	statRecovered
	statServed
	statDropped
	statLive
	stats
)

// Stats describes the queue, all its shards together, in one pipeline. Retries
// and recovered leases count since the queue began; WakeupMS is this process's
// mean from enqueueing to claiming of jobs that woke an idle worker.
func (q *Queue) Stats(ctx context.Context) (api.QueueStats, error) {
	out := api.QueueStats{Name: q.o.Name, WakeupMS: float64(q.wakeup.Load()) / 1000}
	cmds := make([]redis.Cmder, q.o.Shards)
	for shard := range cmds {
		cmds[shard] = q.scripts.stats.Cmd(ctx, q.keys(shard))
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return out, err
	}
	for shard, cmd := range cmds {
		v, err := cmd.(*redis.Cmd).Slice()
		if err != nil || len(v) != stats {
			return out, fmt.Errorf("stats of %s shard %d: %w", q.o.Name, shard, err)
		}
		addStats(&out, shard, v)
	}
	return out, nil
}

// DroppedDead counts the dead letters that were dropped because they were too
// old or too many, since the queue began.
func (q *Queue) DroppedDead(ctx context.Context) (int64, error) {
	cmds := make([]redis.Cmder, q.o.Shards)
	for shard := range cmds {
		cmds[shard] = redis.NewStringCmd(ctx, "hget", q.prefix(shard)+"stats", "dropped")
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return 0, err
	}
	total := int64(0)
	for _, cmd := range cmds {
		n, err := cmd.(*redis.StringCmd).Int64()
		if err != nil && err != redis.Nil {
			return 0, fmt.Errorf("count dropped dead letters of %s: %w", q.o.Name, err)
		}
		total += n
	}
	return total, nil
}

func addStats(out *api.QueueStats, shard int, v []any) {
	out.Depth += redisdb.Number(v[statWaiting])
	out.Blocked += redisdb.Number(v[statBlocked])
	out.Scheduled += redisdb.Number(v[statLater])
	out.InFlight += redisdb.Number(v[statClaimed])
	out.Retries += redisdb.Number(v[statRetries])
	out.DeadLetters += redisdb.Number(v[statDead])
	out.Parked += redisdb.Number(v[statParked])
	out.OldestAgeMS = max(out.OldestAgeMS, redisdb.Number(v[statOldest]))
	out.Recovered += redisdb.Number(v[statRecovered])
	if redisdb.Number(v[statServed]) == 0 {
		out.Unserved = append(out.Unserved, shard)
	}
}
