package queue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// The steps of a process, as faults know them.
const (
	stepEnqueue  = "enqueue"
	stepClaim    = "claim"
	stepFinish   = "finish"
	stepBegin    = "begin"
	stepRenew    = "renew"
	stepMaintain = "maintain"
	stepCheck    = "check"
	stepBlock    = "block"
	stepLeave    = "leave"
)

// trip sends the commands of one step in a round trip of their own.
func (q *Queue) trip(ctx context.Context, step string, cmds ...redis.Cmder) error {
	err := q.send(ctx, step, cmds...)
	if err != nil && ctx.Err() == nil {
		q.noteTrouble()
	}
	return err
}

// noteTrouble remembers that Redis could not be reached just now.
func (q *Queue) noteTrouble() { q.trouble.Store(int64(time.Since(q.made)) + 1) }

// troubledSince tells that Redis could not be reached at some time after then.
func (q *Queue) troubledSince(then time.Time) bool { return q.trouble.Load() > int64(then.Sub(q.made)) }

func (q *Queue) send(ctx context.Context, step string, cmds ...redis.Cmder) error {
	return q.fault.Send(ctx, step, q.db.Pipeline, redisdb.Write, cmds...)
}

// share sends the commands of one step with the next shared round trip.
func (q *Queue) share(ctx context.Context, step string, cmds ...redis.Cmder) error {
	return q.fault.Send(ctx, step, q.db.Share, redisdb.Write, cmds...)
}
