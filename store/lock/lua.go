package lock

import "embed"

// Lua holds this package's scripts. lua/clock.lua is shared with store/queue.
//
//go:embed lua/*.lua
var Lua embed.FS
