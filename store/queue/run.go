package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// worker is one call of Run: the part of this process in the work of the queue.
type worker struct {
	q         *Queue
	handle    Handler
	limiter   *limiter
	started   time.Time
	jobs      context.Context // parent of every job's context
	writes    context.Context // of writes that must happen also after the stop
	shards    []*shardWorker
	isolating chan struct{} // one token: only one job runs alone
	closed    atomic.Bool   // Run is over: no call is sent again

	backgroundMu sync.Mutex // guards closed: no goroutine starts after it is set
	background   sync.WaitGroup
}

// clock is the time since the worker's start, monotonic.
func (w *worker) clock() int64 { return int64(time.Since(w.started)) }

// Run claims jobs of the shards it serves and hands them to h until ctx ends.
// Then nothing new starts; Run waits Drain for unfinished jobs, ends their
// contexts, hands back what is still unfinished, uncounted, and returns. It
// survives any absence of Redis. Run it once per Queue and process.
func (q *Queue) Run(ctx context.Context, h Handler) error {
	writes := context.WithoutCancel(ctx)
	jobs, stopJobs := context.WithCancel(writes)
	defer stopJobs()
	w := &worker{q: q, handle: h, limiter: newLimiter(q.o.InFlight, q.o.Room), started: time.Now(),
		jobs: jobs, writes: writes, isolating: make(chan struct{}, 1)}
	for _, n := range q.o.Serve {
		w.shards = append(w.shards, newShardWorker(w, q.shards[n]))
	}
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	var backing sync.WaitGroup
	backing.Go(func() { w.keep(background) })
	for _, s := range w.shards { // until the drain is over: a look renews the lease of unfinished jobs
		backing.Go(func() { (&maintainer{s: s}).run(background) })
	}
	w.attach(true)
	w.attend(ctx)
	for _, s := range w.shards {
		s.stop()
	}
	w.drain(stopJobs)
	w.attach(false)
	stopBackground()
	backing.Wait()
	w.leave()
	w.close()
	for _, s := range w.shards {
		s.sender.await() // a call in flight is not sent again
	}
	w.background.Wait()
	return nil
}

// inBackground runs f in a goroutine that Run waits for. After Run it does nothing.
func (w *worker) inBackground(f func()) {
	w.backgroundMu.Lock()
	defer w.backgroundMu.Unlock()
	if !w.closed.Load() {
		w.background.Go(f)
	}
}

func (w *worker) close() {
	w.backgroundMu.Lock()
	defer w.backgroundMu.Unlock()
	w.closed.Store(true)
}

// attach lets the calls that enqueue claim for the worker, or not any more.
func (w *worker) attach(on bool) {
	for _, s := range w.shards {
		l := s.producer
		l.mu.Lock()
		if l.worker = nil; on {
			l.worker = s
		}
		l.mu.Unlock()
	}
}

// attend waits for new entries of every shard until ctx ends.
func (w *worker) attend(ctx context.Context) {
	var attending sync.WaitGroup
	for _, s := range w.shards {
		attending.Go(func() { s.attend(ctx) })
	}
	attending.Wait()
}

// drain waits for unfinished jobs for Drain, then ends their contexts and waits a little
// more, then hands back the rest.
func (w *worker) drain(stopJobs context.CancelFunc) {
	w.await(w.q.o.Drain)
	stopJobs()
	if !w.await(min(w.q.o.Lease/2, 2*time.Second)) {
		for _, s := range w.shards {
			s.releaseAll()
		}
		w.await(2 * time.Second)
	}
}

func (w *worker) await(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(w.writes, limit)
	defer cancel()
	return w.limiter.idle(ctx)
}

// leave ends the sessions: jobs that they still have pending go back.
func (w *worker) leave() {
	ctx, cancel := context.WithTimeout(w.writes, 2*time.Second)
	defer cancel()
	var leaving sync.WaitGroup
	for _, s := range w.shards {
		leaving.Go(func() {
			if err := s.leave(ctx); err != nil {
				s.failed("leave shard", err)
			}
		})
	}
	leaving.Wait()
}

// leave ends a shard's session, in as many steps as it takes.
func (s *shardWorker) leave(ctx context.Context) error {
	l, ends, enqueues := s.present(), s.sender.leave(), s.producer.leave()
	for l != nil && ctx.Err() == nil {
		cmd := s.scripts.end.Cmd(ctx, s.keys(), l.name, ms(s.o.Retention), ms(s.o.GroupRetention), ms(s.o.ReportRetention), ends, enqueues)
		if err := s.db.Pipeline(ctx, redisdb.Write, cmd); err != nil {
			return err
		}
		answer, err := cmd.Slice()
		if err != nil {
			if isNoGroup(err) {
				return nil
			}
			return fmt.Errorf("leave %s shard %d: %w", s.o.Name, s.n, err)
		}
		if redisdb.NumberAt(answer, 1) == 1 {
			return nil
		}
	}
	return ctx.Err()
}
