package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func done(context.Context, *queue.Claimed) queue.Result { return queue.Result{} }

func TestQ5_NoLostWakeUp(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
		started := make(chan string, 10)
		for range 3 {
			w.another().run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
				started <- c.ID
				return queue.Result{}
			}))
		}
		usual := 20 * time.Millisecond
		if db.Embedded() {
			usual *= 5 // its scripts run in this process, slowed by the race detector
		}
		median := time.Hour
		for round := 0; round < 5 && median > usual; round++ { // one that the machine did not disturb
			var took []time.Duration
			for n := range 100 { // at every instant: just after a claim, a finish, a block
				time.Sleep(time.Duration(n%10) * 300 * time.Microsecond) //nolint:forbidigo // the work of a job
				before := time.Now()
				w.mustEnqueue(queue.Job{ID: queue.NewID(0, epoch), Shard: 0})
				select {
				case <-started:
				case <-time.After(10 * time.Second): // the regular look comes later
					t.Fatalf("job %d was not started", n)
				}
				took = append(took, time.Since(before))
			}
			slices.Sort(took)
			t.Logf("median %v, worst %v", took[50], took[99])
			median = took[50]
		}
		if median > usual {
			t.Errorf("the best median is %v", median)
		}
	})
}

func TestQ5_ADelayedJobStartsWhenItIsDue(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
		late := make(chan time.Duration, 40)
		w.another().run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			late <- c.Now.Sub(c.EnqueuedAt)
			return queue.Result{}
		}))
		due := 150 * time.Millisecond
		usual := due + 20*time.Millisecond
		if db.Embedded() {
			usual = due + 100*time.Millisecond // its scripts run in this process, slowed by the race detector
		}
		best := time.Hour
		for round := 0; round < 40 && best > usual; round++ { // one that the machine did not disturb
			w.mustEnqueue(queue.Job{Delay: due}, queue.Job{Delay: time.Hour})
			d := <-late
			if d < due {
				t.Fatalf("started after %v", d)
			}
			best = min(best, d)
		}
		if best > usual {
			t.Errorf("started %v late", best-due)
		}
		w.mustBeConsistent()
	})
}

func TestQ6_KilledInMidJob(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Second })
		w.mustEnqueue(queue.Job{Key: "k", Payload: []byte("precious")})
		again := make(chan *queue.Claimed, 1)
		other := w.another()
		first := w.mustClaimAndDie()[0]
		before := time.Now()
		other.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			again <- c
			return queue.Result{}
		}))
		c := <-again
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("taken over after %v with a lease of 1s", took)
		}
		if c.ID != first.ID || string(c.Payload) != "precious" || c.Attempt != 1 || c.Fence <= first.Fence {
			t.Errorf("%+v after %+v", c, first)
		}
		w.mustBeEmpty()
		w.mustBeConsistent()
		if s, err := w.q.Stats(t.Context()); err != nil || s.Recovered != 1 {
			t.Errorf("recovered %d, %v", s.Recovered, err)
		}
	})
}

func TestQ7_ALostLeaseEndsTheContext(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		group := queue.NewID(0, epoch)
		w.mustEnqueue(queue.Job{Group: group})
		stuck := w.another()
		var cut atomic.Bool
		stuck.q.SetFault(t, func(step string, _ bool) error {
			if cut.Load() {
				return storetest.ErrLost
			}
			return nil
		})
		ended, finish := make(chan bool, 1), make(chan bool)
		stuck.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			cut.Store(true) // it is cut off, but lives
			<-ctx.Done()
			ended <- c.Alive()
			<-finish
			return queue.Result{Label: "stale"}
		}))
		if <-ended {
			t.Error("alive after its context ended")
		}
		var runs atomic.Int64
		w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			runs.Add(1)
			return queue.Result{Label: "fresh"}
		}))
		eventually(t, "another ran it", func() bool { return runs.Load() == 1 })
		w.mustBeEmpty()
		cut.Store(false)
		close(finish)
		eventually(t, "counted once", func() bool {
			counts, err := w.q.Groups(t.Context(), group)
			return err == nil && counts["fresh"] == 1 && counts["stale"] == 0 && counts["created"] == 1
		})
	})
}

