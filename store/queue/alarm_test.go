package queue_test

import (
	"bytes"
	"runtime/pprof"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// TestWhatIsDueHoldsNoGoroutine: a maintainer is told of each job that waits, and a
// backlog of them must not be memory of the process.
func TestWhatIsDueHoldsNoGoroutine(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Shards = 1 })
	for range 1000 { // nobody maintains the shard
		w.q.LookAgain(0, time.Hour)
	}
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(all.Bytes(), []byte(".WakeMaintainer")) {
		t.Errorf("goroutines wait to tell the maintainer:\n%s", all.Bytes())
	}
}
