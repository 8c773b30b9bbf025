package redisdb

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// commandBatch is how many values one command of a snapshot has at most.
const commandBatch = 512

// commands are the commands that make the data of the embedded Redis again, in an empty Redis of any
// kind. Nothing else may use it meanwhile. The client is one of it.
func (e *embedded) commands(ctx context.Context, client Client) ([][]string, error) {
	var out [][]string
	for _, key := range e.server.Keys() {
		made, err := e.commandsFor(ctx, client, key)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", key, err)
		}
		out = append(out, made...)
		if ttl := e.server.TTL(key); ttl > 0 {
			out = append(out, []string{"PEXPIREAT", key, millis(time.Now().Add(ttl))})
		}
	}
	return out, nil
}

func (e *embedded) commandsFor(ctx context.Context, client Client, key string) ([][]string, error) {
	switch kind := e.server.Type(key); kind {
	case "string":
		value, err := e.server.Get(key)
		return [][]string{{"SET", key, value}}, err
	case "hash":
		fields, err := e.server.HKeys(key)
		var words []string
		for _, field := range fields {
			words = append(words, field, e.server.HGet(key, field))
		}
		return inBatches("HSET", key, words), err
	case "list":
		values, err := e.server.List(key)
		return inBatches("RPUSH", key, values), err
	case "set":
		members, err := e.server.Members(key)
		return inBatches("SADD", key, members), err
	case "zset":
		scores, err := e.server.SortedSet(key)
		var words []string
		for member, score := range scores {
			words = append(words, strconv.FormatFloat(score, 'g', -1, 64), member)
		}
		return inBatches("ZADD", key, words), err
	case "stream":
		return e.streamCommands(ctx, client, key)
	case "": // its lifetime has ended since the keys were listed
		return nil, nil
	default:
		return nil, fmt.Errorf("values of type %s are not kept", kind)
	}
}

// inBatches makes commands with a bounded number of words, which is even, each.
func inBatches(name, key string, words []string) [][]string {
	var out [][]string
	for len(words) > 0 {
		n := min(len(words), commandBatch)
		out = append(out, append([]string{name, key}, words[:n]...))
		words = words[n:]
	}
	return out
}

// streamCommands make a stream with its entries, its last id, its groups, their consumers and what is
// pending for them.
func (e *embedded) streamCommands(ctx context.Context, client Client, key string) ([][]string, error) {
	entries, err := e.server.Stream(key)
	if err != nil {
		return nil, err
	}
	var out [][]string
	last, there := "", map[string]bool{}
	for _, entry := range entries {
		out = append(out, append([]string{"XADD", key, entry.ID}, entry.Values...))
		last, there[entry.ID] = entry.ID, true
	}
	info, err := client.Do(ctx, "XINFO", "STREAM", key).Slice()
	if err != nil {
		return nil, err
	}
	// The last entries may have been deleted. Their ids must not be used again.
	if made, _ := info[3].(string); made != "" && made != last {
		out = append(out, []string{"XADD", key, made, "", ""}, []string{"XDEL", key, made})
	}
	groups, err := client.XInfoGroups(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		out = append(out, []string{"XGROUP", "CREATE", key, g.Name, g.LastDeliveredID, "MKSTREAM"})
		made, err := consumerCommands(ctx, client, key, g.Name, there)
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return out, nil
}

// consumerCommands make the consumers of a group, and what is pending for them of the entries that
// are there.
func consumerCommands(ctx context.Context, client Client, key, group string, there map[string]bool) ([][]string, error) {
	var out [][]string
	consumers, err := client.XInfoConsumers(ctx, key, group).Result()
	if err != nil {
		return nil, err
	}
	for _, c := range consumers {
		out = append(out, []string{"XGROUP", "CREATECONSUMER", key, group, c.Name})
	}
	pending, err := client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: key, Group: group, Start: "-", End: "+", Count: math.MaxInt32}).Result()
	if err != nil {
		return nil, err
	}
	for _, p := range pending {
		if there[p.ID] {
			out = append(out, []string{
				"XCLAIM", key, group, p.Consumer, "0", p.ID,
				"TIME", millis(time.Now().Add(-p.Idle)), "RETRYCOUNT", strconv.FormatInt(p.RetryCount, 10), "FORCE", "JUSTID",
			})
		}
	}
	return out, nil
}

// millis is a time in the form of Redis' commands.
func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
