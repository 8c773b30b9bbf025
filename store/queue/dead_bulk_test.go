package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// now is the time by Redis' clock, after every letter that there is.
func (w *world) now() time.Time {
	w.t.Helper()
	at, err := w.db.Client().Time(w.t.Context()).Result()
	storetest.Must(w.t, err)
	at = at.Add(time.Millisecond)
	eventually(w.t, "the clock passes the letters", func() bool {
		now, err := w.db.Client().Time(w.t.Context()).Result()
		return err == nil && now.After(at)
	})
	return at
}

func (w *world) mustCount(f queue.DeadFilter, before time.Time) int64 {
	w.t.Helper()
	n, err := w.q.CountDead(w.t.Context(), f, before)
	storetest.Must(w.t, err)
	return n
}

type deadPage func(context.Context, queue.DeadWalk) (queue.DeadActed, error)

// mustWalk goes through all letters of all shards.
func (w *world) mustWalk(page deadPage, f queue.DeadFilter, before time.Time) (gone, kept int64) {
	w.t.Helper()
	for n := range w.o.Shards {
		walk := queue.DeadWalk{Shard: n, Filter: f, Before: before}
		for pages := 0; pages == 0 || walk.After != ""; pages++ {
			acted, err := page(w.t.Context(), walk)
			storetest.Must(w.t, err)
			walk.After = acted.After
			gone, kept = gone+acted.Gone, kept+acted.Kept
		}
	}
	return gone, kept
}

// N15: what is counted, retried and deleted is what a filter chooses and died before a time.
func TestN15_ByFilterAndTime(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 3; o.Lease = time.Hour })
		var all []dying
		for n := range 300 {
			all = append(all, dying{[]string{"A", "B"}[n%2], []string{"likes", "news", ""}[n%3], []string{"shop/sandbox", "shop/fcm", "shopping/fcm", "", "a.b/webpush:x"}[n%5]})
		}
		w.mustBury(all...)
		before := w.now()
		for range 7 {
			w.mustBury(dying{"A", "likes", "shop/fcm"})
		}
		chosen := func(f queue.DeadFilter) (n int64) {
			for _, d := range all {
				app := d.App
				if d.Type == "" { // it has no class
					app = ""
				}
				topic, _, _ := strings.Cut(app, "/")
				if (f.Reason == "" || f.Reason == d.Reason) && (f.Type == "" || f.Type == d.Type) && (f.App == "" || f.App == app || f.App == topic) {
					n++
				}
			}
			return n
		}
		filters := []queue.DeadFilter{{}, {Reason: "A"}, {Type: "news"}, {App: "shop"}, {App: "shop/fcm"}, {App: "a.b", Reason: "B"}, {Reason: "A", Type: "likes", App: "shop"}, {Reason: "other"}}
		for _, f := range filters {
			if got, want := w.mustCount(f, before), chosen(f); got != want {
				t.Errorf("%+v: %d, want %d", f, got, want)
			}
		}
		if n := w.mustCount(queue.DeadFilter{}, time.UnixMilli(0)); n != 0 {
			t.Errorf("%d died before 1970", n)
		}
		f := queue.DeadFilter{Reason: "A", Type: "likes", App: "shop"}
		want := chosen(f)
		for name, page := range map[string]deadPage{"retry": w.q.RetryDeadPage, "delete": w.q.DeleteDeadPage} {
			if gone, kept := w.mustWalk(page, f, before); gone != want || kept != 0 {
				t.Errorf("%s: %d gone and %d kept, want %d", name, gone, kept, want)
			}
			if n := w.mustCount(f, before); n != 0 {
				t.Errorf("%s: %d are left", name, n)
			}
			f = queue.DeadFilter{Reason: "B"}
			want = chosen(f)
		}
		w.mustBeConsistent()
		if n := w.mustCount(queue.DeadFilter{Type: "likes", App: "shop/fcm", Reason: "A"}, w.now()); n != 7 {
			t.Errorf("%d of those that died later are there", n)
		}
		if gone, _ := w.mustWalk(w.q.DeleteDeadPage, queue.DeadFilter{}, w.now()); gone == 0 {
			t.Error("nothing was left to delete")
		}
		w.wantGroups()
	})
}

// N15: letters are counted rightly beyond one page, and with many that died later.
func TestN15_ManyAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Shards = 1 })
	w.mustBury(append(slices.Repeat([]dying{{"r", "news", ""}}, 2150), slices.Repeat([]dying{{"late", "likes", ""}}, 30)...)...)
	before := w.now()
	w.mustBury(slices.Repeat([]dying{{"late", "likes", ""}}, 1250)...)
	for f, want := range map[queue.DeadFilter]int64{{}: 2180, {Reason: "r"}: 2150, {Reason: "late"}: 30, {Type: "likes", Reason: "r"}: 0} {
		if n := w.mustCount(f, before); n != want {
			t.Errorf("%+v: %d, want %d", f, n, want)
		}
	}
}

