package queue_test

import (
	"context"
	"strings"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/queue/shard"
)

// prefix of the keys of shard n.
func (w *world) prefix(n int) string { return shard.Prefix(w.o.Name, n, max(w.o.Shards, 1)) }

// mustKeys lists all keys of this queue's shards.
func (w *world) mustKeys() []string {
	w.t.Helper()
	return queuetest.MustScan(w.t, w.db, "ff:{q:"+w.o.Name+":*")
}

// mustState reads shard n.
func (w *world) mustState(n int) *queuetest.State {
	w.t.Helper()
	return queuetest.MustState(w.t, w.db, w.o.Name, w.prefix(n))
}

// mustBeConsistent checks every shard: each held key has a live job, nothing is
// an orphan. Results may be on their way, so it looks until it holds.
func (w *world) mustBeConsistent() {
	w.t.Helper()
	var found []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // the pace of a poll
		found = nil
		for n := range w.o.Shards {
			found = append(found, w.mustState(n).Problems()...)
		}
		if len(found) == 0 {
			return
		}
	}
	w.t.Fatalf("not consistent:\n%s", strings.Join(found, "\n"))
}

// mustBeEmpty waits until no job is live.
func (w *world) mustBeEmpty() {
	w.t.Helper()
	eventually(w.t, "no live job is left", func() bool {
		for n := range w.o.Shards {
			s := w.mustState(n)
			if len(s.Records)+len(s.Heads)+len(s.Uniques)+len(s.Waiting)+len(s.In("ready")) > 0 {
				return false
			}
		}
		return true
	})
}

// mustClaimAndDie claims what is there in a process that then dies: its run is
// cut off from Redis in mid-job and never heard of again.
func (w *world) mustClaimAndDie() []*queue.Claimed {
	w.t.Helper()
	dying := w.another()
	claimed := make(chan []*queue.Claimed, 1)
	kill := dying.runUntilKilled(func(_ context.Context, batch []*queue.Claimed) {
		claimed <- batch
		<-w.t.Context().Done()
	})
	select {
	case batch := <-claimed:
		kill()
		return batch
	case <-time.After(10 * time.Second):
		w.t.Fatal("nothing was claimed")
		return nil
	}
}
