package stock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// maxReplicaWait is longer than replicas may take to acknowledge a write.
	maxReplicaWait = 2 * time.Second
	// callerArgs is how many arguments of a script each caller adds.
	callerArgs = 4
	// crowdHead is how many values of an answer come before the callers' own.
	crowdHead = 2
)

// call is the call of one caller in a script that many share (lua/part_crowd.lua).
type call struct {
	once string // key of the idempotency record; "": none
	args [callerArgs]any
	// provisional is a status that is true only with the replicas, as answerDone is: a master that was emptied and has
	// not been told yet that it is none knows nothing. 0: none.
	provisional int64

	// The answer:
	status int64
	head   []any // the values for all callers
	answer []any // the values for this caller, beginning with the status; nil: only the status
	err    error
}

// crowd gathers the callers of one script in one partition: callers that arrive while the
// script runs share the next run.
type crowd = redisdb.Crowd[*call]

// crowdScript is the script of a crowd, with the arguments before the callers'. The last of these is what is told.
type crowdScript struct {
	*redisdb.Script
	common []any
	tells  bool // some kind of facts is told
	left   int  // the place of how many were left among the values for all callers, if it tells
}

// reserveScript is the script of reservations.
func (b *base) reserveScript(partitions int) crowdScript {
	kinds := tellsExpired + tellsLow
	if partitions > 1 {
		kinds = tellsExpired // no partition of several knows how much is left
	}
	what := b.told(kinds)
	return crowdScript{b.scripts.reserve, []any{b.o.RunID, partitions, api.IdempotencyTTL.Milliseconds(), dueAtOnce, what}, what != "", 3}
}

// endScript is the script of confirmations, releases and extensions. None of them takes units.
func (b *base) endScript(partitions int) crowdScript {
	what := b.told(tellsExpired)
	return crowdScript{b.scripts.end, []any{b.o.RunID, api.IdempotencyTTL.Milliseconds(), partitions, what}, what != "", 1}
}

// newCrowd makes the crowd of a script, which is asked for at each run.
func (b *base) newCrowd(p *partition, script func() crowdScript) *crowd {
	return redisdb.NewCrowd(b.db, maxReplicaWait, func(ctx context.Context, calls []*call) {
		s := script()
		cmd := s.cmd(ctx, p, calls)
		err := b.write(ctx, cmd)
		handOut(s.Script, cmd, err, calls)
		if s.tells && answered(err) {
			all, _ := redisdb.ListOf(cmd)
			b.left(p, redisdb.NumberAt(redisdb.ListAt(all, 1), s.left))
		}
	})
}

// answered reports whether the command of a script has its answer. Otherwise it may still be in flight.
func answered(sent error) bool { return sent == nil || errors.Is(sent, redisdb.ErrTooFewReplicas) }

// cmd is the script's command for all these callers.
func (s crowdScript) cmd(ctx context.Context, p *partition, calls []*call) *redis.Cmd {
	keys := p.core(p.orders)
	if s.tells {
		keys = p.telling(keys)
	}
	args := append(make([]any, 0, len(s.common)+callerArgs*len(calls)), s.common...)
	for _, c := range calls {
		args = append(args, c.args[:]...)
		if c.once != "" {
			keys = append(keys, c.once)
		}
	}
	return s.Cmd(ctx, keys, args...)
}

// handOut gives each caller its answer. When too few replicas acknowledged the script, only
// callers whose reservation was made, changed, found or unknown get that error: other refusals are true
// without replicas.
func handOut(script *redisdb.Script, cmd *redis.Cmd, sent error, calls []*call) {
	var all []any
	err := sent
	if answered(sent) {
		all, err = redisdb.ListOf(cmd)
	}
	status := redisdb.NumberAt(all, 0)
	if err == nil && status <= answerDone && len(all) != crowdHead+len(calls) {
		err = unexpected(script, all)
	}
	for i, c := range calls {
		switch {
		case err != nil:
			c.err = err
		case status > answerDone: // an answer about the whole sale
			c.status = status
		default:
			c.read(redisdb.ListAt(all, 1), all[crowdHead+i], sent)
		}
	}
}

// read takes the caller's own answer over: a status, or a list that begins with one.
func (c *call) read(head []any, own any, sent error) {
	c.head = head
	c.answer, _ = own.([]any)
	c.status = redisdb.Number(own)
	if c.answer != nil {
		c.status = redisdb.NumberAt(c.answer, 0)
	}
	if c.status == answerDone || c.status == answerReplayed || c.provisional != 0 && c.status == c.provisional {
		c.err = sent
	}
}

// join adds a call to a crowd and waits for its answer. A call that its caller gives up before
// the script was sent is never made.
func join(ctx context.Context, c *crowd, one *call) error {
	if err := c.Do(ctx, one); err != nil {
		return err
	}
	return one.err
}