// N15: a job that was retried and died again is another letter. A process that found the page before, and
// was held up, does not touch it.
func TestN15_ALetterThatDiesAgain(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]string{"Retry": "dead_retry", "Delete": "dead_delete"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
				w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
				died := w.mustBury(slices.Repeat([]dying{{"Again", "likes", "shop/fcm"}}, 50)...)
				walk := queue.DeadWalk{Before: w.now()}
				again := func() {
					acted, err := w.q.RetryDeadPage(t.Context(), walk)
					if err != nil || acted.Gone != 50 || acted.Kept != 0 || acted.After != "" {
						t.Errorf("%+v, %v", acted, err)
					}
					stop := w.another().run(queue.Each(bury))
					w.mustBeEmpty()
					stop()
				}
				var once sync.Once
				late := queue.New(storetest.Faulty(t, db, func(name string, answered bool) error {
					if name == step && !answered {
						once.Do(again)
					}
					return nil
				}), w.o)
				page := map[string]deadPage{"dead_retry": late.RetryDeadPage, "dead_delete": late.DeleteDeadPage}[step]
				if acted, err := page(t.Context(), walk); err != nil || acted.Kept != 0 {
					t.Errorf("%+v, %v", acted, err)
				}
				w.wantGroups("Again/likes/shop/fcm=50")
				for _, id := range died {
					if entry := db.Client().HGet(t.Context(), w.prefix(0)+"deadids", id).Val(); entry == "" {
						t.Errorf("%s has no letter", id)
					}
				}
				w.mustBeConsistent()
			})
		})
	}
}

// N15: what a lost answer or a crash repeats has no effect.
func TestN15_ARepeatedPage(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		w.mustBury(slices.Repeat([]dying{{"r", "likes", ""}}, 450)...)
		walk, gone := queue.DeadWalk{Before: w.now()}, 0
		for {
			broken := queue.New(storetest.Faulty(t, db, func(name string, answered bool) error {
				if name == "dead_retry" && answered {
					return storetest.ErrLost
				}
				return nil
			}), w.o)
			if acted, err := broken.RetryDeadPage(t.Context(), walk); err == nil {
				t.Fatalf("no answer was lost: %+v", acted)
			}
			acted, err := w.q.RetryDeadPage(t.Context(), walk)
			storetest.Must(t, err)
			if acted.Kept != 0 {
				t.Errorf("%d are kept", acted.Kept)
			}
			gone += int(acted.Gone)
			if walk.After = acted.After; walk.After == "" {
				break
			}
		}
		if s, err := w.q.Stats(t.Context()); err != nil || s.Depth != 450 || s.DeadLetters != 0 {
			t.Errorf("%d are queued and %d dead, %v", s.Depth, s.DeadLetters, err)
		}
		w.wantGroups()
		w.mustBeConsistent()
	})
}

// N15: letters whose job, or another one with its unique id, has been queued since are kept by a retry,
// and deleted otherwise.
func TestN15_LettersThatAreKept(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Retention = 50 * time.Millisecond; o.Lease = time.Hour })
		once := func(job queue.Job) {
			w.mustEnqueue(job)
			stop := w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
				return queue.Result{Outcome: queue.Dead, Reason: "r"}
			}))
			w.mustBeEmpty()
			stop()
		}
		named := queue.Job{ID: queue.NewID(0, epoch)}
		once(queue.Job{Unique: "taken"})
		once(queue.Job{Unique: "free"})
		once(named)
		enqueueAgain := func() {
			eventually(t, "the tombstone is over", func() bool {
				again, err := w.q.Enqueue(t.Context(), named)
				return err == nil && again[0].New
			})
		}
		enqueueAgain()
		stop := w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r"}
		}))
		w.mustBeEmpty()
		stop() // now the job has two letters
		w.mustEnqueue(queue.Job{Unique: "taken"})
		walk := queue.DeadWalk{Before: w.now()}
		for n, want := range []queue.DeadActed{{Gone: 2, Kept: 2}, {Kept: 2}} { // the last letter of the job goes
			if acted, err := w.q.RetryDeadPage(t.Context(), walk); err != nil || acted != want {
				t.Errorf("%d: %+v, %v, want %+v", n, acted, err, want)
			}
		}
		if acted, err := w.q.DeleteDeadPage(t.Context(), walk); err != nil || acted != (queue.DeadActed{Gone: 2}) {
			t.Errorf("%+v, %v", acted, err)
		}
		w.wantGroups()
		w.mustBeConsistent()
		if s, err := w.q.Stats(t.Context()); err != nil || s.Depth != 3 {
			t.Errorf("%d are queued, %v", s.Depth, err)
		}
	})
}

// A list of letters that names one which is gone does no harm.
func TestADeadLetterThatIsMissing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		for n, act := range []func(id string) error{
			func(id string) error { return w.q.DeleteDead(t.Context(), id) },
			func(id string) error { _, _, err := w.q.RetryDead(t.Context(), id, queue.Once{}); return err },
		} {
			id := fmt.Sprint("lost", n)
			storetest.Must(t, db.Client().HSet(t.Context(), w.prefix(0)+"deadids", id, "5-0").Err())
			storetest.WantCode(t, act(w.q.DeadID(0, id)), api.CodeNotFound)
			if db.Client().HExists(t.Context(), w.prefix(0)+"deadids", id).Val() {
				t.Error("it is still listed")
			}
		}
	})
}