func TestQ8_ALongJobKeepsItsLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 2 * time.Second })
		w.mustEnqueue(queue.Job{Key: "k"})
		var runs atomic.Int64
		work := queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			runs.Add(1)
			select {
			case <-ctx.Done():
				t.Error("the context ended")
			case <-time.After(5 * time.Second):
			}
			return queue.Result{}
		})
		w.another().run(work)
		w.another().run(work)
		w.mustBeEmpty()
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

func TestQ9_UnknownTypeBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		ids := w.mustEnqueue(queue.Job{Type: "unheard-of", Payload: []byte(`{"a":1}`), Key: "k", Unique: "u"}, queue.Job{Type: "known"})
		var known atomic.Int64
		w.run(queue.ByType(map[string]func(context.Context, *queue.Claimed) queue.Result{
			"known": func(context.Context, *queue.Claimed) queue.Result { known.Add(1); return queue.Result{} },
		}))
		w.mustBeEmpty()
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.q)
		if err != nil || len(list.Items) != 1 || known.Load() != 1 {
			t.Fatalf("%+v, %v, %d", list, err, known.Load())
		}
		d := list.Items[0]
		if d.Reason != "unknown_type" || d.ID != w.q.DeadID(0, ids[0]) || string(d.Payload) != `{"a":1}` {
			t.Errorf("%+v", d)
		}
	})
}

func TestQ10_FailuresCountAndDefersDoNot(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.MaxAttempts = 3; o.MaxAge = 2 * time.Second })
		group := queue.NewID(0, epoch)
		w.mustEnqueue(queue.Job{Type: "fails", Group: group, Key: "k", Unique: "u"}, queue.Job{Type: "defers", Group: group})
		var attempts seen
		var defers atomic.Int64
		w.run(queue.ByType(map[string]func(context.Context, *queue.Claimed) queue.Result{
			"fails": func(_ context.Context, c *queue.Claimed) queue.Result {
				attempts.add(fmt.Sprint(c.Attempt))
				return queue.Result{Outcome: queue.Retry, Err: "broken"}
			},
			"defers": func(_ context.Context, c *queue.Claimed) queue.Result {
				if c.Attempt != 1 {
					t.Errorf("attempt %d", c.Attempt)
				}
				defers.Add(1)
				return queue.Result{Outcome: queue.Defer, Delay: 20 * time.Millisecond, Err: "away"}
			},
		}))
		w.mustBeEmpty()
		if got := strings.Join(attempts.all(), " "); got != "1 2 3" {
			t.Errorf("attempts %s", got)
		}
		if defers.Load() <= 3 {
			t.Errorf("%d defers", defers.Load())
		}
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.q)
		if err != nil || len(list.Items) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		reasons := []string{list.Items[0].Reason, list.Items[1].Reason}
		slices.Sort(reasons)
		if fmt.Sprint(reasons) != "[max_age max_attempts]" {
			t.Errorf("reasons %v", reasons)
		}
		counts, err := w.q.Groups(t.Context(), group)
		if err != nil || counts["created"] != 2 || counts["failed"] != 2 {
			t.Errorf("%v, %v", counts, err)
		}
		w.mustBeConsistent()
	})
}

