package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

// The letters that the queue itself writes at the begin of a report: that of a job
// that is queued, also of a dead letter that is retried, of one that became a dead
// letter, and of one that did because it was older than MaxAge.
const (
	StateQueued  = 'Q'
	StateDead    = 'X'
	StateExpired = 'E'
)

// Report reads the report of a job that was enqueued with one; "": nobody knows of
// such a job any more.
func (q *Queue) Report(ctx context.Context, shard int, id string) (string, error) {
	cmd := redis.NewStringCmd(ctx, "hget", q.reportKey(shard, id), id)
	if err := q.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return "", err
	}
	text, err := cmd.Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("read report in %s shard %d: %w", q.o.Name, shard, err)
	}
	return text, nil
}
