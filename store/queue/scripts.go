package queue

import (
	"embed"
	"errors"
	"io/fs"
	"sync"

	"fanfare/store/lock"
	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var ownLua embed.FS

// layers looks a file up in one file system after the other: the record's Lua
// is the lock's.
type layers []fs.FS

// Open opens the first file of that name.
func (l layers) Open(name string) (fs.File, error) {
	for _, fsys := range l {
		f, err := fsys.Open(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Lua is every script of this package, with what it includes.
func Lua() fs.FS { return layers{ownLua, lock.Lua} }

// scripts are the queue's scripts; each is called from exactly one method.
type scripts struct {
	enqueue, finish              *redisdb.Script
	begin, renew, compare, end   *redisdb.Script
	look, check                  *redisdb.Script
	cancel, unpark               *redisdb.Script
	stats, deadRetry, deadDelete *redisdb.Script
}

// loadScripts reads them, once in a process.
var loadScripts = sync.OnceValue(func() scripts {
	get := func(name string) *redisdb.Script { return redisdb.MustScript(Lua(), "lua/"+name+".lua") }
	return scripts{
		enqueue: get("call_enqueue"), finish: get("call_finish"),
		begin: get("life_begin"), renew: get("life_renew"), compare: get("life_compare"), end: get("life_end"),
		look: get("shard_look"), check: get("shard_check"),
		cancel: get("job_cancel"), unpark: get("parked_move"),
		stats: get("shard_stats"), deadRetry: get("dead_retry"), deadDelete: get("dead_delete"),
	}
})
