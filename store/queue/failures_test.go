package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

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

// roundTrips counts the pipelines that read lists, and the commands of the largest of them.
type roundTrips struct{ pipelines, most atomic.Int64 }

func (r *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "lrange" {
			r.pipelines.Add(1)
			r.most.Store(max(r.most.Load(), int64(len(cmds))))
		}
		return next(ctx, cmds)
	}
}

// Failures are dropped from many lists with few round trips, of which each reads a bounded number of lists. Other keys stay as
// they are.
func TestFailuresAreDropped(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		const n = 500
		keys := []string{w.q.KeyBeside(0, "marks:failed:x"), w.q.KeyBeside(0, "other"), "other:failed:x"}
		for _, key := range keys {
			storetest.Must(t, db.Client().Set(t.Context(), key, "a", 0).Err())
		}
		for i := range n {
			key := w.q.KeyBeside(i%len(w.q.FailureLists([]string{"x"})), fmt.Sprint("failed:g", i))
			storetest.Must(t, db.Client().RPush(t.Context(), key, "stays", fmt.Sprint("goes ", i), "Lgoes", "goes too").Err())
			keys = append(keys, key)
		}
		var trips roundTrips
		db.Client().AddHook(&trips)
		dropped, err := w.q.DropFailures(t.Context(), keys, func(group, line string) bool {
			return line == "goes "+strings.TrimPrefix(group, "g") && group != "g7" || line == "goes too" && group == "g8"
		})
		if storetest.Must(t, err); dropped != n {
			t.Errorf("%d lines were dropped, want %d", dropped, n)
		}
		for i, key := range keys[3:] {
			want := []string{"stays", "Lgoes", "goes too"}
			switch i {
			case 7:
				want = []string{"stays", "goes 7", "Lgoes", "goes too"}
			case 8:
				want = []string{"stays", "Lgoes"}
			}
			if got := db.Client().LRange(context.WithoutCancel(t.Context()), key, 0, -1).Val(); !slices.Equal(got, want) {
				t.Fatalf("%s has %q, want %q", key, got, want)
			}
		}
		if !db.Cluster() && (trips.pipelines.Load() != 8 || trips.most.Load() != 64) {
			t.Errorf("%d pipelines with at most %d commands", trips.pipelines.Load(), trips.most.Load())
		}
	})
}
