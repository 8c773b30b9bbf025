package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A reading finds the record of each group in its bucket, and the bucket lives as long
// as the record.
func TestGroupsAreReadWhereScriptsWriteThem(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const n = 1000
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
		jobs := make([]queue.Job, n)
		for i := range jobs {
			id := queue.NewID(0, epoch)
			jobs[i] = queue.Job{ID: id, Group: id}
		}
		w.mustEnqueue(jobs...)
		buckets := w.mustBuckets()
		for bucket, groups := range buckets {
			mustReadAll(t, w, groups)
			if left := db.Client().PTTL(t.Context(), bucket).Val(); left < 23*time.Hour {
				t.Errorf("bucket %s lives %v", bucket, left)
			}
		}
		if len(buckets) == 0 || len(buckets) > n/2 {
			t.Fatalf("%d groups are in %d buckets", n, len(buckets))
		}
	})
}

// A bucket that filled up still has the tombstones that it took: none of the named jobs
// that ended runs again when it is enqueued again.
func TestTombstonesAreFoundInFullBuckets(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const n = 1000 // a bucket takes 128
		w := setup(t, db)
		jobs := make([]queue.Job, n)
		event := queue.NewID(0, epoch)
		for i := range jobs {
			jobs[i] = queue.Job{ID: fmt.Sprintf("job-%d", i), Group: event}
		}
		w.mustEnqueue(jobs...)
		var runs atomic.Int64
		w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			runs.Add(1)
			return queue.Result{}
		}))
		w.mustBeEmpty()
		w.mustEnqueue(jobs...)
		w.mustEnqueue(queue.Job{ID: "the-last", Group: event})
		eventually(t, "the last to run", func() bool { return runs.Load() > n })
		w.mustBeEmpty()
		if got := runs.Load(); got != n+1 {
			t.Errorf("%d runs of %d jobs", got, n+1)
		}
	})
}

// mustBuckets lists the groups in each bucket of shard 0.
func (w *world) mustBuckets() map[string][]string {
	w.t.Helper()
	buckets := map[string][]string{}
	for _, key := range w.mustKeys() {
		name, ok := strings.CutPrefix(key, w.prefix(0)+"group:")
		if !ok {
			continue
		}
		records, err := w.db.Client().HGetAll(context.WithoutCancel(w.t.Context()), key).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		for rest := range records {
			buckets[key] = append(buckets[key], name+rest)
		}
	}
	return buckets
}

// mustReadAll reads groups that each had one job created.
func mustReadAll(t *testing.T, w *world, groups []string) {
	t.Helper()
	missing := 0
	for _, g := range groups {
		if counts, err := w.q.Groups(t.Context(), g); err != nil || counts["created"] != 1 {
			missing++
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d groups of a bucket are not found", missing, len(groups))
	}
}
