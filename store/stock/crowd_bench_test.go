package stock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// BenchmarkCrowd shows what a reservation costs Redis in crowds of several sizes, when
// most users have bought before: processor time of its main thread, and of that what
// the script took.
//
//	go test -run '^$' -bench Crowd -benchtime 50000x ./store/stock
func BenchmarkCrowd(b *testing.B) {
	for _, size := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			const users = 20_000
			db := storetest.Open(b, storetest.Redis(b, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0").URL())
			w := newLiveWorld(b, db).another(Options{RunID: ServerRunID})
			w.mustOpen(offer{stock: map[string]int64{"s": plenty}, limit: plenty, hold: 600_000})
			reserved := 0
			run := func(n, size int) {
				for done := 0; done < n; done += size {
					calls := make([]*call, size)
					for i := range calls {
						calls[i] = w.reserveCall(fmt.Sprint("user-", (reserved+i)%users))
					}
					reserved += size
					w.mustServe(calls)
				}
			}
			run(users, 100)
			storetest.Must(b, db.Client().ConfigResetStat(b.Context()).Err())
			before := mainThread(b, db)
			b.ResetTimer()
			run(b.N, size)
			b.StopTimer()
			n := float64(b.N)
			b.ReportMetric((mainThread(b, db)-before)*1e6/n, "redis-µs/op")
			b.ReportMetric(scriptTime(b, db)/n, "script-µs/op")
		})
	}
}

// reserveCall is one unit for a user, as tryReserve asks for it.
func (w *liveWorld) reserveCall(user string) *call {
	return &call{args: [callerArgs]any{user, newID(0), "", linesText([]api.Line{units("s", 1)})}}
}

// mustServe runs one script for all calls, each of which gets what it asks for.
func (w *liveWorld) mustServe(calls []*call) {
	p := newPartition(w.sale, 0)
	cmd := w.reserveScript(1).cmd(context.Background(), p, calls)
	handOut(w.scripts.reserve, cmd, w.db.Share(context.Background(), redisdb.Write, cmd), calls)
	for _, c := range calls {
		if c.err != nil || c.status != answerDone {
			w.t.Fatalf("%d: %v", c.status, c.err)
		}
	}
}

// mainThread is the processor time that Redis' main thread has used, in seconds.
func mainThread(b *testing.B, db *redisdb.DB) float64 {
	text, err := db.Client().Info(b.Context(), "cpu").Result()
	storetest.Must(b, err)
	return infoNumber(text, "used_cpu_sys_main_thread:") + infoNumber(text, "used_cpu_user_main_thread:")
}

// scriptTime is what all scripts took, in microseconds.
func scriptTime(b *testing.B, db *redisdb.DB) float64 {
	text, err := db.Client().Info(b.Context(), "commandstats").Result()
	storetest.Must(b, err)
	_, evals, _ := strings.Cut(text, "cmdstat_evalsha:")
	return infoNumber(evals, "usec=")
}

// infoNumber is the number behind a name in Redis' INFO.
func infoNumber(text, name string) float64 {
	_, rest, _ := strings.Cut(text, name)
	n, _ := strconv.ParseFloat(rest[:max(0, strings.IndexAny(rest, ",\r\n"))], 64)
	return n
}
