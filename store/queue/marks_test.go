package queue_test

import (
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestMarks: what a process marked of a job is known to whoever takes the job over,
// goes when the job is done, and is not written by a process that lost it.
func TestMarks(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		id := queue.NewID(0, time.Now())
		first := w.another()
		held := make(chan *queue.Claimed, 1)
		kill := first.runUntilKilled(func(_ context.Context, batch []*queue.Claimed) {
			for n := range 3 {
				batch[0].Mark(fmt.Sprint("part", n), "ended", "Sreport"+fmt.Sprint(n))
			}
			held <- batch[0]
		})
		w.mustEnqueue(queue.Job{ID: id, Fresh: true, Report: "Qreport", Payload: []byte("x")})
		lost := <-held
		want := map[string]string{"part0": "ended", "part1": "ended", "part2": "ended"}
		eventually(t, "the marks and the report to be on record", func() bool {
			marks, err := w.q.Marks(t.Context(), lost)
			report, _ := queuetest.Report(t.Context(), w.q, id)
			return err == nil && maps.Equal(marks[0], want) && report == "Sreport2"
		})
		if ttl, err := db.Client().PTTL(t.Context(), queue.MarksKey(w.q, 0, id)).Result(); err != nil || ttl <= 0 {
			t.Errorf("the marks expire after %v, %v", ttl, err) // nobody removes those of a job that Redis lost
		}
		kill()
		var done atomic.Bool
		stop := w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if marks, err := w.q.Marks(ctx, c); err != nil || !maps.Equal(marks[0], want) || c.First {
				t.Errorf("took over with %v, %v; first: %v", marks, err, c.First)
			}
			lost.Mark("part3", "late", "Slate") // it is no longer the dead one's
			done.Store(true)
			return queue.Result{Report: "Dreport"}
		}))
		eventually(t, "the job to be taken over", done.Load)
		eventually(t, "the report of the end", func() bool {
			report, err := queuetest.Report(t.Context(), w.q, id)
			return err == nil && report == "Dreport"
		})
		stop()
		if marks, err := w.q.Marks(t.Context(), lost); err != nil || len(marks[0]) > 0 {
			t.Errorf("marks of a job that is done: %v, %v", marks, err)
		}
	})
}

// TestMarksOfAReleasedJob: marks are written before the result that hands a job back.
func TestMarksOfAReleasedJob(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		var claims atomic.Int64
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if claims.Add(1) == 1 {
				c.Mark("part", "ended", "")
				return queue.Result{Outcome: queue.Release}
			}
			marks, err := w.q.Marks(ctx, c)
			if err != nil || marks[0]["part"] != "ended" {
				t.Errorf("claimed again with %v, %v", marks, err)
			}
			return queue.Result{}
		}))
		w.mustEnqueue(queue.Job{Payload: []byte("x")})
		eventually(t, "both claims", func() bool { return claims.Load() == 2 })
		w.mustBeEmpty()
	})
}

// TestUntouchedJobsStayNew: a job that was deferred before anything of it was begun is
// the next one's as if nobody had had it; otherwise it is not.
func TestUntouchedJobsStayNew(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		type claim struct {
			first bool
			fence int64
		}
		claims := make(chan claim, 3)
		var n atomic.Int64
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			claims <- claim{c.First, c.Fence}
			switch n.Add(1) {
			case 1:
				return queue.Result{Outcome: queue.Defer, Delay: time.Millisecond, Untouched: true}
			case 2:
				return queue.Result{Outcome: queue.Defer, Delay: time.Millisecond}
			}
			return queue.Result{}
		}))
		w.mustEnqueue(queue.Job{Payload: []byte("x")})
		one, two, three := <-claims, <-claims, <-claims
		if !one.first || !two.first || three.first || three.fence <= two.fence {
			t.Errorf("claims %v, %v, %v", one, two, three)
		}
		w.mustBeEmpty()
	})
}

// TestAfterTheLastClaimThatBegan: a job knows the last claim that began something of it, past claims that were given
// back untouched, and no claim before that one.
func TestAfterTheLastClaimThatBegan(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		var fences [4]int64
		var n atomic.Int64
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			at := n.Add(1) - 1
			fences[at] = c.Fence
			want := [4]int64{0, fences[0], fences[0], fences[2]}[at] // the second claim gives the job back untouched
			for _, earlier := range fences[:at] {
				if c.After(earlier) != (earlier == want) {
					t.Errorf("claim %d with the fences %v: After(%d) is %v", at, fences, earlier, c.After(earlier))
				}
			}
			if c.After(0) {
				t.Errorf("claim %d comes after none", at)
			}
			if at == 3 {
				return queue.Result{}
			}
			return queue.Result{Outcome: queue.Defer, Delay: time.Millisecond, Untouched: at == 1}
		}))
		w.mustEnqueue(queue.Job{Payload: []byte("x")})
		w.mustBeEmpty()
	})
}

// TestJobsThatNobodySawStayNew: a process that is stopped hands back what it claimed and
// gave to no handler, as if it had not had it.
func TestJobsThatNobodySawStayNew(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 30 * time.Second })
		busy := make(chan struct{})
		stop := w.another().run(func(ctx context.Context, batch []*queue.Claimed) {
			close(busy)
			<-ctx.Done() // Run is stopped by now
			for _, c := range batch {
				c.Finish(queue.Result{})
			}
		})
		w.mustEnqueue(queue.Job{Payload: []byte("seen")})
		<-busy
		w.mustEnqueue(queue.Job{Payload: []byte("unseen")})
		eventually(t, "both jobs to be claimed", func() bool {
			stats, err := w.q.Stats(t.Context())
			return err == nil && stats.InFlight == 2
		})
		stop()
		claims := make(chan *queue.Claimed, 1)
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			claims <- c
			return queue.Result{}
		}))
		if c := <-claims; string(c.Payload) != "unseen" || !c.First {
			t.Errorf("claimed %q, first %v", c.Payload, c.First)
		}
		w.mustBeEmpty()
	})
}
