package shard

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// trip sends commands in a round trip of their own, and notes when the shard cannot be
// reached.
func (s *Shard) trip(ctx context.Context, cmds ...redis.Cmder) error {
	err := s.db.Pipeline(ctx, redisdb.Write, cmds...)
	if err != nil && ctx.Err() == nil {
		s.noteFailure()
	}
	return err
}

// noteFailure remembers that a shard could not be reached just now: on a Cluster its
// master may be the only one that hangs.
func (s *Shard) noteFailure() { s.failedAt.Store(int64(time.Since(s.made)) + 1) }

// failedSince tells that a shard could not be reached at some time after then.
func (s *Shard) failedSince(then time.Time) bool { return s.failedAt.Load() > int64(then.Sub(s.made)) }

// failed logs that a step of a shard failed. While Redis is away it logs one line for all
// shards together, and worked logs another one when all of them are back.
func (s *Shard) failed(step string, err error, args ...any) {
	args = append(args, "shard", s.n, "error", err)
	switch {
	case !s.db.Away(err):
		s.Logger.Warn(step, args...)
	case s.outage.Failed(s.n):
		s.Logger.Warn("Redis is away, work waits", append(args, "step", step)...)
	default:
		s.Logger.Debug(step, args...)
	}
}

// worked notes that Redis answered for a shard.
func (s *Shard) worked() {
	if away, last := s.outage.Worked(s.n); last {
		s.Logger.Info("Redis is back", "away", away)
	}
}

// Avoid tells that this process could not reach the shard when it tried last. When it has
// not tried for 5 s, one caller is told to.
func (s *Shard) Avoid() bool { return s.outage.Avoid(s.n) }
