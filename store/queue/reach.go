package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// trip sends commands in a round trip of their own, and notes when the shard cannot be
// reached.
func (s *shardWorker) trip(ctx context.Context, cmds ...redis.Cmder) error {
	err := s.worker.q.db.Pipeline(ctx, redisdb.Write, cmds...)
	if err != nil && ctx.Err() == nil {
		s.worker.q.noteFailure(s.shard)
	}
	return err
}

// noteFailure remembers that a shard could not be reached just now: on a Cluster its
// master may be the only one that hangs.
func (q *Queue) noteFailure(shard int) { q.failedAt[shard].Store(int64(time.Since(q.made)) + 1) }

// failedSince tells that a shard could not be reached at some time after then.
func (q *Queue) failedSince(shard int, then time.Time) bool {
	return q.failedAt[shard].Load() > int64(then.Sub(q.made))
}

// failed logs that a step of a shard failed. While Redis is away it logs one line for all
// shards together, and worked logs another one when all of them are back.
func (q *Queue) failed(shard int, step string, err error, args ...any) {
	args = append(args, "shard", shard, "error", err)
	switch {
	case !q.db.Away(err):
		q.o.Logger.Warn(step, args...)
	case q.outage.Failed(shard):
		q.o.Logger.Warn("Redis is away, work waits", append(args, "step", step)...)
	default:
		q.o.Logger.Debug(step, args...)
	}
}

// worked notes that Redis answered for a shard.
func (q *Queue) worked(shard int) {
	if away, last := q.outage.Worked(shard); last {
		q.o.Logger.Info("Redis is back", "away", away)
	}
}

// Avoid tells that a shard could not be reached when this process tried it last: what
// may be enqueued in any shard goes to another. When the process has not tried the shard
// for 5 s, one caller is told to.
func (q *Queue) Avoid(shard int) bool { return q.outage.Avoid(shard) }
