package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestQ18_DeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		queue.SetDeadBounds(w.q, 5, time.Hour)
		var ids []string
		for i := range 12 {
			ids = append(ids, w.mustEnqueue(queue.Job{Payload: []byte(fmt.Sprint(i)), Attachment: []string{"a"}})...)
		}
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch { // in their order
				c.Finish(queue.Result{Outcome: queue.Dead, Reason: "r"})
			}
		})
		w.mustBeEmpty()
		eventually(t, "the oldest are dropped", func() bool {
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 100, w.q)
			return err == nil && len(list.Items) == 5
		})
		w.mustBeConsistent()
		if s, err := w.q.Stats(t.Context()); err != nil || s.Dropped != 7 {
			t.Errorf("%d dropped were counted, %v", s.Dropped, err)
		}
		if err := w.q.DeleteDead(t.Context(), w.q.DeadID(0, ids[0])); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("a dropped one is still there: %v", err)
		}
	})
}

// Q18: a page of dead letters has a bound of bytes as well. The pages together have each letter once, newest first.
func TestQ18_PagesOfLargeDeadLetters(t *testing.T) {
	t.Parallel()
	storetest.EachServer(t, func(t *testing.T, db *redisdb.DB) {
		const letters, size = 160, 60_000 // 9.6 MB
		w := setup(t, db, func(o *queue.Options) { o.Shards = 2 })
		for i := range letters {
			w.mustEnqueue(queue.Job{ID: queue.NewID(i%2, epoch), Shard: i % 2, Payload: fmt.Appendf(nil, `"%0*d"`, size, i)})
		}
		w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r"}
		}))
		w.mustBeEmpty()
		seen, cursor, before := map[string]bool{}, "", time.Time{}
		for page := 1; ; page++ {
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, cursor, api.MaxPageSize, w.q)
			storetest.Must(t, err)
			bytes := 0
			for _, d := range list.Items {
				bytes += len(d.Payload)
				if seen[d.ID] || !before.IsZero() && d.FailedAt.After(before) {
					t.Errorf("%s comes twice, or out of turn", d.ID)
				}
				seen[d.ID], before = true, d.FailedAt.Time
			}
			if bytes > 4<<20+2*size || len(list.Items) == 0 || page > letters {
				t.Fatalf("page %d has %d letters of %d bytes", page, len(list.Items), bytes)
			}
			if cursor = list.Next; cursor == "" {
				break
			}
		}
		if len(seen) != letters {
			t.Errorf("%d letters of %d are listed", len(seen), letters)
		}
	})
}

func TestQ19_RetryingADeadLetter(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.MaxAttempts = 2; o.Shards = 2 })
		group := queue.NewID(1, epoch)
		id := queue.NewID(1, epoch)
		w.mustEnqueue(queue.Job{ID: id, Shard: 1, Key: "k", Unique: "u", Group: group, Guard: "g", Payload: []byte("start"), Attachment: []string{"audience"}})
		var healthy atomic.Bool
		var mu sync.Mutex
		var claims []*queue.Claimed
		w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
			mu.Lock()
			claims = append(claims, c)
			mu.Unlock()
			switch {
			case string(c.Payload) == "start":
				return queue.Result{Outcome: queue.Continue, Payload: []byte("cursor")}
			case !healthy.Load():
				return queue.Result{Outcome: queue.Retry, Err: "broken"}
			}
			if a, err := w.q.Attachment(ctx, c, 0); a != "audience" || err != nil {
				t.Errorf("attachment %s, %v", a, err)
			}
			return queue.Result{}
		}))
		w.mustBeEmpty()
		w.mustBeConsistent()
		dead := w.q.DeadID(1, id)
		healthy.Store(true)
		once := queue.Once{Key: "k", Answer: "queued"}
		for n := range 2 {
			if replayed, stored, err := w.q.RetryDead(t.Context(), dead, once); err != nil || stored != "queued" || replayed != (n == 1) {
				t.Fatalf("%v %s %v", replayed, stored, err)
			}
		}
		w.mustBeEmpty()
		mu.Lock()
		defer mu.Unlock()
		last := claims[len(claims)-1]
		if claims[0].Guard != "g" || last.Guard != "" { // what was stored under it may have ended
			t.Errorf("guards %q, %q", claims[0].Guard, last.Guard)
		}
		if string(last.Payload) != "cursor" || last.Attempt != 1 || last.Fence <= claims[len(claims)-2].Fence {
			t.Errorf("payload %s, attempt %d, fence %d", last.Payload, last.Attempt, last.Fence)
		}
		counts, err := w.q.Groups(t.Context(), group)
		if err != nil || counts["created"] != 1 || counts["failed"] != 0 || counts["done"] != 1 {
			t.Errorf("%v, %v", counts, err)
		}
		if _, _, err := w.q.RetryDead(t.Context(), dead, queue.Once{}); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("retry of what is done: %v", err)
		}
		if _, _, err := w.q.RetryDead(t.Context(), "other.1.x", queue.Once{}); api.CodeOf(err) != api.CodeNotFound {
			t.Errorf("of another queue: %v", err)
		}
	})
}

