package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// KeysWith lists the keys of a Redis, or of all masters of a Cluster, that have a text in their name or
// anywhere in their value. It reads everything.
func KeysWith(t testing.TB, db *redisdb.DB, text string) (found []string) {
	t.Helper()
	var mu sync.Mutex
	search := func(ctx context.Context, node *redis.Client) error {
		keys := node.Scan(ctx, 0, "*", 1000).Iterator()
		for keys.Next(ctx) {
			value, err := valueOf(ctx, node, keys.Val())
			if err != nil && !errors.Is(err, redis.Nil) {
				return fmt.Errorf("read %s: %w", keys.Val(), err)
			}
			if strings.Contains(keys.Val()+"\n"+fmt.Sprint(value), text) {
				mu.Lock()
				found = append(found, keys.Val())
				mu.Unlock()
			}
		}
		return keys.Err()
	}
	var err error
	switch client := db.Client().(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(t.Context(), search)
	case *redis.Client:
		err = search(t.Context(), client)
	default:
		t.Fatalf("a client of type %T", client)
	}
	Must(t, err)
	return found
}

// valueOf reads a whole key of any type.
func valueOf(ctx context.Context, node *redis.Client, key string) (any, error) {
	kind, err := node.Type(ctx, key).Result()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "string":
		return node.Get(ctx, key).Result()
	case "list":
		return node.LRange(ctx, key, 0, -1).Result()
	case "hash":
		return node.HGetAll(ctx, key).Result()
	case "set":
		return node.SMembers(ctx, key).Result()
	case "zset":
		return node.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "stream":
		return node.XRange(ctx, key, "-", "+").Result()
	case "none": // it has ended in the meantime
		return nil, nil
	}
	return nil, fmt.Errorf("it is a %s", kind)
}
