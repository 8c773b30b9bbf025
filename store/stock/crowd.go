package stock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

const (
	// maxReplicaWait is more than replicas may take to acknowledge a write.
	maxReplicaWait = 2 * time.Second
	// callerArgs is what a caller adds to the arguments of a script.
	callerArgs = 4
	// crowdHead is how many values of an answer come before the callers' own.
	crowdHead = 2
)

// call is one caller's part of a script that answers a crowd (lua/part_crowd.lua).
type call struct {
	once string // key of his idempotency record; "": none
	args [callerArgs]any

	// What became of it.
	status int64
	head   []any // what the script told all callers
	answer []any // what it told him, the status first; nil: the status alone
	err    error
}

// crowd gathers the callers of one script in one partition: those who come while
// it runs share the next.
type crowd = redisdb.Crowd[*call]

// newCrowd makes the crowd of a script, with the arguments before the callers'.
func (b *base) newCrowd(p *partition, script *redisdb.Script, common ...any) *crowd {
	return redisdb.NewCrowd(b.db, maxReplicaWait, func(ctx context.Context, calls []*call) {
		cmd := crowdCmd(ctx, p, script, common, calls)
		handOut(script, cmd, b.write(ctx, cmd), calls)
	})
}

// crowdCmd is the script with what all callers ask for.
func crowdCmd(ctx context.Context, p *partition, script *redisdb.Script, common []any, calls []*call) *redis.Cmd {
	keys := p.core(p.orders)
	args := append(make([]any, 0, len(common)+callerArgs*len(calls)), common...)
	for _, c := range calls {
		args = append(args, c.args[:]...)
		if c.once != "" {
			keys = append(keys, c.once)
		}
	}
	return script.Cmd(ctx, keys, args...)
}

// handOut tells each caller what the script answered him. That too few replicas have
// it concerns those for whom something is so.
func handOut(script *redisdb.Script, cmd *redis.Cmd, sent error, calls []*call) {
	var all []any
	err := sent
	if err == nil || errors.Is(err, redisdb.ErrTooFewReplicas) {
		all, err = reply(script, cmd)
	}
	status := redisdb.NumberAt(all, 0)
	if err == nil && status <= answerDone && len(all) != crowdHead+len(calls) {
		err = unexpected(script, all)
	}
	for i, c := range calls {
		switch {
		case err != nil:
			c.err = err
		case status > answerDone: // it says something of the sale
			c.status = status
		default:
			c.read(redisdb.ListAt(all, 1), all[crowdHead+i], sent)
		}
	}
}

// read notes the caller's own answer: a status, or a list that begins with one.
func (c *call) read(head []any, own any, sent error) {
	c.head = head
	c.answer, _ = own.([]any)
	c.status = redisdb.Number(own)
	if c.answer != nil {
		c.status = redisdb.NumberAt(c.answer, 0)
	}
	if c.status == answerDone || c.status == answerReplayed {
		c.err = sent
	}
}

// join adds a call to a crowd and waits for its answer. What a caller gives up
// before it has left is never done.
func join(ctx context.Context, c *crowd, one *call) error {
	if err := c.Do(ctx, one); err != nil {
		return err
	}
	return one.err
}
