package queue

import (
	"context"
	"sync"
	"time"

	"fanfare/store/queue/shard"
)

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
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	p := shard.NewProcess(jobs, writes, q.o.InFlight, shard.Callbacks{Room: q.o.Room, Notice: notice, Handle: h})
	var workers []*shard.Worker
	var attending, backing, leaving sync.WaitGroup
	for _, n := range q.o.Serve {
		w := shard.NewWorker(p, q.shards[n])
		workers = append(workers, w)
		attending.Go(func() { w.Attend(ctx) })
		backing.Go(func() { w.Maintain(background) }) // also in the drain: a look renews the lease of unfinished jobs
	}
	backing.Go(func() { q.checkLeases(background, workers) })
	attending.Wait()
	for _, w := range workers {
		w.Stop()
	}
	q.drain(p, workers, stopJobs)
	stopBackground()
	backing.Wait()
	for _, w := range workers {
		leaving.Go(w.Leave)
	}
	leaving.Wait()
	p.Close(workers)
	return nil
}

// drain waits for unfinished jobs for Drain, then ends their contexts and waits a little
// more, then hands back the rest.
func (q *Queue) drain(p *shard.Process, workers []*shard.Worker, stopJobs context.CancelFunc) {
	p.Idle(q.o.Drain)
	stopJobs()
	if p.Idle(min(q.o.Lease/2, 2*time.Second)) {
		return
	}
	for _, w := range workers {
		w.ReleaseAll()
	}
	p.Idle(2 * time.Second)
}

// checkParts is how many times a lease is checked in its time.
const checkParts = 10

// checkLeases has the leases renewed and ends the contexts of the jobs whose lease is over.
func (q *Queue) checkLeases(ctx context.Context, workers []*shard.Worker) {
	ticker := time.NewTicker(max(q.o.Lease/checkParts, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, w := range workers {
				w.CheckLease()
			}
		case <-ctx.Done():
			return
		}
	}
}
