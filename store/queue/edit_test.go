package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// Edit finds a job wherever it waits: in a stream, delayed, parked, in line. It changes those that no
// process has, and says of the others that they are left. Nothing is lost or doubled by it.
func TestEditFindsJobsWhereverTheyAre(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 2 })
		var done seen
		stop := w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				switch {
				case !bytes.HasSuffix(c.Payload, []byte("secret")):
					done.add(string(c.Payload))
					c.Finish(queue.Result{})
				case bytes.HasPrefix(c.Payload, []byte("parked")):
					c.Finish(queue.Result{Outcome: queue.Park, Parked: "app"})
				case bytes.HasPrefix(c.Payload, []byte("dead")):
					c.Finish(queue.Result{Outcome: queue.Dead, Reason: "r"})
				case bytes.HasPrefix(c.Payload, []byte("held")):
				default:
					c.Finish(queue.Result{Outcome: queue.Defer, Delay: time.Hour})
				}
			}
		})
		var want []string
		add := func(kind string, n int, change func(*queue.Job)) {
			for i := range n {
				j := queue.Job{Payload: fmt.Appendf(nil, "%s %d secret", kind, i)}
				if change != nil {
					change(&j)
				}
				w.mustEnqueue(j)
				want = append(want, fmt.Sprintf("%s %d", kind, i))
			}
		}
		add("parked", 3, nil)
		add("dead", 2, func(j *queue.Job) { j.Attachment = []string{"ann secret bob", "secret"} })
		add("later", 3, func(j *queue.Job) { j.Guard = "g" })
		add("held", 1, func(j *queue.Job) { j.Key = "k" })
		eventually(t, "the jobs are where they wait", func() bool {
			s, err := w.q.Stats(t.Context())
			return err == nil && s.Parked == 3 && s.DeadLetters == 2 && s.Scheduled == 3 && s.InFlight == 1
		})
		add("line", 2, func(j *queue.Job) { j.Key = "k" })
		before := time.Now().Add(time.Minute).UnixMilli()
		met := map[string]bool{}
		edit := func(x *queue.Listed) ([]byte, bool, error) {
			text, secret := bytes.CutSuffix(x.Job.Payload, []byte(" secret"))
			if x.Since <= 0 || x.Since > before {
				t.Errorf("%s: enqueued at %d", x.Job.Payload, x.Since)
			}
			met[string(text)] = true
			return text, secret, nil
		}
		changed, left, err := w.q.Edit(t.Context(), edit)
		if err != nil || changed != 6 || !left {
			t.Errorf("%d changed, left %t, %v; want 6 and some left: held and in line", changed, left, err)
		}
		for _, name := range want {
			if !met[name] && name[:4] != "dead" {
				t.Errorf("%s was not found", name)
			}
		}
		w.mustBeConsistent()
		n, err := w.q.DropDead(t.Context(), func(x *queue.Listed) (bool, error) {
			items, err := w.q.Attached(t.Context(), x)
			return slices.Contains(items, "secret") && bytes.HasPrefix(x.Job.Payload, []byte("dead 1")), err
		})
		if err != nil || n != 1 {
			t.Errorf("%d dead letters dropped, %v", n, err)
		}
		stop()
		w = w.another()
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				done.add(string(c.Payload))
				c.Finish(queue.Result{})
			}
		})
		w.mustBeEmpty()
		w.mustBeConsistent()
		got := done.all()
		slices.Sort(got)
		if w := []string{"held 0 secret", "later 0", "later 1", "later 2", "line 0 secret", "line 1 secret", "parked 0", "parked 1", "parked 2"}; !slices.Equal(got, w) {
			t.Errorf("done %q, want %q", got, w)
		}
	})
}

// A job that died twice has two letters: the one that is chosen goes, whichever it is.
func TestDropDeadOfAJobThatDiedTwice(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, chosen := range []string{"older", "newer"} {
			w := setup(t, db, func(o *queue.Options) { o.Retention = 50 * time.Millisecond })
			id := queue.NewID(0, epoch)
			for _, text := range []string{"older", "newer"} {
				eventually(t, "the tombstone is over", func() bool {
					again, err := w.q.Enqueue(t.Context(), queue.Job{ID: id, Payload: []byte(text)})
					return err == nil && again[0].New
				})
				stop := w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
					return queue.Result{Outcome: queue.Dead, Reason: "r"}
				}))
				w.mustBeEmpty()
				stop()
			}
			drop := func(text string) int64 {
				t.Helper()
				n, err := w.q.DropDead(t.Context(), func(x *queue.Listed) (bool, error) { return string(x.Job.Payload) == text, nil })
				storetest.Must(t, err)
				return n
			}
			if first, again := drop(chosen), drop(chosen); first != 1 || again != 0 {
				t.Errorf("%s: %d and %d letters were dropped", chosen, first, again)
			}
			page, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.q)
			storetest.Must(t, err)
			if len(page.Items) != 1 || strings.Contains(string(page.Items[0].Payload), chosen) {
				t.Errorf("%s: %d letters are left: %+v", chosen, len(page.Items), page.Items)
			}
			w.mustBeConsistent()
		}
	})
}

// A word is replaced where it is a word of its own.
func TestRenameInAttachmentsAndMarks(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		id := queue.NewID(0, epoch)
		w.mustEnqueue(queue.Job{ID: id, Payload: []byte("x"), Attachment: []string{"1 11 a1", "2 1", "1", "11"}})
		job := &queue.Listed{Job: queue.Job{ID: id}}
		for range 2 {
			n, err := w.q.RenameAttached(t.Context(), job, "1", "~")
			items, err2 := w.q.Attached(t.Context(), job)
			if err != nil || err2 != nil || !slices.Equal(items, []string{"~ 11 a1", "2 ~", "~", "11"}) {
				t.Errorf("%d renamed: %q, %v, %v", n, items, err, err2)
			}
		}
		key := queue.MarksKey(w.q, 0, id)
		storetest.Must(t, db.Client().HSet(t.Context(), key, "a", "delivered 1", "b", "delivered 11", "c", "1 2").Err())
		n, err := w.q.RenameMarks(t.Context(), key, "1", "~")
		got := db.Client().HGetAll(t.Context(), key).Val()
		if err != nil || n != 1 || got["a"] != "delivered ~" || got["b"] != "delivered 11" || got["c"] != "1 2" {
			t.Errorf("%d renamed: %v, %v", n, got, err)
		}
		storetest.Must(t, db.Client().Del(t.Context(), key).Err())
		if n, err := w.q.RenameMarks(t.Context(), key, "1", "~"); err != nil || n != 0 || db.Client().Exists(t.Context(), key).Val() != 0 {
			t.Errorf("marks that are gone: %d, %v", n, err)
		}
	})
}

func TestMadeBefore(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{epoch, epoch.AddDate(0, 7, 11), epoch.AddDate(3, 1, 1)} { // the parts begin again after a year
		id := queue.NewID(3, at)
		for _, one := range []string{id, queue.DeriveID(id, make([]byte, 32), 900)} {
			if queue.MadeBefore(one, at.Add(-time.Second)) || !queue.MadeBefore(one, at.Add(time.Second)) || !queue.MadeBefore(one, at.AddDate(0, 5, 0)) {
				t.Errorf("%s of %v", one, at)
			}
		}
		if !queue.MadeBefore(id, at) || queue.MadeBefore("x", at) {
			t.Errorf("%s of %v", id, at)
		}
	}
}
