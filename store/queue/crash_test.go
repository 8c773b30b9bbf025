package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestQ16_KillAtEveryStep kills a process before and after every single step it
// takes, starts the next, and checks after each death that nothing is an orphan
// and at the end that every job ran.
func TestQ16_KillAtEveryStep(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 150 * time.Millisecond; o.Retention = time.Minute })
		outcomes := []queue.Result{{}, {Outcome: queue.Retry, Delay: time.Millisecond}, {Outcome: queue.Defer, Delay: time.Millisecond},
			{Outcome: queue.Continue, Payload: []byte("more")}, {Outcome: queue.Release}, {Outcome: queue.Dead}}
		var ended sync.Map
		work := queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			r := outcomes[rand.IntN(len(outcomes))]
			if r.Outcome == queue.Done || r.Outcome == queue.Dead {
				ended.Store(c.ID, true)
			}
			return r
		})
		group := queue.NewID(0, epoch)
		var ids []string
		for step := range 24 {
			jobs := make([]queue.Job, 4)
			for i := range jobs {
				id := queue.NewID(0, epoch)
				ids = append(ids, id)
				jobs[i] = queue.Job{ID: id, Key: fmt.Sprint("k", i%2), Unique: id, Group: group, Attachment: []string{"a"}}
			}
			w.killedAtStep(step, jobs, work)
			w.mustBeConsistent()
			w.mustEnqueue(jobs...) // the client asks again: no effect if it had one
		}
		last := w.another(func(o *queue.Options) { o.MaxAttempts = 1000 })
		stop := last.run(work)
		eventually(t, "every job came to its end", func() bool {
			for _, id := range ids {
				if _, ok := ended.Load(id); !ok {
					return false
				}
			}
			return true
		})
		w.mustBeEmpty()
		stop()
		w.mustBeConsistent()
		counts, err := w.q.Groups(t.Context(), group)
		if n := int64(len(ids)); err != nil || counts["created"] != n || counts["done"]+counts["failed"] != n {
			t.Errorf("counts %v of %d jobs, %v", counts, n, err)
		}
	})
}

// killedAtStep is a process that enqueues, claims and finishes, and dies at its
// n-th contact with Redis: even n before the command, odd n after it.
func (w *world) killedAtStep(n int, jobs []queue.Job, h queue.Handler) {
	o := w.o
	o.Logger, o.Serve = nil, nil
	q := queue.New(w.db, o)
	var contacts atomic.Int64
	died := make(chan struct{})
	die := sync.OnceFunc(func() { close(died) })
	q.SetFault(w.t, func(_ string, _ bool) error {
		if contacts.Add(1) > int64(n) {
			die()
			return storetest.ErrLost
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	_, _ = q.Enqueue(w.t.Context(), jobs...)
	go func() { _ = q.Run(ctx, h) }()
	select {
	case <-died:
	case <-time.After(5 * time.Second):
	}
	cancel()
}

// TestEveryScriptMayRunTwice sends every step twice, as a client does whose
// answer was lost, and another time loses answers without sending again.
func TestEveryScriptMayRunTwice(t *testing.T) {
	t.Parallel()
	faults := map[string]func(step string, answered bool) error{
		"Twice": func(_ string, answered bool) error {
			if answered {
				return storetest.ErrTwice
			}
			return nil
		},
		"AnswersLost": func(_ string, answered bool) error {
			if answered && rand.IntN(4) == 0 {
				return storetest.ErrLost
			}
			return nil
		},
	}
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := setup(t, db, func(o *queue.Options) { o.Lease = 30 * time.Second; o.MaxAttempts = 100 })
				group := queue.NewID(0, epoch)
				var runs sync.Map
				var retried atomic.Int64
				worker := w.another()
				worker.q.SetFault(t, fault)
				worker.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
					n, _ := runs.LoadOrStore(c.ID, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
					if c.Attempt == 1 && retried.Add(1)%3 == 0 {
						return queue.Result{Outcome: queue.Retry, Delay: time.Millisecond, Counts: map[string]int64{"tries": 1}}
					}
					return queue.Result{Label: "delivered", Counts: map[string]int64{"tries": 1}}
				}))
				client := w.another()
				client.q.SetFault(t, fault)
				const n = 200
				for i := range n {
					job := queue.Job{ID: queue.NewID(0, epoch), Group: group, Key: fmt.Sprint(i % 20), Attachment: []string{"x"}}
					for _, err := client.q.Enqueue(t.Context(), job); err != nil; _, err = client.q.Enqueue(t.Context(), job) {
					}
				}
				before := time.Now()
				eventually(t, "all delivered", func() bool {
					counts, err := w.q.Groups(t.Context(), group)
					return err == nil && counts["delivered"] == n
				})
				w.mustBeEmpty()
				w.mustBeConsistent()
				counts, _ := w.q.Groups(t.Context(), group)
				total := int64(0)
				runs.Range(func(_, v any) bool { total += v.(*atomic.Int64).Load(); return true })
				if counts["created"] != n || counts["tries"] != total {
					t.Errorf("counts %v, handlers ran %d times", counts, total)
				}
				if took := time.Since(before); took > 25*time.Second {
					t.Errorf("%v: a lost answer must not cost a lease", took)
				}
			})
		}
	})
}

