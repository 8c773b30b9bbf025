package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAComparisonIsRepeated: the answer to a claim is lost, and so is Redis when the
// process wants to know what it has claimed. It asks again: nobody else would find the
// jobs as long as the session goes on.
func TestAComparisonIsRepeated(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		worker := w.another()
		var lost, failed atomic.Bool
		worker.q.SetFault(t, func(step string, answered bool) error {
			switch {
			case step == "claim" && answered && !lost.Swap(true):
				return storetest.ErrLost
			case step == "compare" && !answered && !failed.Swap(true):
				return storetest.ErrCut
			}
			return nil
		})
		var ran atomic.Int64
		w.mustEnqueue(queue.Job{}, queue.Job{})
		worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			ran.Add(1)
			return queue.Result{}
		}))
		eventually(t, "all jobs ran", func() bool { return ran.Load() == 2 })
		if !lost.Load() || !failed.Load() {
			t.Errorf("lost %t, failed %t: nothing was tried", lost.Load(), failed.Load())
		}
		w.mustBeEmpty()
	})
}

// TestAnOldSeriesIsRepeatedAsItIs: a call with a result, which claims the next job as
// well, loses its answer after the process had nothing to say for long. It is repeated
// with its number, and Redis answers what it had answered.
func TestAnOldSeriesIsRepeatedAsItIs(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease, o.InFlight, o.Retention = time.Hour, 1, time.Hour })
		worker := w.another()
		var lost atomic.Bool
		worker.q.SetFault(t, func(step string, answered bool) error {
			if step == "finish" && answered && !lost.Swap(true) {
				queue.AgeSeries(worker.q, 0)
				return storetest.ErrLost
			}
			return nil
		})
		var ran atomic.Int64
		group := queue.NewID(0, epoch)
		for range 3 {
			w.mustEnqueue(queue.Job{ID: queue.NewID(0, epoch), Group: group})
		}
		worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			ran.Add(1)
			return queue.Result{}
		}))
		eventually(t, "all jobs ended", func() bool {
			counts, err := w.q.Groups(t.Context(), group)
			return err == nil && counts["done"] == 3
		})
		if ran.Load() != 3 || !lost.Load() {
			t.Errorf("%d runs of 3 jobs, lost %t", ran.Load(), lost.Load())
		}
		w.mustBeEmpty()
	})
}

// TestARefusedRepeatUsesItsNumberUp: the answer to a call with a result is lost, and its
// repeat is refused because Redis is full. Redis may know the number by now, so the next
// call, which has another result as well, must not have it: it would be answered as the
// first was, and not be done.
func TestARefusedRepeatUsesItsNumberUp(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease, o.InFlight = time.Hour, 2 })
		worker := w.another()
		var lost atomic.Bool
		refused := make(chan bool)
		worker.q.SetFault(t, func(step string, answered bool) error {
			switch {
			case step != "finish":
			case answered && !lost.Swap(true):
				return storetest.ErrLost
			case !answered && lost.Load() && !isClosed(refused):
				close(refused)
				return storetest.ErrNoRoom
			}
			return nil
		})
		group := queue.NewID(0, epoch)
		w.mustEnqueue(queue.Job{ID: queue.NewID(0, epoch), Group: group}, queue.Job{ID: queue.NewID(0, epoch), Group: group})
		var ran atomic.Int64
		worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			if ran.Add(1) == 2 {
				<-refused
			}
			return queue.Result{}
		}))
		eventually(t, "both jobs ended", func() bool {
			counts, err := w.q.Groups(t.Context(), group)
			return err == nil && counts["done"] == 2
		})
		if ran.Load() != 2 {
			t.Errorf("%d runs of 2 jobs", ran.Load())
		}
		w.mustBeEmpty()
	})
}

func isClosed(c <-chan bool) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestWhatWaitsBehindARefusalLeaves: Redis refuses a call; what waited behind it was not
// part of that and is stored.
func TestWhatWaitsBehindARefusalLeaves(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		sent, refuse := make(chan bool), make(chan bool)
		var first atomic.Bool
		w.q.SetFault(t, func(step string, answered bool) error {
			if step != "enqueue" || answered || first.Swap(true) {
				return nil
			}
			close(sent)
			<-refuse
			return storetest.ErrNoRoom
		})
		errs := make(chan error, 2)
		enqueue := func() {
			_, err := w.q.Enqueue(t.Context(), queue.Job{})
			errs <- err
		}
		go enqueue()
		<-sent
		go enqueue()
		eventually(t, "the other waits", func() bool { return queue.Waiting(w.q, 0) == 1 })
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
	if got := queue.PlacesBesideOneAlone(t.Context()); got != 0 {
		t.Errorf("%d places where there are none", got)
	}
}

// TestALateResultIsNotOfTheNextLife: what becomes of jobs that were lost with a session is in
// no call of the next one, which would be believed.
func TestALateResultIsNotOfTheNextLife(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Lease = time.Hour })
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
