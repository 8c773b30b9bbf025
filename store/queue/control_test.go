package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestShardsAreFixed(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 4 })
		if err := w.another().q.Init(t.Context()); err != nil {
			t.Errorf("the same number: %v", err)
		}
		err := queue.New(db, queue.Options{Name: w.o.Name, Shards: 5}).Init(t.Context())
		if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "FANFARE_SHARDS=4") || !strings.Contains(err.Error(), "drain") {
			t.Errorf("another number: %v", err)
		}
	})
}

func TestRouting(t *testing.T) {
	t.Parallel()
	q := queue.New(&redisdb.DB{}, queue.Options{Name: "x", Shards: 8})
	if q.Route("stable") != 7 || q.Shards() != 8 {
		t.Errorf("the route of a key has changed: %d", q.Route("stable"))
	}
	now := time.Date(2026, 11, 20, 12, 34, 56, 0, time.UTC)
	id := queue.NewID(200, now)
	shard, ok := queue.ParseID(id)
	if !ok || shard != 200 || len(id) != 32 || id[:6] != queue.NewID(3, now.Add(time.Second/33))[:6] || id[:6] == queue.NewID(200, now.Add(time.Second/32))[:6] {
		t.Errorf("%s: %d %v", id, shard, ok)
	}
	for _, bad := range []string{"", "x", strings.Repeat("z", 32), id + "0", strings.ToUpper(id[:31]) + "Z"} {
		if _, ok := queue.ParseID(bad); ok {
			t.Errorf("%q is an id", bad)
		}
	}
}

func TestEnqueueTwiceHasTheEffectOfOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		group := queue.NewID(0, epoch)
		job := queue.Job{ID: "550e8400-e29b-41d4-a716-446655440000", Group: group}
		first, err := w.q.Enqueue(t.Context(), job)
		if err != nil || !first[0].New {
			t.Fatalf("%+v, %v", first, err)
		}
		job.Counts = map[string]int64{"again": 1}
		again := func(when string) {
			t.Helper()
			if e, err := w.q.Enqueue(t.Context(), job); err != nil || e[0].New || e[0].ID != job.ID {
				t.Errorf("%s: %+v, %v", when, e, err)
			}
		}
		again("waiting")
		stop := w.run(queue.Each(done))
		w.mustBeEmpty()
		again("done")
		stop()
		counts, err := w.q.Groups(t.Context(), group)
		if err != nil || len(counts) != 2 || counts["created"] != 1 || counts["done"] != 1 {
			t.Errorf("%v %v", counts, err)
		}
	})
}

func TestEnqueueOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		once := queue.Once{Key: "key1 POST /v1/events abc", Body: [32]byte{1}, Answer: `{"id":"1"}`}
		call := func(once queue.Once) (bool, string, error) {
			return w.q.EnqueueOnce(t.Context(), once, queue.Job{ID: queue.NewID(0, epoch)}, queue.Job{ID: queue.NewID(0, epoch)})
		}
		if replayed, stored, err := call(once); replayed || stored != once.Answer || err != nil {
			t.Fatalf("%v %s %v", replayed, stored, err)
		}
		other := once
		other.Answer = `{"id":"2"}`
		if replayed, stored, err := call(other); !replayed || stored != `{"id":"1"}` || err != nil {
			t.Errorf("replay: %v %s %v", replayed, stored, err)
		}
		other.Body[5] = 9
		if _, _, err := call(other); api.CodeOf(err) != api.CodeIdempotencyReused {
			t.Errorf("other body: %v", err)
		}
		if replayed, _, err := call(queue.Once{}); replayed || err != nil {
			t.Errorf("no key: %v %v", replayed, err)
		}
		if n := len(w.mustState(0).Records); n != 4 {
			t.Errorf("%d jobs, want 4", n)
		}
		if d := w.q.Depth(0); d != 4 {
			t.Errorf("depth %d", d)
		}
	})
}

