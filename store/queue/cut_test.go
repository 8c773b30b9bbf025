package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// cutProcess is a process of one shard that is cut off with work in its hands.
type cutProcess struct {
	*world
	shard   int
	limiter chan struct{} // closed: its handlers return
	runs    atomic.Int64
	mu      sync.Mutex
	held    []string    // jobs that run when Redis goes
	checked atomic.Bool // from the cut on
	claims  atomic.Int64
}

// watch lets a claim, or a look for ended leases, through only when Redis has
// every result that waited: a record that is still there was not finished.
func (p *cutProcess) watch(step string, answered bool) error {
	if !p.checked.Load() || answered || step != "claim" && step != "maintain" {
		return nil
	}
	var live []string
	keys, err := p.db.Client().Keys(context.Background(), p.prefix(p.shard)+"jobs:*").Result()
	for _, key := range keys {
		ids, err2 := p.db.Client().HKeys(context.Background(), key).Result()
		live, err = append(live, ids...), errors.Join(err, err2)
	}
	if err != nil {
		return storetest.ErrCut // Redis is away: it would not have arrived
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range live {
		for _, held := range p.held {
			if id == held {
				p.t.Errorf("%s in shard %d before the result of %s", step, p.shard, id)
			}
		}
	}
	p.claims.Add(1)
	return nil
}

// mustHold starts the process, gives it n jobs and waits until all run.
func (p *cutProcess) mustHold(n int, group string) {
	p.q.SetFault(p.t, p.watch)
	p.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
		p.runs.Add(1)
		p.mu.Lock()
		if !p.checked.Load() {
			p.held = append(p.held, c.ID)
		}
		p.mu.Unlock()
		<-p.limiter
		return queue.Result{}
	}))
	for range n {
		p.mustEnqueue(queue.Job{ID: queue.NewID(p.shard, epoch), Shard: p.shard, Group: group})
	}
	eventually(p.t, "all jobs run", func() bool { return p.runs.Load() == int64(n) })
}

// TestQ13_RedisCutOffAndBack cuts every process off for many leases, all with
// results to write. None claims anything, or takes leases for ended, before
// its results are in Redis, so no job runs twice; and all work on.
func TestQ13_RedisCutOffAndBack(t *testing.T) {
	t.Parallel()
	const n, processes, lease = 50, 3, time.Second
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Shards = processes; o.Lease = lease })
	group := queue.NewID(0, epoch)
	var all []*cutProcess
	for shard := range processes {
		p := &cutProcess{world: w.another(), shard: shard, limiter: make(chan struct{})}
		o := p.o
		o.Serve = []int{shard}
		p.q = queue.New(p.db, o)
		p.mustHold(n, group)
		all = append(all, p)
	}
	server.Kill()
	since := time.Now()
	for _, p := range all {
		p.checked.Store(true)
		close(p.limiter) // results now have nowhere to go
	}
	away := time.Duration(storetest.Sized(30, 10)) * time.Second
	eventually(t, "many leases passed", func() bool { return time.Since(since) > away })
	server.Restart()
	for _, p := range all {
		eventually(t, "it claims again", func() bool { return p.claims.Load() > 0 })
		w.mustEnqueue(queue.Job{ID: queue.NewID(p.shard, epoch), Shard: p.shard, Group: group})
	}
	eventually(t, "all done", func() bool {
		counts, err := w.q.Groups(t.Context(), group)
		return err == nil && counts["done"] == processes*(n+1)
	})
	for _, p := range all {
		if p.runs.Load() != n+1 {
			t.Errorf("shard %d: %d runs of %d jobs", p.shard, p.runs.Load(), n+1)
		}
	}
	w.mustBeEmpty()
	w.mustBeConsistent()
}

// TestQ13_ResultsOfOthersComeFirst: when Redis is back after more than a lease,
// no process takes the jobs of another over whose results are on their way.
func TestQ13_ResultsOfOthersComeFirst(t *testing.T) {
	t.Parallel()
	const n, processes, lease = 30, 3, 2 * time.Second
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) {
		o.Shards, o.Lease, o.InFlight = 2, lease, n/processes
	})
	group, limiter := queue.NewID(0, epoch), make(chan struct{})
	var runs atomic.Int64
	for range processes {
		w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			runs.Add(1)
			<-limiter
			return queue.Result{}
		}))
	}
	for i := range n {
		w.mustEnqueue(queue.Job{ID: queue.NewID(i%2, epoch), Shard: i % 2, Group: group})
	}
	eventually(t, "all jobs run", func() bool { return runs.Load() == n })
	server.Kill()
	since := time.Now()
	close(limiter)
	eventually(t, "the leases are over", func() bool { return time.Since(since) > 2*lease })
	server.Restart()
	eventually(t, "all done", func() bool {
		counts, err := w.q.Groups(t.Context(), group)
		// A pool remembers for a second that nobody answered its calls.
		return err == nil && counts["done"] == n && w.db.Client().Ping(t.Context()).Err() == nil
	})
	if runs.Load() != n {
		t.Errorf("%d runs of %d jobs", runs.Load(), n)
	}
	w.mustBeEmpty()
	w.mustBeConsistent()
}
