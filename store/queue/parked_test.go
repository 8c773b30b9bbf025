package queue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// claimTo has a process hand what it claims to the test.
func (w *world) claimTo(claims chan *queue.Claimed) {
	w.run(func(_ context.Context, batch []*queue.Claimed) {
		for _, c := range batch {
			claims <- c
		}
	})
}

// mustPark stores n jobs and parks them.
func mustPark(t *testing.T, w *world, claims <-chan *queue.Claimed, n int) (last *queue.Claimed) {
	t.Helper()
	before := len(w.mustState(0).Parked)
	for range n {
		w.mustEnqueue(queue.Job{Payload: []byte(strings.Repeat("x", 200))})
		last = <-claims
		last.Finish(queue.Result{Outcome: queue.Park, Parked: "app"})
	}
	eventually(t, "they are parked", func() bool { return len(w.mustState(0).Parked) == before+n })
	return last
}

// TestParkedJobsHaveABound: with all that they may take, what was enqueued later may not
// be parked, in no process, and what was there before may come back.
func TestParkedJobsHaveABound(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease, o.ParkedBytes = time.Hour, 20*400 })
		one, other := w.another(), w.another()
		claims := make(chan *queue.Claimed, 100)
		one.claimTo(claims)
		old := mustPark(t, w, claims, 3)
		if !one.q.MayPark("x", old.EnqueuedAt, old.Clock()) {
			t.Error("no room for a fourth job")
		}
		const posts = 24 // of 375 bytes each: more than may be parked
		mustPark(t, w, claims, posts-3)
		other.claimTo(claims) // its first look tells it
		late := func(q *queue.Queue) (c *queue.Claimed) {
			t.Helper()
			eventually(t, "a job that was enqueued later may not be parked", func() bool {
				w.mustEnqueue(queue.Job{})
				c = <-claims
				c.Finish(queue.Result{})
				return !q.MayPark("x", c.EnqueuedAt, c.Clock())
			})
			if !q.MayPark("x", old.EnqueuedAt, old.Clock()) {
				t.Error("one that was parked may not come back")
			}
			return c
		}
		late(other.q)
		c := late(one.q)
		unpark := func(n int) {
			t.Helper()
			if moved, err := one.q.Unpark(t.Context(), 0, "app", n); err != nil || moved != n {
				t.Fatal(moved, err)
			}
		}
		if unpark(1); one.q.MayPark("x", c.EnqueuedAt, c.Clock()) {
			t.Error("a probe's place is taken while it is away")
		}
		if unpark(posts - 1); !one.q.MayPark("x", c.EnqueuedAt, c.Clock()) {
			t.Error("with nothing parked there is no room")
		}
		if n := db.Client().HGet(t.Context(), w.prefix(0)+"stats", "parkedb").Val(); n != "0" {
			t.Errorf("nothing is parked, in %s bytes", n)
		}
	})
}

// TestParkedJobsMayTakeAShareOfRedis: by default 30 % of maxmemory, which all shards share,
// and any number without it.
func TestParkedJobsMayTakeAShareOfRedis(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Lease = time.Hour })
	claims := make(chan *queue.Claimed, 100)
	w.claimTo(claims)
	bound := func(limit int64) int64 {
		t.Helper()
		storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", fmt.Sprint(limit)).Err())
		w.db.Check(t.Context())
		return queue.ParkedBound(w.q)
	}
	if n := bound(0); n != 0 {
		t.Errorf("without maxmemory the bound is %d", n)
	}
	if c := mustPark(t, w, claims, 20); !w.q.MayPark("x", c.EnqueuedAt, c.Clock()) {
		t.Error("without maxmemory there is a bound")
	}
	if n := bound(100_000_000); n != 30_000_000 {
		t.Errorf("the bound is %d", n)
	}
}
