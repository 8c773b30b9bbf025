package queue

import (
	"context"
	"sync"
	"time"

	"fanfare/store/queue/shard"
)

// run is one call of Run.
type run struct {
	q       *Queue
	process *shard.Process
	workers []*shard.Worker // one for each shard that is served
	writes  context.Context // never ends
}

// Run claims jobs of the shards it serves and hands them to h until ctx ends.
// Then nothing new starts; Run waits Drain for unfinished jobs, ends their
// contexts, hands back what is still unfinished, uncounted, and returns. It
// survives any absence of Redis. Run it once per Queue and process.
func (q *Queue) Run(ctx context.Context, h Handler) error {
	return q.RunNoticing(ctx, func(*Claimed) {}, h)
}

// RunNoticing is Run, and also calls notice on each claimed job before h gets it. If this process
// claims a job with the call that enqueues it, notice comes before Enqueue returns. So for jobs
// that are enqueued one after the other, also in different shards, the calls of notice have the
// same order. Redis' answers wait for notice, so it must be quick.
func (q *Queue) RunNoticing(ctx context.Context, notice func(c *Claimed), h Handler) error {
	writes := context.WithoutCancel(ctx)
	jobs, stopJobs := context.WithCancel(writes)
	defer stopJobs()
	r := &run{q: q, process: shard.NewProcess(jobs, writes, q.o.InFlight,
		shard.Callbacks{Room: q.o.Room, Notice: notice, Handle: h}), writes: writes}
	for _, n := range q.o.Serve {
		r.workers = append(r.workers, shard.NewWorker(r.process, q.shards[n]))
	}
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	var backing sync.WaitGroup
	backing.Go(func() { r.keep(background) })
	for _, w := range r.workers { // until the drain is over: a look renews the lease of unfinished jobs
		backing.Go(func() { w.Maintain(background) })
	}
	for _, w := range r.workers {
		w.Attach(true)
	}
	r.each(func(w *shard.Worker) { w.Attend(ctx) })
	for _, w := range r.workers {
		w.Stop()
	}
	r.drain(stopJobs)
	for _, w := range r.workers {
		w.Attach(false)
	}
	stopBackground()
	backing.Wait()
	r.leave()
	r.process.Close(r.workers)
	return nil
}

// each calls f for all workers at once and waits until all calls have returned.
func (r *run) each(f func(w *shard.Worker)) {
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() { f(w) })
	}
	all.Wait()
}

// drain waits for unfinished jobs for Drain, then ends their contexts and waits a little
// more, then hands back the rest.
func (r *run) drain(stopJobs context.CancelFunc) {
	r.await(r.q.o.Drain)
	stopJobs()
	if !r.await(min(r.q.o.Lease/2, 2*time.Second)) {
		for _, w := range r.workers {
			w.ReleaseAll()
		}
		r.await(2 * time.Second)
	}
}

func (r *run) await(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(r.writes, limit)
	defer cancel()
	return r.process.Idle(ctx)
}

// leave ends the sessions: jobs that they still have pending go back.
func (r *run) leave() {
	ctx, cancel := context.WithTimeout(r.writes, 2*time.Second)
	defer cancel()
	r.each(func(w *shard.Worker) { w.Leave(ctx) })
}

// checkParts is how many times a lease is checked in its time.
const checkParts = 10

// keep has the leases renewed and ends the contexts of the jobs whose lease is over.
func (r *run) keep(ctx context.Context) {
	ticker := time.NewTicker(max(r.q.o.Lease/checkParts, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, w := range r.workers {
				w.Keep()
			}
		case <-ctx.Done():
			return
		}
	}
}
