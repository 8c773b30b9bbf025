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
