package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// trip sends commands in a round trip of their own, and notes when the shard cannot be
// reached.
func (s *shard) trip(ctx context.Context, cmds ...redis.Cmder) error {
	err := s.db.Pipeline(ctx, redisdb.Write, cmds...)
	if err != nil && ctx.Err() == nil {
		s.noteFailure()
	}
	return err
}

// noteFailure remembers that a shard could not be reached just now: on a Cluster its
// master may be the only one that hangs.
func (s *shard) noteFailure() { s.failedAt.Store(int64(time.Since(s.made)) + 1) }

// failedSince tells that a shard could not be reached at some time after then.
func (s *shard) failedSince(then time.Time) bool { return s.failedAt.Load() > int64(then.Sub(s.made)) }

// failed logs that a step of a shard failed. While Redis is away it logs one line for all
// shards together, and worked logs another one when all of them are back.
func (s *shard) failed(step string, err error, args ...any) {
	args = append(args, "shard", s.n, "error", err)
	switch {
	case !s.db.Away(err):
		s.o.Logger.Warn(step, args...)
	case s.outage.Failed(s.n):
		s.o.Logger.Warn("Redis is away, work waits", append(args, "step", step)...)
	default:
		s.o.Logger.Debug(step, args...)
	}
}

// worked notes that Redis answered for a shard.
func (s *shard) worked() {
	if away, last := s.outage.Worked(s.n); last {
		s.o.Logger.Info("Redis is back", "away", away)
	}
}

// Avoid tells that a shard could not be reached when this process tried it last: what
// may be enqueued in any shard goes to another. When the process has not tried the shard
// for 5 s, one caller is told to.
func (q *Queue) Avoid(shard int) bool { return q.common.outage.Avoid(shard) }
