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
	stats
)

// Stats describes the queue, all its shards together, in one pipeline. Retries
// and recovered leases count since the queue began; WakeupMS is this process's
// mean from enqueueing to claiming of jobs that woke an idle worker.
func (q *Queue) Stats(ctx context.Context) (api.QueueStats, error) {
	out := api.QueueStats{Name: q.o.Name, WakeupMS: float64(q.common.Wakeup.Load()) / 1000}
	cmds := make([]redis.Cmder, q.o.Shards)
	for shard := range cmds {
		cmds[shard] = q.common.Scripts.Stats.Cmd(ctx, q.shards[shard].Keys())
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
	out.Dropped += redisdb.Number(v[statDropped])
	if redisdb.Number(v[statServed]) == 0 {
		out.Unserved = append(out.Unserved, shard)
	}
}