func TestQ11_APoisonedEntryDiesAlone(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 150 * time.Millisecond })
		jobs := []queue.Job{{Type: "poison", Payload: []byte(`"poison"`)}}
		for range 9 {
			jobs = append(jobs, queue.Job{Type: "neighbour"})
		}
		w.mustEnqueue(jobs...)
		var good sync.Map
		for range 30 { // a process starts, is killed by the poison, starts again
			killed := make(chan bool, 1)
			one := w.another()
			kill := one.runUntilKilled(func(_ context.Context, batch []*queue.Claimed) {
				for _, c := range batch {
					if c.Type == "poison" {
						select {
						case killed <- true:
						default:
						}
						return // with everything this process had
					}
				}
				for _, c := range batch {
					good.Store(c.ID, true)
					c.Finish(queue.Result{})
				}
			})
			select {
			case <-killed:
			case <-time.After(1500 * time.Millisecond):
			}
			kill()
			if list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.q); err == nil && len(list.Items) > 0 {
				break
			}
		}
		w.another().run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { good.Store(c.ID, true); return queue.Result{} }))
		w.mustBeEmpty()
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.q)
		if err != nil || len(list.Items) != 1 || string(list.Items[0].Payload) != `"poison"` || list.Items[0].Reason != "lease_lost" {
			t.Fatalf("%+v, %v", list, err)
		}
		n := 0
		good.Range(func(any, any) bool { n++; return true })
		if n != 9 {
			t.Errorf("%d of 9 neighbours ran", n)
		}
	})
}

func TestQ12_StopStartsNothingAndHandsBack(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.InFlight = 3; o.Lease = time.Minute; o.Drain = 50 * time.Millisecond })
		for range 10 {
			w.mustEnqueue(queue.Job{Type: "slow"})
		}
		var stopped atomic.Bool
		var started atomic.Int64
		stop := w.another().run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if stopped.Load() {
				t.Error("a job started after the stop")
			}
			started.Add(1)
			<-ctx.Done()
			return queue.Result{Outcome: queue.Retry, Err: ctx.Err().Error()}
		}))
		eventually(t, "three run", func() bool { return started.Load() == 3 })
		before := time.Now()
		stopped.Store(true)
		stop()
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		w.mustBeConsistent()
		for id, head := range w.mustState(0).Texts {
			if queuetest.NumberOf(head[8]) != 0 || queuetest.NumberOf(head[9]) != 0 {
				t.Errorf("job %s was not handed back uncounted: %q", id, head)
			}
		}
		w.another().run(queue.Each(done)) // and it is not lost, and needs no lease to end
		w.mustBeEmpty()
	})
}

func TestQ14_UniqueID(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 4 })
		results := map[string]queue.Result{"done": {}, "dead": {Outcome: queue.Dead, Reason: "r"}}
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { return results[c.Type] }))
		for _, how := range []string{"done", "dead"} {
			delay := 100 * time.Millisecond
			first := w.mustEnqueue(queue.Job{Type: how, Unique: "u" + how, Delay: delay})[0]
			again, err := w.q.Enqueue(t.Context(), queue.Job{Type: how, Unique: "u" + how})
			if err != nil || again[0].ID != first || again[0].New {
				t.Fatalf("%s: %+v, %v, want %s", how, again, err, first)
			}
			w.mustBeEmpty()
			if next, err := w.q.Enqueue(t.Context(), queue.Job{Type: "done", Unique: "u" + how}); err != nil || !next[0].New {
				t.Errorf("after %s: %+v, %v", how, next, err)
			}
		}
	})
}

// TestQ6_ASilentProcessHasThreeLeases: a process that worked and has nothing in hand any
// more is soon given the time of one that is idle.
func TestQ6_ASilentProcessHasThreeLeases(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const lease = 8 * time.Second
		w := setup(t, db, func(o *queue.Options) { o.Lease = lease })
		done := make(chan bool, 1)
		w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { done <- true; return queue.Result{} }))
		eventually(t, "the worker is there", func() bool {
			return db.Client().ZCard(t.Context(), w.prefix(0)+"owners").Val() == 1
		})
		w.mustEnqueue(queue.Job{})
		<-done
		storetest.Eventually(t, lease*3/4, "its lease is that of an idle one", func() bool { // before its next look
			ends, err := db.Client().ZRangeWithScores(t.Context(), w.prefix(0)+"owners", 0, -1).Result()
			return err == nil && len(ends) == 1 && time.Until(time.UnixMilli(int64(ends[0].Score))) > 2*lease
		})
	})
}