func TestQ20_Stats(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 3; o.Lease = 2 * time.Second; o.Serve = []int{0, 1} })
		s, err := w.q.Stats(t.Context())
		if err != nil || fmt.Sprint(s.Unserved) != "[0 1 2]" {
			t.Errorf("%+v, %v", s, err)
		}
		w.mustEnqueue(queue.Job{ID: queue.NewID(2, epoch), Shard: 2})
		running, hold := make(chan bool, 10), make(chan bool)
		w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { running <- true; <-hold; return queue.Result{} }))
		defer close(hold)
		at := func(shard int, j queue.Job) queue.Job { j.ID, j.Shard = queue.NewID(shard, epoch), shard; return j }
		w.mustEnqueue(at(0, queue.Job{Key: "k"}), at(0, queue.Job{Key: "k"}), at(1, queue.Job{Delay: time.Hour}))
		<-running
		eventually(t, "stats say so", func() bool {
			s, err := w.q.Stats(t.Context())
			return err == nil && s.Depth == 1 && s.Blocked == 1 && s.Scheduled == 1 && s.InFlight == 1 &&
				fmt.Sprint(s.Unserved) == "[2]" && s.OldestAgeMS >= 0 && s.Name == w.o.Name
		})
	})
}

func TestParkAndUnpark(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 5 * time.Second })
		var away atomic.Bool
		away.Store(true)
		var ran atomic.Int64
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			if away.Load() {
				return queue.Result{Outcome: queue.Park, Parked: "app:one"}
			}
			if c.Attempt != 1 {
				t.Errorf("parking was counted: attempt %d", c.Attempt)
			}
			ran.Add(1)
			return queue.Result{}
		}))
		for range 150 {
			w.mustEnqueue(queue.Job{})
		}
		eventually(t, "all are parked", func() bool { s, err := w.q.Stats(t.Context()); return err == nil && s.Parked == 150 })
		w.mustBeConsistent()
		away.Store(false)
		for _, want := range []int{1, 100, 49, 0} {
			n, err := w.q.Unpark(t.Context(), 0, "app:one", max(want, 1))
			if err != nil || n != want {
				t.Errorf("%d moved, want %d, %v", n, want, err)
			}
		}
		eventually(t, "all ran", func() bool { return ran.Load() == 150 })
	})
}

// TestGroupsAndReportsGoWithTheirRetention: a group after its last change; a report
// too, unless its result asked for longer.
func TestGroupsAndReportsGoWithTheirRetention(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.GroupRetention = 3 * time.Second })
		brief := queue.NewID(0, epoch)
		ids := []string{queue.NewID(0, epoch), queue.NewID(0, epoch.Add(time.Hour))}
		w.mustEnqueue(
			queue.Job{ID: ids[0], Group: brief, Counts: map[string]int64{"extra": 2}},
			queue.Job{ID: ids[1], Fresh: true, Report: "Qkept"})
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			if c.ID == ids[1] {
				return queue.Result{Report: "Dkept", ReportTTL: time.Hour}
			}
			return queue.Result{Counts: map[string]int64{"recipients": 3}}
		}))
		w.mustBeEmpty()
		eventually(t, "the report of the end", func() bool {
			text, err := queuetest.Report(t.Context(), w.q, ids[1])
			return err == nil && text == "Dkept"
		})
		counts, err := w.q.Groups(t.Context(), brief)
		if err != nil || counts["recipients"] != 3 || counts["extra"] != 2 {
			t.Errorf("%v %v", counts, err)
		}
		eventually(t, "the group goes with its retention", func() bool {
			counts, err := w.q.Groups(t.Context(), brief)
			return err == nil && len(counts) == 0
		})
		if text, err := queuetest.Report(t.Context(), w.q, ids[1]); err != nil || text != "Dkept" {
			t.Errorf("the report is %q, %v", text, err)
		}
	})
}

