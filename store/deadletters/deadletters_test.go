package deadletters_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/deadletters"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// world is one process with its queues.
type world struct {
	*deadletters.Store
	t            testing.TB
	db           *redisdb.DB
	events, jobs *queue.Queue
}

func setup(t testing.TB, db *redisdb.DB) *world {
	t.Helper()
	w := &world{t: t, db: db}
	w.events, w.jobs = w.open("events"), w.open("jobs")
	w.Store = deadletters.New(deadletters.Options{Queues: []*queue.Queue{w.events, w.jobs}, Jobs: w.jobs})
	return w
}

// open opens a queue as a process of its own does.
func (w *world) open(name string) *queue.Queue {
	w.t.Helper()
	o := queue.Options{Name: name, Shards: 2, MaxAge: -1, Lease: 2 * time.Second, ReportRetention: api.DeadOperationsKept}
	if name == "jobs" {
		o.Kind = api.DeadTask
	}
	q := queue.New(w.db, o)
	storetest.Must(w.t, q.Init(w.t.Context()))
	return q
}

// run works on a queue until stop is called, at the latest when the test ends.
func run(t testing.TB, q *queue.Queue, h queue.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = q.Run(ctx, h) })
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return stop
}

// work does the operations.
func (w *world) work() (stop func()) { return run(w.t, w.jobs, queue.ByType(w.Handlers())) }

// mustBury makes n dead letters of a queue.
func (w *world) mustBury(q *queue.Queue, n int, reason string) {
	w.t.Helper()
	before := w.dead(q)
	for made := 0; made < n; made += 1000 {
		jobs := make([]queue.Job, min(1000, n-made))
		for i := range jobs {
			jobs[i] = queue.Job{Payload: []byte(`{}`)}
		}
		_, err := q.Enqueue(w.t.Context(), jobs...)
		storetest.Must(w.t, err)
	}
	stop := run(w.t, w.open(q.Name()), queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
		c.Class = queue.ClassOf("likes", "shop/production")
		return queue.Result{Outcome: queue.Dead, Reason: reason}
	}))
	defer stop()
	storetest.Eventually(w.t, 3*time.Minute, "all are dead", func() bool { return w.dead(q) == before+int64(n) })
}

func (w *world) stats(q *queue.Queue) api.QueueStats {
	w.t.Helper()
	s, err := q.Stats(w.t.Context())
	storetest.Must(w.t, err)
	return s
}

func (w *world) dead(q *queue.Queue) int64 { w.t.Helper(); return w.stats(q).DeadLetters }

// now is the time by Redis' clock, after every letter that there is.
func (w *world) now() *api.Time {
	w.t.Helper()
	now, err := w.db.Client().Time(w.t.Context()).Result()
	storetest.Must(w.t, err)
	at := api.At(now.Add(time.Millisecond))
	storetest.Eventually(w.t, time.Minute, "that is long ago, also by a clock that was read slowly", func() bool { return time.Since(now) > time.Second })
	return &at
}

func (w *world) mustBegin(action api.Action, r api.DeadLettersRequest, expect int64) *api.DeadLettersAccepted {
	w.t.Helper()
	r.Expect = &expect
	begun, replayed, err := w.Begin(w.t.Context(), action, &r, api.Idempotency{})
	if err != nil || replayed {
		w.t.Fatal(replayed, err)
	}
	return begun
}

func (w *world) operation(id string) *api.Operation {
	w.t.Helper()
	o, err := w.Operation(w.t.Context(), id)
	storetest.Must(w.t, err)
	return o
}

func (w *world) mustEnd(id string) *api.Operation {
	w.t.Helper()
	storetest.Eventually(w.t, 3*time.Minute, "the operation is done", func() bool { return w.operation(id).State == api.OperationDone })
	return w.operation(id)
}

