package queue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// The steps of a process, as faults know them.
const (
	stepEnqueue  = "enqueue"
	stepClaim    = "claim"
	stepFinish   = "finish"
	stepRenew    = "renew"
	stepMaintain = "maintain"
	stepBlock    = "block"
	stepLeave    = "leave"
)

// fault is what tests put between a process and Redis, nil outside of them: it
// is asked before a step's commands are sent and after they were answered. An
// error stands for a trip that did not leave, or whose answer was lost.
type fault func(step string, answered bool) error

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
	if q.fault == nil {
		return q.db.Pipeline(ctx, redisdb.Write, cmds...)
	}
	if err := q.fault(step, false); err != nil {
		return err
	}
	if err := q.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	err := q.fault(step, true)
	if errors.Is(err, errTwice) {
		return q.db.Pipeline(ctx, redisdb.Write, cmds...)
	}
	return err
}

// errTwice is a fault's wish: the answer was lost, send the same again.
var errTwice = errors.New("send again")
