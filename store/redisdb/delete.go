package redisdb

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// scripts are the package's own scripts, and the parts that scripts of all packages include.
//
//go:embed lua/*.lua
var scripts embed.FS

var keyDelete = MustScript(scripts, "lua/key_delete.lua")

// DeleteIf makes the command that deletes a key if it has this value, such as a claim that its
// owner gives back. It answers 1, or 0 if the key has another value or none. Sending it twice has
// the effect of sending it once.
func DeleteIf(ctx context.Context, key string, value any) *redis.Cmd {
	return keyDelete.Cmd(ctx, []string{key}, value)
}

// DeleteIfValues reads string keys and deletes those whose value is to go, unless it has changed
// meanwhile. It returns how many it deleted.
func (db *DB) DeleteIfValues(ctx context.Context, keys []string, goes func(value string) bool) (deleted int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	reads := make([]redis.Cmder, len(keys))
	for i, key := range keys {
		reads[i] = redis.NewStringCmd(ctx, "get", key)
	}
	if err := db.Pipeline(ctx, Read, reads...); err != nil {
		return 0, err
	}
	var deletes []redis.Cmder
	for i, cmd := range reads {
		value, err := cmd.(*redis.StringCmd).Result()
		if err == nil && goes(value) {
			deletes = append(deletes, DeleteIf(ctx, keys[i], value))
		} else if err != nil && !errors.Is(err, redis.Nil) {
			return 0, fmt.Errorf("read a key: %w", err)
		}
	}
	if len(deletes) == 0 {
		return 0, nil
	}
	if err := db.Pipeline(ctx, Write, deletes...); err != nil {
		return 0, err
	}
	for _, cmd := range deletes {
		n, err := cmd.(*redis.Cmd).Int64()
		if err != nil {
			return deleted, fmt.Errorf("delete a key: %w", err)
		}
		deleted += n
	}
	return deleted, nil
}
