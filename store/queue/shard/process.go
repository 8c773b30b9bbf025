package shard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Callbacks are what a process calls: Room says how many more jobs the handler has use for, and Handle
// runs the jobs.
type Callbacks struct {
	Room   func() int
	Handle func(context.Context, []*Claimed)
}

// Process is what the workers of a process have in common.
type Process struct {
	callbacks Callbacks
	limiter   *limiter
	started   time.Time
	jobs      context.Context // parent of every job's context
	writes    context.Context // of writes that must happen also after the stop
	isolating chan struct{}   // one token: only one job, or one group of jobs, runs without others
	closed    atomic.Bool     // no call is sent again

	backgroundMu sync.Mutex // guards closed: no goroutine starts after it is set
	background   sync.WaitGroup
}

// NewProcess makes a process with so many places. jobs is the parent of the jobs' contexts,
// writes never ends.
func NewProcess(jobs, writes context.Context, places int, callbacks Callbacks) *Process {
	return &Process{callbacks: callbacks, limiter: newLimiter(places, callbacks.Room), started: time.Now(),
		jobs: jobs, writes: writes, isolating: make(chan struct{}, 1)}
}

// clock is the time since the process was made, monotonic.
func (p *Process) clock() int64 { return int64(time.Since(p.started)) }

// Idle waits until no job is unfinished, at most for a time, and reports whether none is.
func (p *Process) Idle(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.writes, limit)
	defer cancel()
	return p.limiter.idle(ctx)
}

// inBackground runs f in a goroutine that Close waits for. After Close it does nothing.
func (p *Process) inBackground(f func()) {
	p.backgroundMu.Lock()
	defer p.backgroundMu.Unlock()
	if !p.closed.Load() {
		p.background.Go(f)
	}
}

// Close ends what goes on for workers that were stopped: calls in flight are not sent
// again.
func (p *Process) Close(workers []*Worker) {
	p.backgroundMu.Lock()
	p.closed.Store(true)
	p.backgroundMu.Unlock()
	for _, w := range workers {
		w.sender.await()
	}
	p.background.Wait()
}
