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

// TestQ11_ThousandsOfSuspectsTakeMinutes: jobs that lost two leases run in groups, also while requests hang
// that a process began before, and with one among them that hangs.
func TestQ11_ThousandsOfSuspectsTakeMinutes(t *testing.T) {
	t.Parallel()
	for name, hanging := range map[string]int{"AllAnswer": 0, "SomeHang": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
				const n, lease = 96, 3 * time.Second
				w := setup(t, db, func(o *queue.Options) { o.Lease = lease })
				w.mustMakeSuspects("suspect", n, 2)
				ended := make(chan bool)
				defer close(ended)
				var groups, answered, hang, others atomic.Int64
				hang.Store(int64(hanging))
				answer := func(c *queue.Claimed) {
					if c.Type == "hangs" || c.Type == "suspect" && hang.Add(-1) >= 0 {
						<-ended
					}
					if c.Finish(queue.Result{}); c.Type == "suspect" {
						answered.Add(1)
					} else {
						others.Add(1)
					}
				}
				w.run(func(_ context.Context, batch []*queue.Claimed) {
					if batch[0].Type == "suspect" {
						groups.Add(1)
					}
					for _, c := range batch {
						go answer(c)
					}
				})
				for range hanging {
					w.mustEnqueue(queue.Job{Type: "hangs"})
				}
				began := time.Now()
				eventually(t, "all have run", func() bool { return answered.Load() == n-int64(hanging) })
				if took := time.Since(began); groups.Load() > n/32+1 || took > 5*lease {
					t.Errorf("%d jobs ran in %d groups and took %v", n, groups.Load(), took)
				}
				w.mustEnqueue(queue.Job{})
				eventually(t, "others go on", func() bool { return others.Load() == 1 })
			})
		})
	}
}
