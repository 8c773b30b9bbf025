package stock

import (
	"embed"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
)

//go:embed lua/*.lua
var luaFiles embed.FS

// scripts are this package's scripts; each is called from exactly one method.
type scripts struct {
	reserve, end, recorded, low                           *redisdb.Script
	get, list, read, sweep, retire, page, erase           *redisdb.Script
	put, restock, apply, raise, open, disown              *redisdb.Script
	debit, credit, balance, restore, close, remove, leave *redisdb.Script
}

// loadScripts reads the scripts, once in a process.
var loadScripts = sync.OnceValue(func() scripts {
	return readScripts(func(name string) *redisdb.Script { return redisdb.MustScript(luaFiles, "lua/"+name+".lua") })
})

func readScripts(get func(name string) *redisdb.Script) scripts {
	return scripts{
		reserve: get("stock_reserve"), end: get("reservation_end"), recorded: get("orders_recorded"), low: get("stock_low"),
		get: get("reservation_get"), list: get("reservation_list"),
		read: get("partition_read"), sweep: get("sale_sweep"), retire: get("sale_retire"), page: get("reservation_page"), erase: get("user_erase"),
		put: get("sale_put"), restock: get("sale_restock"), apply: get("settings_apply"),
		raise: get("settings_raise"), open: get("sale_open"), disown: get("sale_disown"), debit: get("transfer_debit"),
		credit: get("transfer_credit"), balance: get("stock_balance"), restore: get("order_restore"),
		close: get("sale_close"), remove: get("sale_remove"), leave: get("registry_leave"),
	}
}

// The answers that all scripts give alike.
const (
	answerDone     = 1
	answerReplayed = 2
	answerReused   = 3
	answerAbsent   = 4
	answerLoading  = 5
	answerStaleRun = 6
	answerAgain    = 13
	answerOther    = 14 // another number of partitions
)

// single reads the answer of a script that answers with one number.
func single(s *redisdb.Script, cmd *redis.Cmd) (int64, error) {
	n, err := cmd.Int64()
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", s.Name(), err)
	}
	return n, nil
}

// integer reads a number that a script gave as text; 0 for none.
func integer(list []any, i int) int64 {
	n, _ := strconv.ParseInt(redisdb.TextAt(list, i), 10, 64)
	return n
}
