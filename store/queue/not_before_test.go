package queue_test

import (
	"context"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A job with a time of its own starts no earlier by Redis' clock, and from then on its age counts. Until then
// it is scheduled, and is neither deep nor old, also after it was rewritten. A time that is over is none.
func TestNotBefore(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Shards = 1 })
		now := mustRedisTime(t, w)
		at := now.Add(2 * time.Second).Truncate(time.Millisecond)
		add := func(payload string, at time.Time) {
			w.mustEnqueue(queue.Job{ID: queue.NewID(0, now), Fresh: true, NotBefore: at, Report: "Qx", Payload: []byte(payload)})
		}
		scheduled := func(want int64) {
			t.Helper()
			if s, err := w.q.Stats(t.Context()); err != nil || s.Scheduled != want || s.Depth > 2 || s.OldestAgeMS > time.Hour.Milliseconds()/2 {
				t.Errorf("%+v, %v", s, err) // in depth: what wakes a process, twice at most
			}
		}
		add("far", now.Add(time.Hour))
		add("soon", at)
		scheduled(2)
		changed, left, err := w.q.Edit(t.Context(), func(l *queue.Listed) ([]byte, bool, error) {
			return append(l.Job.Payload, " changed"...), len(l.Job.Payload) == len("soon") || len(l.Job.Payload) == len("far"), nil
		})
		if changed != 2 || left || err != nil {
			t.Errorf("%d changed, left %t, %v", changed, left, err)
		}
		scheduled(2)
		add("over", now.Add(-time.Hour))
		var done seen
		w.run(func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				switch text := string(c.Payload); {
				case !c.First:
					t.Errorf("%s is not the first", text)
				case text == "over" && c.EnqueuedAt.Before(now.Add(-time.Minute)):
					t.Errorf("its age counts from %v", c.EnqueuedAt)
				case text == "soon changed" && (c.Now.Before(at) || !c.EnqueuedAt.Equal(at)):
					t.Errorf("claimed at %v with an age from %v, due at %v", c.Now, c.EnqueuedAt, at)
				}
				done.add(string(c.Payload))
				c.Finish(queue.Result{})
			}
		})
		eventually(t, "what is due is done", func() bool { return done.len() >= 2 })
		if all := done.all(); all[0] != "over" || all[1] != "soon changed" {
			t.Errorf("done %v", all)
		}
		scheduled(1)
	})
}

// N12: while a process targets, a job begins at most 1 s after its time, also when the process has nothing
// else to do. A busy machine is forgiven in single rounds.
func TestN12_AJobBeginsSoonAfterItsTime(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Minute })
		began := make(chan time.Time, 1)
		w.another().run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			began <- c.Now
			return queue.Result{}
		}))
		best := time.Hour
		for round := 0; round < 10 && best > time.Second; round++ {
			now := mustRedisTime(t, w)
			at := now.Add(1200 * time.Millisecond)
			w.mustEnqueue(queue.Job{ID: queue.NewID(0, now), Fresh: true, NotBefore: at})
			best = min(best, (<-began).Sub(at))
		}
		if best > time.Second || best < 0 {
			t.Errorf("the job began %v after its time", best)
		}
	})
}
