package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// process is what the workers of a process have in common during one call of Run.
type process struct {
	handle    Handler
	notice    func(c *Claimed) // see RunNoticing
	limiter   *limiter
	started   time.Time
	jobs      context.Context // parent of every job's context
	writes    context.Context // of writes that must happen also after the stop
	isolating chan struct{}   // one token: only one job runs alone
	closed    atomic.Bool     // Run is over: no call is sent again

	backgroundMu sync.Mutex // guards closed: no goroutine starts after it is set
	background   sync.WaitGroup
}

// clock is the time since the start of Run, monotonic.
func (p *process) clock() int64 { return int64(time.Since(p.started)) }

// inBackground runs f in a goroutine that Run waits for. After Run it does nothing.
func (p *process) inBackground(f func()) {
	p.backgroundMu.Lock()
	defer p.backgroundMu.Unlock()
	if !p.closed.Load() {
		p.background.Go(f)
	}
}

func (p *process) close() {
	p.backgroundMu.Lock()
	defer p.backgroundMu.Unlock()
	p.closed.Store(true)
}

// run is one call of Run.
type run struct {
	q       *Queue
	process *process
	workers []*worker // one for each shard that is served
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
	p := &process{handle: h, notice: notice, limiter: newLimiter(q.o.InFlight, q.o.Room), started: time.Now(),
		jobs: jobs, writes: writes, isolating: make(chan struct{}, 1)}
	r := &run{q: q, process: p}
	for _, n := range q.o.Serve {
		r.workers = append(r.workers, newWorker(p, q.shards[n]))
	}
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	var backing sync.WaitGroup
	backing.Go(func() { r.keep(background) })
	for _, w := range r.workers { // until the drain is over: a look renews the lease of unfinished jobs
		backing.Go(func() { (&maintainer{w: w}).run(background) })
	}
	r.attach(true)
	r.attend(ctx)
	for _, w := range r.workers {
		w.stop()
	}
	r.drain(stopJobs)
	r.attach(false)
	stopBackground()
	backing.Wait()
	r.leave()
	p.close()
	for _, w := range r.workers {
		w.sender.await() // a call in flight is not sent again
	}
	p.background.Wait()
	return nil
}

// attach lets the calls that enqueue claim for the worker, or not any more.
func (r *run) attach(on bool) {
	for _, w := range r.workers {
		l := w.producer
		l.mu.Lock()
		if l.worker = nil; on {
			l.worker = w
		}
		l.mu.Unlock()
	}
}

// attend waits for new entries of every shard until ctx ends.
func (r *run) attend(ctx context.Context) {
	var attending sync.WaitGroup
	for _, w := range r.workers {
		attending.Go(func() { w.attend(ctx) })
	}
	attending.Wait()
}

// drain waits for unfinished jobs for Drain, then ends their contexts and waits a little
// more, then hands back the rest.
func (r *run) drain(stopJobs context.CancelFunc) {
	r.await(r.q.o.Drain)
	stopJobs()
	if !r.await(min(r.q.o.Lease/2, 2*time.Second)) {
		for _, w := range r.workers {
			w.releaseAll()
		}
		r.await(2 * time.Second)
	}
}

func (r *run) await(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(r.process.writes, limit)
	defer cancel()
	return r.process.limiter.idle(ctx)
}

// leave ends the sessions: jobs that they still have pending go back.
func (r *run) leave() {
	ctx, cancel := context.WithTimeout(r.process.writes, 2*time.Second)
	defer cancel()
	var leaving sync.WaitGroup
	for _, w := range r.workers {
		leaving.Go(func() {
			if err := w.leave(ctx); err != nil {
				w.failed("leave shard", err)
			}
		})
	}
	leaving.Wait()
}

// keep has the leases renewed and ends the contexts of the jobs whose lease is over.
func (r *run) keep(ctx context.Context) {
	ticker := time.NewTicker(max(r.q.o.Lease/lookParts, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, w := range r.workers {
				w.keep()
			}
		case <-ctx.Done():
			return
		}
	}
}

// leave ends a shard's session, in as many steps as it takes.
func (w *worker) leave(ctx context.Context) error {
	l, ends, enqueues := w.present(), w.sender.leave(), w.producer.leave()
	for l != nil && ctx.Err() == nil {
		cmd := w.scripts.end.Cmd(ctx, w.keys(), l.name, ms(w.o.Retention), ms(w.o.GroupRetention), ms(w.o.ReportRetention), ends, enqueues)
		if err := w.db.Pipeline(ctx, redisdb.Write, cmd); err != nil {
			return err
		}
		answer, err := cmd.Slice()
		if err != nil {
			if isNoGroup(err) {
				return nil
			}
			return fmt.Errorf("leave %s shard %d: %w", w.o.Name, w.n, err)
		}
		if redisdb.NumberAt(answer, 1) == 1 {
			return nil
		}
	}
	return ctx.Err()
}
