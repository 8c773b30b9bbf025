package shard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAnOldSeriesIsRepeatedAsItIs: a call with a result, which claims the next job as
// well, loses its answer after the process had nothing to say for long. It is repeated
// with its number, and Redis answers what it had answered.
func TestAnOldSeriesIsRepeatedAsItIs(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		var worker *shard.Worker
		var ran atomic.Int64
		var lost atomic.Bool
		faulty := storetest.Faulty(t, db, func(step string, answered bool) error {
			if step == "call_finish" && answered && ran.Load() > 0 && !lost.Swap(true) {
				shard.AgeSeries(worker)
				return storetest.ErrLost
			}
			return nil
		})
		callbacks := shard.Callbacks{Room: endless, Handle: func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				ran.Add(1)
				c.Finish(queue.Result{})
			}
		}}
		process := shard.NewProcess(t.Context(), context.WithoutCancel(t.Context()), 1, callbacks)
		worker = shard.NewWorker(process, w.common(faulty).Shard(0))
		group := queue.NewID(0, epoch)
		for range 3 {
			w.mustEnqueue(queue.Job{ID: queue.NewID(0, epoch), Group: group})
		}
		w.attend(worker)
		storetest.Eventually(t, time.Minute, "all jobs ended", func() bool {
			counts, err := w.q.Groups(t.Context(), group)
			return err == nil && counts["done"] == 3
		})
		if ran.Load() != 3 || !lost.Load() {
			t.Errorf("%d runs of 3 jobs, lost %t", ran.Load(), lost.Load())
		}
		w.mustBeConsistent()
	})
}

// TestWhatWaitsBehindARefusalLeaves: Redis refuses a call; what waited behind it was not
// part of that and is stored.
func TestWhatWaitsBehindARefusalLeaves(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		sent, refuse := make(chan bool), make(chan bool)
		var first atomic.Bool
		s := setup(t, db).common(storetest.Faulty(t, db, func(step string, answered bool) error {
			if step != "call_enqueue" || answered || first.Swap(true) {
				return nil
			}
			close(sent)
			<-refuse
			return storetest.ErrNoRoom
		})).Shard(0)
		errs := make(chan error, 2)
		enqueue := func() {
			job := queue.Job{ID: queue.NewID(0, epoch)}
			errs <- s.Producer.Do(t.Context(), shard.NewRequest(t.Context(), queue.Once{}, shard.Entries(job)))
		}
		go enqueue()
		<-sent
		go enqueue()
		storetest.Eventually(t, time.Minute, "the other waits", func() bool { return shard.Waiting(s) == 1 })
		close(refuse)
		refused, stored := <-errs, <-errs
		if refused == nil {
			refused, stored = stored, refused
		}
		if api.CodeOf(refused) != api.CodeOverloaded || stored != nil {
			t.Errorf("the first: %v; the one behind it: %v", refused, stored)
		}
	})
}

// TestPlacesBesideOneThatRunsAlone: a job that must run alone begins though others last
// longer than it could wait for them. Then there are fewer places than none.
func TestPlacesBesideOneThatRunsAlone(t *testing.T) {
	t.Parallel()
	if got := shard.PlacesBesideOneAlone(t.Context()); got != 0 {
		t.Errorf("%d places where there are none", got)
	}
}

// TestALateResultIsNotOfTheNextLife: what becomes of jobs that were lost with a session is in
// no call of the next one, which would be believed.
func TestALateResultIsNotOfTheNextLife(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	p := w.mustStep()
	for range 20 {
		w.mustEnqueue(make([]queue.Job, 100)...)
		batch := mustClaim(t, p, 100)
		p.EndSession()
		storetest.Must(t, p.Begin())
		if n := p.RecordsWhile(func() {
			var ending sync.WaitGroup
			for _, c := range batch {
				ending.Go(func() { c.Finish(queue.Result{}) })
			}
			ending.Wait()
		}); n > 0 {
			t.Fatalf("%d results of the last session", n)
		}
	}
}
