package redisdb

import (
	"context"
	"embed"

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
