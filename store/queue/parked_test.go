package queue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mustPark claims n jobs and parks them.
func mustPark(t *testing.T, w *world, p *queue.Stepper, n int) (last *queue.Claimed) {
	t.Helper()
	for range n {
		w.mustEnqueue(queue.Job{Payload: []byte(strings.Repeat("x", 200))})
		last = mustClaim(t, p, 1)[0]
		if answer, err := p.Finish(last, queue.Result{Outcome: queue.Park, Parked: "app"}); err != nil || answer != "1" {
			t.Fatal(answer, err)
		}
	}
	return last
}

// TestParkedJobsHaveABound: with all that they may take, what was enqueued later may not
// be parked, in no process, and what was there before may come back.
func TestParkedJobsHaveABound(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease, o.ParkedBytes = time.Hour, 20*400 })
		one, other := w.another(), w.another()
		p, err := queue.NewStepper(one.q)
		storetest.Must(t, err)
		second, err := queue.NewStepper(other.q)
		storetest.Must(t, err)
		old := mustPark(t, w, p, 3)
		if !one.q.MayPark("x", old.EnqueuedAt, old.Clock()) {
			t.Error("no room for a fourth job")
		}
		const posts = 24 // of 375 bytes each: more than may be parked
		mustPark(t, w, p, posts-3)
		storetest.Must(t, second.Maintain())
		late := func(q *queue.Queue, p *queue.Stepper) (c *queue.Claimed) {
			t.Helper()
			eventually(t, "a job that was enqueued later may not be parked", func() bool {
				w.mustEnqueue(queue.Job{})
				c = mustClaim(t, p, 1)[0]
				return !q.MayPark("x", c.EnqueuedAt, c.Clock())
			})
			if !q.MayPark("x", old.EnqueuedAt, old.Clock()) {
				t.Error("one that was parked may not come back")
			}
			return c
		}
		late(other.q, second)
		c := late(one.q, p)
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
	p, err := queue.NewStepper(w.q)
	storetest.Must(t, err)
	bound := func(limit int64) int64 {
		t.Helper()
		storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", fmt.Sprint(limit)).Err())
		w.db.Check(t.Context())
		return queue.ParkedBound(w.q)
	}
	if n := bound(0); n != 0 {
		t.Errorf("without maxmemory the bound is %d", n)
	}
	if c := mustPark(t, w, p, 20); !w.q.MayPark("x", c.EnqueuedAt, c.Clock()) {
		t.Error("without maxmemory there is a bound")
	}
	if n := bound(100_000_000); n != 30_000_000 {
		t.Errorf("the bound is %d", n)
	}
}

// TestWhatIsParkedIsWeighed: what is counted for a parked job is what it takes, about.
func TestWhatIsParkedIsWeighed(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Lease = time.Hour })
	p, err := queue.NewStepper(w.q)
	storetest.Must(t, err)
	used := func() (n int64) {
		t.Helper()
		v, err := server.Client().InfoMap(t.Context(), "memory").Result()
		storetest.Must(t, err)
		fmt.Sscan(v["Memory"]["used_memory"], &n)
		return n
	}
	mustPark(t, w, p, 100)
	const jobs = 2000
	before := used()
	mustPark(t, w, p, jobs)
	took := (used() - before) / jobs
	var counted int64
	fmt.Sscan(server.Client().HGet(t.Context(), w.prefix(0)+"stats", "parkedb").Val(), &counted)
	counted /= jobs + 100
	if t.Logf("a parked job takes %d bytes, counted as %d", took, counted); took > counted*3/2 || took < counted/2 {
		t.Errorf("a parked job takes %d bytes, counted as %d", took, counted)
	}
}
