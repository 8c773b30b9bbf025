package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestQ11_RefusedMarksEndTheLease: a key is broken by hand, so that Redis never takes the
// marks of one job. The process gives up its lease on the shard: its jobs start again
// after one lease, and all of them end.
func TestQ11_RefusedMarksEndTheLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = 2 * time.Second })
		bad, good := queue.NewID(0, time.Now()), queue.NewID(0, time.Now())
		storetest.Must(t, db.Client().Set(t.Context(), w.prefix(0)+"marks:"+bad, "no hash", 0).Err())
		var marked, ended sync.Map
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			if _, again := marked.LoadOrStore(c.ID, true); !again {
				c.Mark("part", "ended", "S")
				<-ctx.Done()
			}
			ended.Store(c.ID, c.Alive())
			return queue.Result{Report: "D"}
		}))
		w.mustEnqueue(queue.Job{ID: bad, Fresh: true, Report: "Q"}, queue.Job{ID: good, Fresh: true, Report: "Q"})
		w.mustBeEmpty()
		for _, id := range []string{bad, good} {
			eventually(t, "the report of the end", func() bool {
				report, err := queuetest.Report(t.Context(), w.q, id)
				return err == nil && report == "D"
			})
			if alive, _ := ended.Load(id); alive != true {
				t.Errorf("job %s ended without a lease", id)
			}
		}
	})
}
