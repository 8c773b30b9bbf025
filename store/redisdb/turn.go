package redisdb

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"
)

// Turn asks for a turn that one of all processes has at a time. It lasts for d, at least 1 ms, and needs no end: a process that dies
// holds up the others for no longer. mine says that the caller has it now. again is after how long the next one can be had. A turn
// that lasts longer, because the clock of Redis was set back, does not count.
func (db *DB) Turn(ctx context.Context, key string, d time.Duration) (mine bool, again time.Duration, err error) {
	request := rand.Text() // the commands may be sent twice
	holder, left := redis.NewStringCmd(ctx, "get", key), redis.NewDurationCmd(ctx, time.Millisecond, "pttl", key)
	err = db.Share(ctx, Write, redis.NewStatusCmd(ctx, "set", key, request, "px", d.Milliseconds(), "nx"), holder, left)
	if err != nil {
		return false, 0, err
	}
	if left.Val() > d {
		return true, d, nil
	}
	return holder.Val() == request, max(left.Val(), 0) + time.Millisecond, left.Err()
}
