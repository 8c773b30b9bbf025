package shard_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestNewAndReturnedWorkAreReadInTurns: neither what came back nor what is new
// starves the other.
func TestNewAndReturnedWorkAreReadInTurns(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p := w.mustStep()
		enqueue := func(kind string, n int) {
			var jobs []queue.Job
			for range n {
				jobs = append(jobs, queue.Job{Type: kind})
			}
			w.mustEnqueue(jobs...)
		}
		enqueue("returned", 100)
		batch, err := p.Claim(100)
		if err != nil || len(batch) != 100 {
			t.Fatal(len(batch), err)
		}
		for _, c := range batch {
			if _, err := p.Finish(c, queue.Result{Outcome: queue.Release}); err != nil {
				t.Fatal(err)
			}
		}
		enqueue("new", 100)
		for _, n := range []int{20, 20} {
			batch, err := p.Claim(n)
			if err != nil || len(batch) != n {
				t.Fatal(len(batch), err)
			}
			kinds := map[string]int{}
			for _, c := range batch {
				kinds[c.Type]++
			}
			if kinds["new"] != n/2 || kinds["returned"] != n/2 {
				t.Errorf("a claim of %d took %v", n, kinds)
			}
		}
		kinds := map[string]int{} // as a process claims whose places are all taken
		for range 40 {
			batch, err := p.Claim(1)
			if err != nil || len(batch) != 1 {
				t.Fatal(len(batch), err)
			}
			kinds[batch[0].Type]++
		}
		if kinds["new"] < 5 || kinds["returned"] < 5 {
			t.Errorf("40 claims of one took %v", kinds)
		}
	})
}

// TestTwoStreamsMayHaveEntriesOfOneID: an entry that came back in the very
// millisecond in which another is stored is not taken for it.
func TestTwoStreamsMayHaveEntriesOfOneID(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		p := w.mustStep()
		const far = "99999999999999" // ms: from then on the clock no longer makes the ids
		c, ctx := db.Client(), t.Context()
		back := queue.NewID(0, epoch)
		text := "F" + strings.Join([]string{back, "", "", "", "", "", "1", "", "0", "1", "5", ""}, "\x1f") + "\x00back"
		for _, e := range []redis.XAddArgs{
			{Stream: w.prefix() + "main", ID: far + "-1", Values: []string{"e", "W\x00"}},
			{Stream: w.prefix() + "ready", ID: far + "-2", Values: []string{"e", text}},
		} {
			if err := c.XAdd(ctx, &e).Err(); err != nil {
				t.Fatal(err)
			}
		}
		batch, err := p.EnqueueAndClaim(10, queue.Job{ID: queue.NewID(0, epoch), Fresh: true, Payload: []byte("new")})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, one := range batch {
			got[string(one.Payload)] = one.ID
		}
		if len(batch) != 2 || got["back"] != back || got["new"] == "" {
			t.Errorf("claimed %v", got)
		}
	})
}
