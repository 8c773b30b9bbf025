package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// A15: what is written to the outside must be recorded before its lease ends,
// so nothing is written that late: a lease that is not renewed is no longer
// fresh while it is still alive, and fresh again once it was renewed.
func TestA15_NotFreshNearTheLeasesEnd(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Lease = 3 * time.Second })
	var cut atomic.Bool
	w.q.SetFault(t, func(step string, _ bool) error {
		if (step == "renew" || step == "maintain") && cut.Load() { // a look renews too
			return storetest.ErrCut
		}
		return nil
	})
	held := make(chan *queue.Claimed, 1)
	w.run(func(_ context.Context, batch []*queue.Claimed) { held <- batch[0] })
	w.mustEnqueue(queue.Job{})
	c := <-held
	defer c.Finish(queue.Result{})
	if !c.Fresh() || !c.AwaitFresh(t.Context()) {
		t.Error("a new lease is not fresh")
	}
	cut.Store(true)
	eventually(t, "the lease is no longer fresh", func() bool { return !c.Fresh() })
	if !c.Alive() {
		t.Error("it was over when it stopped being fresh")
	}
	cut.Store(false)
	if !c.AwaitFresh(t.Context()) {
		t.Error("it was not renewed")
	}
}

// A15: while results do not reach Redis nothing new is written in the shard.
func TestA15_NotFreshWhileResultsAreHeldUp(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Lease = 10 * time.Second })
	var cut atomic.Bool
	refused := make(chan time.Time, 1) // when the first result was
	w.q.SetFault(t, func(step string, _ bool) error {
		if step == "finish" && cut.Load() {
			select {
			case refused <- time.Now():
			default:
			}
			return storetest.ErrCut
		}
		return nil
	})
	held := make(chan *queue.Claimed, 2)
	w.run(func(_ context.Context, batch []*queue.Claimed) {
		for _, c := range batch {
			held <- c
		}
	})
	w.mustEnqueue(queue.Job{}, queue.Job{})
	first, second := <-held, <-held
	defer second.Finish(queue.Result{})
	cut.Store(true)
	first.Finish(queue.Result{})
	// A late renewal makes it wait as well, for a moment: what counts is that
	// results have been held up for a tenth of the lease.
	since := <-refused
	eventually(t, "results are held up", func() bool { return time.Since(since) > w.o.Lease/10 })
	if second.Fresh() {
		t.Error("the other job does not wait")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if second.AwaitFresh(ctx) {
		t.Error("fresh though results are held up")
	}
	cut.Store(false)
	if !second.AwaitFresh(t.Context()) {
		t.Error("not fresh after the results were written")
	}
}

// A lease that is over ends the wait.
func TestAwaitFreshEndsWithTheLease(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.q.SetFault(t, func(step string, _ bool) error {
		if step == "renew" || step == "maintain" { // a look renews too
			return storetest.ErrCut
		}
		return nil
	})
	held := make(chan *queue.Claimed, 64)
	w.run(func(_ context.Context, batch []*queue.Claimed) { held <- batch[0] })
	w.mustEnqueue(queue.Job{})
	c := <-held
	eventually(t, "the lease is not fresh", func() bool { return !c.Fresh() })
	if c.AwaitFresh(t.Context()) || c.Alive() {
		t.Error("it was renewed by nobody and is fresh")
	}
	c.Finish(queue.Result{})
	for len(held) > 0 {
		(<-held).Finish(queue.Result{})
	}
}

// TestA15_NotFreshWhileManyMarksAreOnTheirWay: what is marked and not on record happens
// twice when the process dies, so that it is bounded.
func TestA15_NotFreshWhileManyMarksAreOnTheirWay(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		held, record := make(chan *queue.Claimed, 1), make(chan bool)
		w.q.SetFault(t, func(step string, answered bool) error {
			if step == "finish" && !answered {
				<-record
			}
			return nil
		})
		w.run(func(_ context.Context, batch []*queue.Claimed) { held <- batch[0] })
		w.mustEnqueue(queue.Job{})
		c := <-held
		for n := range 1000 {
			if !c.Fresh() {
				t.Fatalf("not fresh with %d marks on their way", n)
			}
			c.Mark(fmt.Sprint("part", n), "ended", "")
		}
		if c.Fresh() {
			t.Error("fresh with 1,000 marks on their way")
		}
		close(record)
		eventually(t, "the marks to be on record", c.Fresh)
		c.Finish(queue.Result{})
		w.mustBeEmpty()
	})
}