// N15: an operation on 100,000 letters (5,000 by default) goes on when its process is killed in the middle. Each
// job is run once more, letters that died later are left alone, and meanwhile the operation says how many are
// left.
func TestN15_ACrashInTheMiddle(t *testing.T) {
	t.Parallel()
	n, later := int64(storetest.Sized(100_000, 5000)), int64(500)
	db := storetest.Open(t, storetest.Redis(t).URL())
	w := setup(t, db)
	w.mustBury(w.events, int(n), "Gone")
	r := api.DeadLettersRequest{Type: "likes", Before: w.now()}
	w.mustBury(w.events, int(later), "Gone")

	var killed atomic.Bool
	var steps atomic.Int64
	first := setup(t, storetest.Faulty(t, db, func(name string, answered bool) error {
		if name == "dead_retry" && answered && steps.Add(1) > n/2 {
			killed.Store(true) // within a page: it was acted on, and nothing says so
		}
		if killed.Load() {
			return storetest.ErrLost
		}
		return nil
	}))
	begun := w.mustBegin(api.ActionRetryDead, r, n)
	if o := w.operation(begun.Operation); begun.Matched != n || o.State != api.OperationRunning || *o.Matched != n || *o.Left != n || o.Removed != nil {
		t.Errorf("%+v, %+v", begun, o)
	}
	stop := first.work()
	storetest.Eventually(t, 3*time.Minute, "half of it is done", killed.Load)
	go stop() // it has no Redis any more
	o := w.operation(begun.Operation)
	if dead := w.dead(w.events); o.State != api.OperationRunning || *o.Left < dead-later || *o.Left >= n || dead == later {
		t.Errorf("%d of %d are left, and it says %d, %s", dead-later, n, *o.Left, o.State)
	}
	w.work()
	o = w.mustEnd(begun.Operation)
	if *o.Matched != n || *o.Left != 0 || o.Action != api.ActionRetryDead {
		t.Errorf("%+v, left %d", o, *o.Left)
	}
	if s := w.stats(w.events); s.DeadLetters != later || s.Depth != n {
		t.Errorf("%d are dead and %d queued", s.DeadLetters, s.Depth)
	}
	groups, err := w.events.DeadGroups(t.Context())
	if err != nil || len(groups) != 1 || groups[0].Count != later {
		t.Errorf("%+v, %v", groups, err)
	}
	var mu sync.Mutex
	runs := map[string]int{}
	run(t, w.open("events"), queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
		mu.Lock()
		defer mu.Unlock()
		runs[c.ID]++
		return queue.Result{}
	}))
	storetest.Eventually(t, 3*time.Minute, "all are run", func() bool { return w.stats(w.events).Depth+w.stats(w.events).InFlight == 0 })
	mu.Lock()
	defer mu.Unlock()
	for id, times := range runs {
		if times != 1 {
			t.Errorf("%s was run %d times", id, times)
		}
	}
	if len(runs) != int(n) {
		t.Errorf("%d were run", len(runs))
	}
}

// N15: an operation goes through all queues, or those of its kind; what is no letter of the filter stays.
func TestN15_OfAKind(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		w.mustBury(w.events, 300, "A")
		w.mustBury(w.events, 20, "B")
		w.mustBury(w.jobs, 30, "A")
		w.work()
		for _, step := range []struct {
			r             api.DeadLettersRequest
			matched       int64
			events, other int64
		}{
			{api.DeadLettersRequest{Kind: "event", Reason: "B", App: "shop"}, 20, 300, 30},
			{api.DeadLettersRequest{Reason: "B"}, 0, 300, 30},
			{api.DeadLettersRequest{Kind: api.DeadTask}, 30, 300, 0},
			{api.DeadLettersRequest{Kind: "notification"}, 0, 300, 0},
			{api.DeadLettersRequest{All: true}, 300, 0, 0},
		} {
			step.r.Before = w.now()
			begun := w.mustBegin(api.ActionDeleteDead, step.r, 1000) // fewer are fine
			o := w.mustEnd(begun.Operation)
			if begun.Matched != step.matched || *o.Matched != step.matched || *o.Left != 0 || o.Action != api.ActionDeleteDead {
				t.Errorf("%+v: %+v, %+v", step.r, begun, o)
			}
			if events, jobs := w.dead(w.events), w.dead(w.jobs); events != step.events || jobs != step.other {
				t.Errorf("%+v: %d and %d are left", step.r, events, jobs)
			}
		}
	})
}

// N15: letters that could not be retried are left, and the operation says how many.
func TestN15_WhatIsLeft(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		unique := func(n int) queue.Job { return queue.Job{Unique: fmt.Sprint("u", n), Payload: []byte(`{}`)} }
		for i := range 5 {
			_, err := w.events.Enqueue(t.Context(), unique(i))
			storetest.Must(t, err)
		}
		stop := run(t, w.open("events"), queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r"}
		}))
		storetest.Eventually(t, time.Minute, "all are dead", func() bool { return w.dead(w.events) == 5 })
		stop()
		for i := range 3 {
			_, err := w.events.Enqueue(t.Context(), unique(i))
			storetest.Must(t, err)
		}
		w.work()
		o := w.mustEnd(w.mustBegin(api.ActionRetryDead, api.DeadLettersRequest{All: true, Before: w.now()}, 5).Operation)
		if *o.Matched != 5 || *o.Left != 3 || w.dead(w.events) != 3 {
			t.Errorf("%d of %d are left, really %d", *o.Left, *o.Matched, w.dead(w.events))
		}
	})
}

// N15: while Redis refuses, an operation waits, and then goes on.
func TestN15_RedisRefusesAWhile(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	w := setup(t, db)
	w.mustBury(w.events, 500, "r")
	var refused atomic.Int64
	full := setup(t, storetest.Faulty(t, db, func(name string, answered bool) error {
		if name == "dead_retry" && !answered && refused.Add(1) < 3 {
			return storetest.ErrNoRoom
		}
		return nil
	}))
	begun := w.mustBegin(api.ActionRetryDead, api.DeadLettersRequest{All: true, Before: w.now()}, 500)
	full.work()
	if o := w.mustEnd(begun.Operation); *o.Left != 0 || w.dead(w.events) != 0 || w.stats(w.events).Depth != 500 {
		t.Errorf("%d left", *o.Left)
	}
}
