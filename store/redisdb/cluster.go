package redisdb

import (
	"context"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// firstKey is the key by which a command finds its node, "" for none.
func firstKey(cmd redis.Cmder) string {
	if clock, ok := cmd.(clockOf); ok {
		return clock.key
	}
	args := cmd.Args()
	at := 1
	switch cmd.Name() {
	case "ping", "info", "time", "script", "publish", "config", "echo":
		return ""
	case "evalsha", "eval", "fcall":
		at = 3
	case "xgroup", "xinfo", "object", "memory":
		at = 2
	case "xread", "xreadgroup":
		at = afterStreams(args)
	}
	if at < 1 || at >= len(args) {
		return ""
	}
	switch key := args[at].(type) {
	case string:
		return key
	case []byte:
		return string(key)
	}
	return ""
}

func afterStreams(args []any) int {
	for i, arg := range args {
		if s, ok := arg.(string); ok && strings.EqualFold(s, "streams") {
			return i + 1
		}
	}
	return -1
}

// sendCluster splits commands by master. The client's own cluster pipeline
// would do it too, but sends a whole batch again after one lost answer and
// does not say so.
func (db *DB) sendCluster(ctx context.Context, cmds []redis.Cmder) {
	nodes := map[Client][]redis.Cmder{}
	for _, cmd := range cmds {
		node, err := masterOf(ctx, db.client, firstKey(cmd))
		if err != nil {
			cmd.SetErr(notSent{err})
			continue
		}
		nodes[node] = append(nodes[node], cmd)
	}
	var wg sync.WaitGroup
	for node, part := range nodes {
		wg.Go(func() { db.pipeTo(ctx, node, part) })
	}
	wg.Wait()
}

// ask runs commands whose slot is on its way to another node there, as the old
// node said ("ASK slot address").
func (db *DB) ask(ctx context.Context, cmds []redis.Cmder) {
	for _, cmd := range cmds {
		addr := cmd.Err().Error()[strings.LastIndexByte(cmd.Err().Error(), ' ')+1:]
		cmd.SetErr(notSent{cmd.Err()})
		if node := db.cluster.node(ctx, addr); node != nil {
			cmd.SetErr(nil)
			pipe(ctx, node, []redis.Cmder{redis.NewCmd(ctx, "asking"), cmd})
		}
	}
}
