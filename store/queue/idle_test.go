package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// A worker is one Run: one process' share of one queue, here with the default
// number of shards and the shortest lease in use, that of notifications.
func TestQ15_IdleWorkersAreQuiet(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Shards = 8; o.Lease = 10 * time.Second })
	const workers, shards = 100, 8
	var started atomic.Int64
	for range workers {
		w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { started.Add(1); return queue.Result{} }))
	}
	commands := func() int64 {
		v, err := w.db.Client().InfoMap(t.Context(), "commandstats", "clients").Result()
		if err != nil { // 100 workers begin with one client: on a busy machine this may find no connection
			t.Log(err)
			return -1
		}
		var scripts, reads, blocked int64 // all that an idle worker sends
		fmt.Sscanf(v["Commandstats"]["cmdstat_evalsha"], "calls=%d", &scripts)
		fmt.Sscanf(v["Commandstats"]["cmdstat_xreadgroup"], "calls=%d", &reads)
		fmt.Sscan(v["Clients"]["blocked_clients"], &blocked)
		if blocked < workers*shards {
			return -1
		}
		return scripts + reads
	}
	sent := func() (n int64) {
		eventually(t, "all are blocked", func() bool { n = commands(); return n >= 0 })
		return n
	}
	before, since := sent(), time.Now()
	time.Sleep(11 * time.Second) //nolint:forbidigo // more than a lease; what is measured is quiet: nothing to wait for
	rate := float64(sent()-before) / time.Since(since).Seconds() / workers
	t.Logf("%.2f commands/s of an idle worker with %d shards", rate, shards)
	if rate >= 1 {
		t.Errorf("%.2f commands/s of an idle worker", rate)
	}
	woken := func() int { return storetest.Calls(t, w.db.Client(), "xreadgroup") }
	calls := woken()
	w.mustEnqueue(queue.Job{})
	w.mustBeEmpty()
	// One worker: its claim reads both streams, and then it blocks again.
	if n := woken() - calls; started.Load() != 1 || n > 8 {
		t.Errorf("one job: %d started, %d reads", started.Load(), n)
	}
}