// TestAResultGivenUpIsNotTheAnswerOfTheNext: the first result is recorded, its
// answer is lost, and Redis refuses every repeat, so that the lease is given up; the
// next result must not be taken for that one.
func TestAResultGivenUpIsNotTheAnswerOfTheNext(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 10 * time.Minute })
		worker := w.another()
		var sent atomic.Int64
		worker.q.SetFault(t, func(step string, answered bool) error {
			switch {
			case step != "finish":
				return nil
			case answered && sent.Load() == 1:
				return storetest.ErrLost
			case !answered && sent.Add(1) > 1 && sent.Load() <= 4:
				return redisdb.ScriptError("ERR refused")
			}
			return nil
		})
		worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { return queue.Result{} }))
		for i := range 3 {
			w.mustEnqueue(queue.Job{})
			w.mustBeEmpty()
			if i == 0 {
				eventually(t, "its result to be given up", func() bool { return sent.Load() == 4 })
			}
		}
	})
}

// TestARefusedResultHoldsUpNobody breaks a group's record by hand.
func TestARefusedResultHoldsUpNobody(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		bad, good := queue.NewID(0, epoch), queue.NewID(0, epoch)
		w.mustEnqueue(queue.Job{Group: bad, Type: "bad"}, queue.Job{Group: good}, queue.Job{Group: good})
		for _, key := range w.mustKeys() {
			if strings.Contains(key, ":group:") && db.Client().HExists(t.Context(), key, bad[6:]).Val() {
				db.Client().HSet(t.Context(), key, bad[6:], "{broken")
			}
		}
		w.run(queue.Each(done))
		eventually(t, "the others are counted", func() bool {
			counts, err := w.q.Groups(t.Context(), good)
			return err == nil && counts["done"] == 2
		})
	})
}

func TestRedisEmptiedIsHealed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "embedded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "embedded"
			if name == "redis" {
				url = storetest.Redis(t).URL()
			}
			var told atomic.Int64
			w := setup(t, storetest.Open(t, url), func(o *queue.Options) { o.Shards, o.OnEmptied = 3, func() { told.Add(1) } })
			var runs atomic.Int64
			w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { runs.Add(1); return queue.Result{} }))
			for round := range int64(3) {
				for shard := range 3 {
					w.mustEnqueue(queue.Job{ID: queue.NewID(shard, epoch), Shard: shard})
				}
				eventually(t, "all ran", func() bool { return runs.Load() == 3*(round+1) })
				if err := w.db.Client().FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "the number of shards is on record again", func() bool {
				return w.db.Client().HGet(t.Context(), "ff:{q:"+w.o.Name+"}:meta", "shards").Val() == "8:3"
			})
			eventually(t, "operators are told", func() bool { return told.Load() > 0 })
		})
	}
}

// Redis was emptied while nobody had a lease, as after a long outage: the next to begin
// tells operators, and the first start of all does not.
func TestInitTellsThatRedisWasEmptied(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	w := setup(t, storetest.Open(t, "embedded"), func(o *queue.Options) { o.OnEmptied = func() { told.Add(1) } })
	for range 2 {
		storetest.Must(t, w.q.Init(t.Context()))
	}
	if n := told.Load(); n != 0 {
		t.Errorf("told %d times of nothing", n)
	}
	storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
	for range 2 {
		storetest.Must(t, w.q.Init(t.Context()))
	}
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times, want once", n)
	}
}
