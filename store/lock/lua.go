package lock

import "embed"

// Lua holds this package's scripts.
//
//go:embed lua/*.lua
var Lua embed.FS
