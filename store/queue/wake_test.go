package queue_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// blocked lists the connections that are in a blocking read and alive.
func blocked(p *storetest.Proxy) (out []*storetest.ProxyConn) {
	for _, c := range p.Conns() {
		if c.Marked.Load() && !c.Swallowed() {
			out = append(out, c)
		}
	}
	return out
}

// TestQ5_ADeadBlockingConnection swallows a worker's blocking read. The lease,
// and so the regular look, is a minute: only the look after an enqueueing can
// notice. A busy machine is forgiven in single rounds.
func TestQ5_ADeadBlockingConnection(t *testing.T) {
	t.Parallel()
	p, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
		c.Marked.Store(bytes.Contains(bytes.ToLower(sent), []byte("block\r\n"))) // its last command blocks
		return storetest.Pass
	})
	w := setup(t, storetest.Open(t, url), func(o *queue.Options) { o.Lease = time.Minute })
	started := make(chan time.Time, 10)
	w.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
		started <- time.Now()
		return queue.Result{}
	}))
	var took []time.Duration
	for range 5 {
		eventually(t, "the worker is blocked", func() bool { return len(blocked(p)) == 1 })
		blocked(p)[0].Swallow()
		before := time.Now()
		w.mustEnqueue(queue.Job{})
		took = append(took, (<-started).Sub(before))
		w.mustBeEmpty()
	}
	t.Logf("%v", took)
	if best := slices.Min(took); best > time.Second {
		t.Errorf("the soonest start with a dead connection was after %v", best)
	}
	if worst := slices.Max(took); worst > 30*time.Second {
		t.Errorf("a start took %v: half the time of the regular look", worst)
	}
}

// TestCrashedConsumersAreRemoved leaves one consumer with a pending entry, one
// without, and one that lives.
func TestCrashedConsumersAreRemoved(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Open(t, storetest.Redis(t).URL()), func(o *queue.Options) { o.Lease = time.Hour })
	consumers := func() (names []string) {
		for _, c := range w.db.Client().XInfoConsumers(t.Context(), w.prefix(0)+"main", "g").Val() {
			names = append(names, c.Name)
		}
		return names
	}
	crashed := func() *queue.Stepper { return queue.NewStepper(w.another().q) }
	w.mustEnqueue(queue.Job{}, queue.Job{})
	holds, free := crashed(), crashed()
	if batch, err := holds.Claim(1); err != nil || len(batch) != 1 {
		t.Fatal(batch, err)
	}
	kept := consumers()
	batch, err := free.Claim(1)
	if err != nil || len(batch) != 1 {
		t.Fatal(batch, err)
	}
	if _, err := free.Finish(batch[0], queue.Result{}); err != nil {
		t.Fatal(err)
	}
	if n, err := free.DropConsumers(time.Hour); err != nil || n != 0 || len(consumers()) != 2 {
		t.Errorf("%d removed that were idle for less than an hour, %v", n, err)
	}
	eventually(t, "the one without work is removed", func() bool {
		_, err := free.DropConsumers(20 * time.Millisecond)
		return err == nil && len(consumers()) == 1
	})
	if !slices.Equal(consumers(), kept) {
		t.Errorf("consumers %v, want %v", consumers(), kept)
	}
	w.mustBeConsistent()
}
