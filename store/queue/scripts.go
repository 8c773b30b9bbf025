package queue

import (
	"embed"
	"sync"

	"fanfare/store/redisdb"
)

// Lua holds this package's scripts.
//
//go:embed lua/*.lua
var Lua embed.FS

// scripts are the queue's scripts; each is called from exactly one method.
type scripts struct {
	enqueue, finish              *redisdb.Script
	begin, compare, end          *redisdb.Script
	look, check                  *redisdb.Script
	unpark                       *redisdb.Script
	stats, deadRetry, deadDelete *redisdb.Script
}

// loadScripts reads them, once in a process.
var loadScripts = sync.OnceValue(func() scripts {
	get := func(name string) *redisdb.Script { return redisdb.MustScript(Lua, "lua/"+name+".lua") }
	return scripts{
		enqueue: get("call_enqueue"), finish: get("call_finish"),
		begin: get("session_begin"), compare: get("session_compare"), end: get("session_end"),
		look: get("shard_look"), check: get("shard_check"),
		unpark: get("parked_move"),
		stats:  get("shard_stats"), deadRetry: get("dead_retry"), deadDelete: get("dead_delete"),
	}
})