// A dead letter that is queued again has its unique id again, unless another job took it.
func TestQ14_ARetriedDeadLetterHasItsUniqueID(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		var dead []string
		for _, unique := range []string{"kept", "taken"} {
			dead = append(dead, w.mustEnqueue(queue.Job{Unique: unique})[0])
		}
		stop := w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r"}
		}))
		w.mustBeEmpty()
		stop()
		retry := func(id string) error {
			shard, _ := queue.ParseID(id)
			_, _, err := w.q.RetryDead(t.Context(), w.q.DeadID(shard, id), queue.Once{})
			return err
		}
		storetest.Must(t, retry(dead[0]))
		again, err := w.q.Enqueue(t.Context(), queue.Job{Unique: "kept"})
		if err != nil || again[0].New || again[0].ID != dead[0] {
			t.Errorf("beside the one that is queued again: %+v, %v", again, err)
		}
		w.mustEnqueue(queue.Job{Unique: "taken"})
		if err := retry(dead[1]); api.CodeOf(err) != api.CodeConflict {
			t.Errorf("a unique id that is taken: %v", err)
		}
	})
}

func TestDeadLettersArePaged(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 3 })
		for i := range 20 {
			w.mustEnqueue(queue.Job{ID: queue.NewID(i%3, epoch), Shard: i % 3, Payload: []byte(fmt.Sprintf(`{"n":%d,"s":"x`, i))})
		}
		w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r", Err: "e"}
		}))
		w.mustBeEmpty()
		seenIDs, cursor, last := map[string]bool{}, "", time.Now().Add(time.Hour)
		for range 10 {
			list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, cursor, 7, w.q)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range list.Items {
				if seenIDs[d.ID] || d.FailedAt.After(last) || !json.Valid(d.Payload) {
					t.Errorf("%+v after %v", d, last)
				}
				seenIDs[d.ID], last = true, d.FailedAt.Time
			}
			if cursor = list.Next; cursor == "" {
				break
			}
		}
		if len(seenIDs) != 20 {
			t.Errorf("%d listed", len(seenIDs))
		}
		if _, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "nonsense", 7, w.q); api.CodeOf(err) != api.CodeValidation {
			t.Errorf("bad cursor: %v", err)
		}
		for id := range seenIDs {
			if err := w.q.DeleteDead(t.Context(), id); err != nil {
				t.Error(err)
			}
		}
		if list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 7, w.q); err != nil || len(list.Items) != 0 {
			t.Errorf("%+v %v", list, err)
		}
	})
}

// A dead letter whose id was enqueued again, after its tombstone was over, is not queued
// beside that job.
func TestQ19_ADeadLetterWhoseIDLivesAgain(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Retention = 50 * time.Millisecond; o.Lease = time.Hour })
		var runs atomic.Int64
		always := func(r queue.Result) queue.Handler {
			return queue.Each(func(context.Context, *queue.Claimed) queue.Result { runs.Add(1); return r })
		}
		job := queue.Job{ID: queue.NewID(0, epoch), Payload: []byte("same")}
		w.mustEnqueue(job)
		stop := w.run(always(queue.Result{Outcome: queue.Dead}))
		w.mustBeEmpty()
		stop()
		eventually(t, "the tombstone is over", func() bool {
			again, err := w.q.Enqueue(t.Context(), job)
			return err == nil && again[0].New
		})
		if _, _, err := w.q.RetryDead(t.Context(), w.q.DeadID(0, job.ID), queue.Once{}); err != nil {
			t.Fatal(err)
		}
		w.another().run(always(queue.Result{}))
		w.mustBeEmpty()
		if n := runs.Load(); n != 2 {
			t.Errorf("%d runs, want that of the dead letter and one more", n)
		}
	})
}

// N14: the letters of several queues are listed as one list, each once and newest first, also those that
// died in the same moment.
func TestN14_DeadLettersOfSeveralQueues(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		var queues []*queue.Queue
		for _, name := range []string{"x", "y", "z"} {
			w := setup(t, db, func(o *queue.Options) { o.Shards = 2; o.Name += name })
			queues = append(queues, w.q)
			for n := range 30 {
				if n < 8 && name != "z" {
					continue // the oldest are all of one queue
				}
				values := []any{"i", fmt.Sprint(name, n), "t", "", "k", "", "u", "", "g", "", "w", "", "s", "1", "a", "",
					"p", "{}", "reason", []string{"A", "B"}[n%2]}
				args := &redis.XAddArgs{Stream: w.prefix(n/4%2) + "dead", ID: fmt.Sprintf("%d-%d", 5+n/8, n/4+n), Values: values}
				storetest.Must(t, db.Client().XAdd(t.Context(), args).Err())
			}
		}
		for _, f := range []queue.DeadFilter{{}, {Reason: "A"}} {
			for limit := 1; limit < 8; limit++ {
				seen, last, cursor := map[string]bool{}, time.Now(), ""
				for pages := 0; pages < 200; pages++ {
					list, err := queue.DeadLetters(t.Context(), f, cursor, limit, queues...)
					storetest.Must(t, err)
					for _, d := range list.Items {
						if seen[d.ID] || d.FailedAt.After(last) {
							t.Errorf("%+v, pages of %d: %s is shown twice, or too late", f, limit, d.ID)
						}
						seen[d.ID], last = true, d.FailedAt.Time
					}
					if cursor = list.Next; cursor == "" {
						break
					}
				}
				want := 74
				if f.Reason != "" {
					want = 37
				}
				if len(seen) != want {
					t.Errorf("%+v, pages of %d: %d letters, want %d", f, limit, len(seen), want)
				}
			}
		}
	})
}
