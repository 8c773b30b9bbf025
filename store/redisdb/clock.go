package redisdb

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// clockOf is TIME of the master that has a key. The command itself names none.
type clockOf struct {
	*redis.TimeCmd
	key string
}

// Clocks makes the commands that read the clock of every master that has one of the
// keys, and says which is whose: of[i] is that of keys[i], nil when a Cluster cannot
// say who has it. The clocks of masters differ; compare each with itself.
func (db *DB) Clocks(ctx context.Context, keys []string) (cmds []redis.Cmder, of []*redis.TimeCmd) {
	of = make([]*redis.TimeCmd, len(keys))
	clocks := map[*redis.Client]*redis.TimeCmd{}
	for i, key := range keys {
		node, ok := db.client.(*redis.Client)
		if cluster, is := db.client.(*redis.ClusterClient); is {
			master, err := cluster.MasterForKey(ctx, key)
			node, ok = master, err == nil
		}
		if !ok {
			continue
		}
		if clocks[node] == nil {
			clocks[node] = redis.NewTimeCmd(ctx, "time")
			cmds = append(cmds, clockOf{clocks[node], key})
		}
		of[i] = clocks[node]
	}
	return cmds, of
}
