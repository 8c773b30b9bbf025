package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Replay reads what EnqueueOnce stored under a key in a shard, writing nothing:
// for a request that would be refused by now but was answered before. The same
// key with another body is idempotency_key_reused.
func (q *Queue) Replay(ctx context.Context, shard int, once Once) (stored string, found bool, err error) {
	cmd := redis.NewStringCmd(ctx, "get", q.shards[shard].onceKey(once.Key))
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", false, err
	}
	value, err := cmd.Bytes()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read idempotency record in %s shard %d: %w", q.o.Name, shard, err)
	}
	rest, same := bytes.CutPrefix(value, once.Body[:])
	if !same {
		return "", false, api.IdempotencyReused()
	}
	return string(rest), true, nil
}
