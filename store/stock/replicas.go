package stock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

const (
	// waitTime is how long replicas may take to acknowledge a change.
	waitTime = time.Second
	// waitMark is how long the mark lives that makes a connection wait for what
	// others wrote.
	waitMark = time.Minute
)

// replicas carries commands on a connection of their own and then waits, on the
// same one, until enough replicas have what was written. A connection that many
// share would be held up by the slowest, and WAIT counts only what its own
// connection wrote.
type replicas struct {
	db   *redisdb.DB
	need int
}

// trip sends commands, and returns nil when each was answered and replicas have
// what they did; CodeUnknownOutcome when too few have it in time. What changed
// nothing waits for nobody.
func (r *replicas) trip(ctx context.Context, m redisdb.Mode, cmds ...redis.Cmder) error {
	if m == redisdb.Read {
		return r.db.Share(ctx, m, cmds...)
	}
	for _, cmd := range cmds {
		if err := r.one(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// one sends one command.
func (r *replicas) one(ctx context.Context, cmd redis.Cmder) error {
	node, err := r.node(ctx, cmd)
	if err != nil {
		return err
	}
	conn := node.Conn()
	defer conn.Close()
	if err := r.send(ctx, conn, cmd); err != nil {
		return err
	}
	if !wrote(cmd) {
		return nil
	}
	return r.wait(ctx, conn, firstKey(cmd))
}

// node finds the master that has the command's key.
func (r *replicas) node(ctx context.Context, cmd redis.Cmder) (*redis.Client, error) {
	switch client := r.db.Blocking().(type) {
	case *redis.ClusterClient:
		node, err := client.MasterForKey(ctx, firstKey(cmd))
		if err != nil {
			return nil, api.Errorf(api.CodeUnavailable, "Redis is out of reach").Because(err)
		}
		return node, nil
	case *redis.Client:
		return client, nil
	default:
		return nil, fmt.Errorf("wait for replicas of a client of type %T", client)
	}
}

// send sends the command; a script that the server does not know is run by its
// text.
func (r *replicas) send(ctx context.Context, conn *redis.Conn, cmd redis.Cmder) error {
	err := conn.Process(ctx, cmd)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		script, ok := cmd.Args()[1].(*redisdb.Script)
		if !ok {
			return r.db.Err(err, redisdb.Write)
		}
		if err := conn.ScriptLoad(ctx, script.Source()).Err(); err != nil {
			return r.db.Err(err, redisdb.Read)
		}
		cmd.SetErr(nil)
		err = conn.Process(ctx, cmd)
	}
	if err == nil || err == redis.Nil {
		return nil
	}
	if said := r.db.Err(err, redisdb.Write); api.CodeOf(said) != api.CodeInternal {
		return said
	}
	return nil // the command's own error: its caller looks at it
}

// wait counts the replicas that have everything up to now. Its mark makes it
// right also after a replay, which writes nothing itself.
func (r *replicas) wait(ctx context.Context, conn *redis.Conn, key string) error {
	patience := waitTime
	if end, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(end)/2)
	}
	pipe := conn.Pipeline()
	pipe.Set(ctx, waitKey(key), 1, waitMark)
	acked := redis.NewIntCmd(ctx, "wait", r.need, max(patience.Milliseconds(), 1))
	_ = pipe.Process(ctx, acked) // only queues
	if _, err := pipe.Exec(ctx); err != nil {
		return short(0, r.need).Because(err)
	}
	if n := acked.Val(); n < int64(r.need) {
		return short(n, r.need)
	}
	return nil
}

// short says that too few replicas have a change.
func short(have int64, need int) *api.Error {
	return api.Errorf(api.CodeUnknownOutcome, "%d of %d replicas have acknowledged the change", have, need)
}

// firstKey is the first key of a script's command.
func firstKey(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 4 {
		return ""
	}
	key, _ := args[3].(string)
	return key
}

// wrote tells whether a script changed something, or found that it had.
func wrote(cmd redis.Cmder) bool {
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return true
	}
	switch v := c.Val().(type) {
	case int64:
		return v == answerDone || v == answerReplayed
	case []any:
		status, _ := v[0].(int64)
		return status == answerDone || status == answerReplayed
	}
	return true
}
