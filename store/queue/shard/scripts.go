package shard

import (
	"embed"
	"sync"

	"fanfare/store/redisdb"
)

// Lua holds this package's scripts.
//
//go:embed lua/*.lua
var Lua embed.FS

// Scripts are the scripts of a shard; each is called from exactly one method.
type Scripts struct {
	enqueue, finish, finishTold          *redisdb.Script
	begin, compare, end                  *redisdb.Script
	look, check                          *redisdb.Script
	rewrite, renameAttached, renameMarks *redisdb.Script
	Unpark, Stats, DeadRetry, DeadDelete *redisdb.Script
	ListReports, CancelReport, Find      *redisdb.Script
	DeadFind, GuardSet                   *redisdb.Script
}

// loadScripts reads them, once in a process.
var loadScripts = sync.OnceValue(func() *Scripts {
	get := func(name string) *redisdb.Script { return redisdb.MustScript(Lua, "lua/"+name+".lua") }
	return &Scripts{
		enqueue: get("call_enqueue"), finish: get("call_finish"), finishTold: get("call_finish_told"),
		begin: get("session_begin"), compare: get("session_compare"), end: get("session_end"),
		look: get("shard_look"), check: get("shard_check"),
		rewrite: get("job_rewrite"), renameAttached: get("attachment_rename"), renameMarks: get("marks_rename"),
		Unpark: get("parked_move"), Stats: get("shard_stats"), DeadRetry: get("dead_retry"), DeadDelete: get("dead_delete"),
		ListReports: get("reports_list"), CancelReport: get("report_cancel"), DeadFind: get("dead_find"), Find: get("job_find"),
		GuardSet: get("guard_set"),
	}
})
