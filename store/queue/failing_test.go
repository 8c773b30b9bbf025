package queue_test

import (
	"context"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestQ5_ABrokenShardDelaysNoOther: in one shard every call fails, ten times a second, as
// on a Cluster where one master hangs. What is due in the other starts in time: a look
// there does not wait as after an absence of Redis. A busy machine is forgiven in single
// rounds.
func TestQ5_ABrokenShardDelaysNoOther(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards, o.Lease, o.Logger = 2, time.Minute, nil })
		storetest.Must(t, db.Client().Set(t.Context(), w.prefix(0)+"main", "no stream", 0).Err())
		const delay = 1500 * time.Millisecond
		late := make(chan time.Duration, 1)
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			late <- c.Now.Sub(c.EnqueuedAt) - delay
			return queue.Result{}
		}))
		best := time.Hour
		for round := 0; round < 5 && best > 500*time.Millisecond; round++ {
			w.mustEnqueue(queue.Job{ID: queue.NewID(1, time.Now()), Shard: 1, Delay: delay})
			best = min(best, <-late)
		}
		if t.Logf("%v late", best); best > 500*time.Millisecond {
			t.Errorf("a job started %v late", best)
		}
	})
}
