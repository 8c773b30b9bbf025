package lock

import "embed"

// Lua holds this package's scripts. lua/record.lua, the record that decides, is
// shared with store/queue.
//
//go:embed lua/*.lua
var Lua embed.FS
