package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestRefusedMarksHoldUpNobody: a key is broken by hand, so that Redis never takes the
// marks of one job. They are given up: that job ends as it says, and so do those whose
// marks or results wait with them.
func TestRefusedMarksHoldUpNobody(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 10 * time.Minute })
		bad, good := queue.NewID(0, time.Now()), queue.NewID(0, time.Now())
		prefix := w.prefix(0)
		storetest.Must(t, db.Client().Set(t.Context(), prefix+"marks:"+bad, "no hash", 0).Err())
		var refused atomic.Int64
		w.q.SetFault(t, func(step string, answered bool) error {
			if step == "finish" && answered {
				refused.Add(1)
			}
			return nil
		})
		both := make(chan *queue.Claimed, 2)
		var others atomic.Int64
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				if c.ID == bad || c.ID == good {
					both <- c
					continue
				}
				others.Add(1)
				c.Finish(queue.Result{})
			}
		})
		w.mustEnqueue(queue.Job{ID: bad, Fresh: true, Report: "Qbad"}, queue.Job{ID: good, Fresh: true, Report: "Qgood"})
		jobs := map[string]*queue.Claimed{}
		for range 2 {
			c := <-both
			jobs[c.ID] = c
		}
		jobs[bad].Mark("part", "ended", "Sbad")
		jobs[good].Mark("part", "ended", "Sgood")
		eventually(t, "the marks to be refused", func() bool { return refused.Load() >= 2 })
		group := queue.NewID(0, time.Now())
		w.mustEnqueue(queue.Job{Group: group}, queue.Job{Group: group}, queue.Job{Group: group})
		eventually(t, "the other job's marks to be on record", func() bool {
			marks, err := w.q.Marks(t.Context(), jobs[good])
			return err == nil && marks[0]["part"] == "ended"
		})
		eventually(t, "the other jobs to end", func() bool {
			counts, err := w.q.Groups(t.Context(), group)
			return err == nil && counts["done"] == 3
		})
		if n := others.Load(); n != 3 {
			t.Errorf("3 jobs ran %d times", n)
		}
		for _, c := range jobs {
			c.Finish(queue.Result{Report: "Ddone"})
		}
		w.mustBeEmpty()
		for id := range jobs {
			eventually(t, "the report of the end", func() bool {
				report, err := w.q.Report(t.Context(), 0, id)
				return err == nil && report == "Ddone"
			})
		}
	})
}
