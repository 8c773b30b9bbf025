package redisdb

import (
	"context"
	"embed"

	"github.com/redis/go-redis/v9"
)

// scripts are the package's own, and what the scripts of all rooms may include.
//
//go:embed lua/*.lua
var scripts embed.FS

var keyDelete = MustScript(scripts, "lua/key_delete.lua")

// DeleteIf makes the command that deletes a key while it holds this value: a
// claim that its owner gives back. Its answer is 1, or 0 when the value is
// another's or gone; sent twice it has the effect of once.
func DeleteIf(ctx context.Context, key string, value any) *redis.Cmd {
	return keyDelete.Cmd(ctx, []string{key}, value)
}