// TestReportsGoBeforeGroups: a queue may keep its groups longer than its reports,
// whatever wrote them last: an enqueue, a result, or the end of a dead letter.
func TestReportsGoBeforeGroups(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) {
			o.GroupRetention, o.ReportRetention, o.MaxAge = 100*time.Hour, 2*time.Hour, time.Hour
		})
		const reports = 3*time.Hour + time.Minute // an enqueue adds an hour, which the job may wait
		mustLive := func(when string) {
			t.Helper()
			for _, key := range w.mustKeys() {
				left := db.Client().PTTL(t.Context(), key).Val()
				switch kind := strings.TrimPrefix(key, w.prefix(0)); {
				case strings.HasPrefix(kind, "report:") && (left <= 0 || left > reports),
					strings.HasPrefix(kind, "group:") && left < 99*time.Hour:
					t.Errorf("%s: %s lives %v", when, kind, left)
				}
			}
		}
		w.mustEnqueue(
			queue.Job{ID: queue.NewID(0, epoch), Group: queue.NewID(0, epoch), Fresh: true, Report: "Q", Payload: []byte("good")},
			queue.Job{ID: queue.NewID(0, epoch), Group: queue.NewID(0, epoch), Fresh: true, Report: "Q", Payload: []byte("bad")})
		mustLive("enqueued")
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			if string(c.Payload) == "bad" {
				return queue.Result{Outcome: queue.Dead, Report: "X"}
			}
			return queue.Result{Report: "D"}
		}))
		w.mustBeEmpty()
		mustLive("ended")
	})
}

// TestReportsLastFromTheEnd: the times of groups and reports count from their last
// change, not from their first.
func TestReportsLastFromTheEnd(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) {
			o.GroupRetention, o.ReportRetention, o.MaxAge = time.Hour, time.Hour, time.Minute
		})
		group := queue.NewID(0, epoch)
		w.mustEnqueue(
			queue.Job{ID: queue.NewID(0, epoch), Group: group, Counts: map[string]int64{"a": 1}},
			queue.Job{ID: queue.NewID(0, epoch), Fresh: true, Report: "Q"})
		found := map[string]bool{}
		eachRecord := func(f func(kind, key string)) {
			for _, key := range w.mustKeys() {
				if kind, _, _ := strings.Cut(strings.TrimPrefix(key, w.prefix(0)), ":"); kind == "group" || kind == "report" {
					f(kind, key)
				}
			}
		}
		eachRecord(func(_, key string) { // as if the jobs had waited for most of an hour
			storetest.Must(t, db.Client().PExpire(t.Context(), key, 5*time.Minute).Err())
		})
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			if c.Group == "" {
				return queue.Result{Report: "D"}
			}
			return queue.Result{Counts: map[string]int64{"a": 1}}
		}))
		w.mustBeEmpty()
		eachRecord(func(kind, key string) {
			found[kind] = true
			if left := db.Client().PTTL(t.Context(), key).Val(); left < 59*time.Minute {
				t.Errorf("%s ends %v after the job", key, left)
			}
		})
		if !found["group"] || !found["report"] {
			t.Errorf("found only %v", found)
		}
	})
}

// TestClock: a job's clock goes on while it waits for its handler's work.
func TestClock(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		claimed := make(chan *queue.Claimed, 1)
		done := make(chan bool)
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { claimed <- c; <-done; return queue.Result{} }))
		defer close(done)
		w.mustEnqueue(queue.Job{})
		c := <-claimed
		eventually(t, "the clock goes on", func() bool { return c.Clock().Sub(c.Now) > 20*time.Millisecond })
		before, err := w.q.Now(t.Context(), 0)
		storetest.Must(t, err)
		if d := c.Clock().Sub(before); d < -time.Second || d > 10*time.Second {
			t.Errorf("the job's clock is %v before Redis'", d)
		}
	})
}
