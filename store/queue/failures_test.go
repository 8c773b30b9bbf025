package queue_test

import (
	"context"
	"fmt"
	"testing"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A shard keeps the first 200 failures of a group, and a page goes on where the last one ended.
func TestFailuresOfAGroup(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		group := queue.NewID(0, epoch)
		const n = 300
		jobs := make([]queue.Job, n)
		for i := range jobs {
			jobs[i] = queue.Job{ID: fmt.Sprintf("job-%d", i), Group: group}
		}
		w.mustEnqueue(jobs...)
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			return queue.Result{Label: "failed", Failures: `{"job":"` + c.ID + "\"}\n"}
		}))
		w.mustBeEmpty()
		lists := w.q.FailureLists([]string{"unknown", group})
		seen := map[string]bool{}
		for list, at := 0, 0; list < len(lists); {
			p, err := queue.Failures(t.Context(), lists, list, at, 80)
			storetest.Must(t, err)
			for _, f := range p.Found {
				if seen[f.Line] || f.Letter != nil {
					t.Fatalf("%+v comes twice", f)
				}
				seen[f.Line] = true
			}
			if !p.Full || p.Kept != 200 || len(p.Found) > 80 || list == p.List && at == p.At {
				t.Fatalf("%+v", p)
			}
			list, at = p.List, p.At
		}
		if len(seen) != 200 {
			t.Errorf("%d are kept", len(seen))
		}
	})
}
