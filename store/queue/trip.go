package queue

import (
	"context"
	"errors"

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
