package queue

import (
	"context"
	"sync"
	"time"
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
}

// shardWorker is what a worker does in one shard.
type shardWorker struct {
	worker  *worker
	shard   int
	results *results
	calls   caller        // of the reader
	lone    caller        // of claims for a job that runs alone
	poke    chan struct{} // the blocking read may be deaf

	mu   sync.Mutex
	live map[*Claimed]struct{}

	deafSince time.Time // the reader blocks since then; zero: it does not
	suspect   time.Time // the maintainer's: since then entries wait although the reader does
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
	w := &worker{q: q, handle: h, gate: newGate(q.o.InFlight), started: time.Now(),
		jobs: jobs, writes: writes, lonely: make(chan struct{}, 1)}
	for _, shard := range q.o.Serve {
		w.shards = append(w.shards, newShardWorker(w, shard))
	}
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	var backing sync.WaitGroup
	backing.Go(func() { w.keep(background) })
	for _, s := range w.shards {
		backing.Go(func() { s.results.write(background) })
	}
	w.claimAll(ctx)
	w.drain(stopJobs)
	stopBackground()
	backing.Wait()
	w.leave()
	return nil
}

func newShardWorker(w *worker, shard int) *shardWorker {
	s := &shardWorker{worker: w, shard: shard, poke: make(chan struct{}, 1), live: map[*Claimed]struct{}{}}
	s.calls.owner, s.lone.owner = w.q.o.Owner, w.q.o.Owner+"+"
	s.results = &results{shard: s, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	return s
}

// claimAll reads and maintains every shard until ctx ends.
func (w *worker) claimAll(ctx context.Context) {
	var claiming sync.WaitGroup
	for _, s := range w.shards {
		claiming.Go(func() { s.read(ctx) })
		claiming.Go(func() { s.maintain(ctx) })
	}
	claiming.Wait()
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

// releaseAll hands back every job whose handler has not answered. From then on
// the handler's Alive is false and its Finish has no effect.
func (s *shardWorker) releaseAll() {
	for _, c := range s.unfinished() {
		if c.finished.CompareAndSwap(false, true) {
			c.lose()
			s.results.add(c, Result{Outcome: Release})
		}
	}
}

func (s *shardWorker) unfinished() []*Claimed {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Claimed, 0, len(s.live))
	for c := range s.live {
		out = append(out, c)
	}
	return out
}

// leave puts back what was delivered but never begun, and removes the consumer.
func (w *worker) leave() {
	ctx, cancel := context.WithTimeout(w.writes, 2*time.Second)
	defer cancel()
	for _, s := range w.shards {
		if err := s.leave(ctx); err != nil {
			w.q.o.Logger.Warn("leave shard", "shard", s.shard, "error", err)
			return
		}
	}
}
