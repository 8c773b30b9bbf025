package redisdb

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Fault is what tests put between a store and Redis; nil is none. It is asked
// before the commands of a step are sent and after they were answered. An error
// stands for a process that died there, or for a round trip that did not leave
// or whose answer was lost.
type Fault func(step string, answered bool) error

// ErrTwice is a Fault's wish that the step be sent again, as a client does whose
// answer was lost.
var ErrTwice = errors.New("send again")

// Sender is how commands travel: Share, Pipeline, or what stands before them.
type Sender func(ctx context.Context, m Mode, cmds ...redis.Cmder) error

// Send sends the commands of one step.
func (f Fault) Send(ctx context.Context, step string, send Sender, m Mode, cmds ...redis.Cmder) error {
	if f == nil {
		return send(ctx, m, cmds...)
	}
	if err := f(step, false); err != nil {
		return err
	}
	if err := send(ctx, m, cmds...); err != nil {
		return err
	}
	err := f(step, true)
	if errors.Is(err, ErrTwice) {
		return send(ctx, m, cmds...)
	}
	return err
}
