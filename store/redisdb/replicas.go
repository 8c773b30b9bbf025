package redisdb

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
)

const (
	// replicaTimeout is how long replicas may take to acknowledge a write.
	replicaTimeout = time.Second
	// replicaMark is how long a Mark lives.
	replicaMark = time.Minute
)

// replicaMarkScript writes a Mark.
var replicaMarkScript = MustScript(scripts, "lua/replica_mark.lua")

// Replicas sends writes and waits until enough replicas have each of them. Each write has its own
// connection, because WAIT counts only the writes of its connection, and a shared connection would
// have to wait for the slowest.
type Replicas struct {
	DB *DB
	// Need is how many replicas must have a write, 1 or more.
	Need int
	// Mark names a key in the slot of a command's key. It is written before
	// WAIT, so that WAIT also covers earlier writes of other connections: a replay
	// writes nothing itself.
	Mark func(key string) string
	// Wrote tells by a command's answer whether it changed something, now or in an
	// earlier try. Send does not wait for replicas after other commands.
	Wrote func(cmd redis.Cmder) bool
}

// ErrTooFewReplicas is in the chain of Send's error when a write was answered but too
// few replicas have it in time. Its command has the answer.
var ErrTooFewReplicas = errors.New("too few replicas")

// Send is a Sender. Nil means that each write was answered and is on Need
// replicas, api.CodeUnknownOutcome that too few have it in time. Reads are
// shared.
func (r *Replicas) Send(ctx context.Context, m Mode, cmds ...redis.Cmder) error {
	if m == Read {
		return r.DB.Share(ctx, m, cmds...)
	}
	for _, cmd := range cmds {
		if err := r.sendOne(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replicas) sendOne(ctx context.Context, cmd redis.Cmder) error {
	key := firstKey(cmd)
	node, err := r.DB.MasterOf(ctx, key)
	if err != nil {
		return err
	}
	conn := OwnConn(node)
	defer conn.Close()
	if err := r.process(ctx, conn, cmd); err != nil {
		return err
	}
	if !r.Wrote(cmd) {
		return nil
	}
	return r.wait(ctx, conn, key)
}

// process runs the command; a script that the server does not know is loaded
// first. The command's own error is for its caller to read.
func (r *Replicas) process(ctx context.Context, conn Conn, cmd redis.Cmder) error {
	err := conn.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		script := scriptOf(cmd)
		if script == nil {
			return r.DB.Err(err, Write)
		}
		if err := conn.ScriptLoad(ctx, script.source).Err(); err != nil {
			return r.DB.Err(err, Read)
		}
		cmd.SetErr(nil)
		err = conn.Process(ctx, cmd)
	}
	if err == nil || err == redis.Nil {
		return nil
	}
	if said := r.DB.Err(err, Write); api.CodeOf(said) != api.CodeInternal {
		return said
	}
	return nil
}

// wait counts the replicas that have everything up to now.
func (r *Replicas) wait(ctx context.Context, conn Conn, key string) error {
	patience := replicaTimeout
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	pipe := conn.Pipeline()
	mark := r.Mark(key)
	pipe.Eval(ctx, replicaMarkScript.source, []string{mark, mark + ":never"}, replicaMark.Milliseconds())
	acked := redis.NewIntCmd(ctx, "wait", r.Need, max(patience.Milliseconds(), 1))
	_ = pipe.Process(ctx, acked) // only queues
	if _, err := pipe.Exec(ctx); err != nil {
		return tooFewReplicas(0, r.Need).Because(errors.Join(ErrTooFewReplicas, err))
	}
	if n := acked.Val(); n < int64(r.Need) {
		return tooFewReplicas(n, r.Need)
	}
	return nil
}

func tooFewReplicas(have int64, need int) *api.Error {
	return api.Errorf(api.CodeUnknownOutcome, "%d of %d replicas have acknowledged the change", have, need).Because(ErrTooFewReplicas)
}

// MasterOf finds the node that has a key: a client of Blocking's kind, whose
// connections the requests do not share. api.CodeUnavailable when a Cluster
// cannot say.
func (db *DB) MasterOf(ctx context.Context, key string) (Client, error) {
	node, err := masterOf(ctx, db.Blocking(), key)
	if err != nil {
		return nil, api.Errorf(api.CodeUnavailable, "Redis is out of reach").Because(err)
	}
	return node, nil
}
