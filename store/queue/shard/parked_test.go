package shard_test

import (
	"fmt"
	"strings"
	"testing"

	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/storetest"
)

// mustPark claims n jobs and parks them.
func (w *world) mustPark(p *shard.Stepper, n int) {
	w.t.Helper()
	for range n {
		w.mustEnqueue(queue.Job{Payload: []byte(strings.Repeat("x", 200))})
		if answer, err := p.Finish(mustClaim(w.t, p, 1)[0], queue.Result{Outcome: queue.Park, Parked: "app"}); err != nil || answer != "1" {
			w.t.Fatal(answer, err)
		}
	}
}

// TestWhatIsParkedIsWeighed: what is counted for a parked job is what it takes, about.
func TestWhatIsParkedIsWeighed(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()))
	p := w.mustStep()
	used := func() (n int64) {
		t.Helper()
		v, err := server.Client().InfoMap(t.Context(), "memory").Result()
		storetest.Must(t, err)
		fmt.Sscan(v["Memory"]["used_memory"], &n)
		return n
	}
	w.mustPark(p, 100)
	const jobs = 2000
	before := used()
	w.mustPark(p, jobs)
	took := (used() - before) / jobs
	var counted int64
	fmt.Sscan(server.Client().HGet(t.Context(), w.prefix()+"stats", "parkedb").Val(), &counted)
	counted /= jobs + 100
	if t.Logf("a parked job takes %d bytes, counted as %d", took, counted); took > counted*3/2 || took < counted/2 {
		t.Errorf("a parked job takes %d bytes, counted as %d", took, counted)
	}
}
