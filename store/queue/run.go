package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// worker is one Run: this process' share of the queue.
type worker struct {
	q       *Queue
	handle  Handler
	gate    *gate
	started time.Time
	jobs    context.Context // parent of every job's context
	writes  context.Context // of what must be written also after the stop
	shards  []*shardWorker
	lonely  chan struct{} // one token: only one job runs alone
	closed  atomic.Bool   // Run is over: nothing is sent again

	asideMu sync.Mutex // closed does not come true between a look at it and Go
	asides  sync.WaitGroup
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
	w := &worker{q: q, handle: h, gate: newGate(q.o.InFlight, q.o.Room), started: time.Now(),
		jobs: jobs, writes: writes, lonely: make(chan struct{}, 1)}
	for _, shard := range q.o.Serve {
		w.shards = append(w.shards, newShardWorker(w, shard))
	}
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	var backing sync.WaitGroup
	backing.Go(func() { w.keep(background) })
	for _, s := range w.shards { // also while unfinished jobs are waited for: a look renews their lease
		backing.Go(func() { s.maintain(background) })
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
		s.ends.await() // what is under way is not sent again
	}
	w.asides.Wait()
	return nil
}

// aside runs f beside the loops; Run waits for it. After Run nothing begins.
func (w *worker) aside(f func()) {
	w.asideMu.Lock()
	defer w.asideMu.Unlock()
	if !w.closed.Load() {
		w.asides.Go(f)
	}
}

func (w *worker) close() {
	w.asideMu.Lock()
	defer w.asideMu.Unlock()
	w.closed.Store(true)
}

// attach lets what this process enqueues claim for the worker.
func (w *worker) attach(on bool) {
	for _, s := range w.shards {
		l := w.q.lines[s.shard]
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

// drain waits for unfinished jobs: Drain as they are, then a while after their
// contexts ended; then it gives back what is left.
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
	return w.gate.idle(ctx)
}

// leave ends the lives: what they still have pending goes back.
func (w *worker) leave() {
	ctx, cancel := context.WithTimeout(w.writes, 2*time.Second)
	defer cancel()
	var leaving sync.WaitGroup
	for _, s := range w.shards {
		leaving.Go(func() {
			if err := s.leave(ctx); err != nil {
				w.q.failed(s.shard, "leave shard", err)
			}
		})
	}
	leaving.Wait()
}

// leave ends a shard's life, in as many steps as it takes.
func (s *shardWorker) leave(ctx context.Context) error {
	l, q := s.present(), s.worker.q
	ends, enqueues := s.ends.leave(), q.lines[s.shard].leave()
	for l != nil && ctx.Err() == nil {
		cmd := q.scripts.end.Cmd(ctx, q.keys(s.shard), l.name, ms(q.o.Retention), ms(q.o.GroupRetention), ms(q.o.ReportRetention), ends, enqueues)
		if err := q.db.Pipeline(ctx, redisdb.Write, cmd); err != nil {
			return err
		}
		answer, err := cmd.Slice()
		if err != nil {
			if isNoGroup(err) {
				return nil
			}
			return fmt.Errorf("leave %s shard %d: %w", q.o.Name, s.shard, err)
		}
		if redisdb.NumberAt(answer, 1) == 1 {
			return nil
		}
	}
	return ctx.Err()
}
