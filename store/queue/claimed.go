package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Claimed is a job that this process may work on until its lease ends.
type Claimed struct {
	Job
	// Attempt is 1 plus the failures that were counted.
	Attempt int
	// Fence is larger than that of every earlier claim of this job that was not given
	// back Untouched.
	Fence int64
	// First tells that no process had the job before and that it had no delay.
	First bool
	// EnqueuedAt and Now (the moment of the claim) are Redis' time.
	EnqueuedAt, Now time.Time
	// GuardValue is what SetGuard stored for the job's Guard, "" if nothing.
	GuardValue string

	here     time.Time // this process's clock at Now
	asked    time.Time // the same before the claim was sent
	worker   *worker
	session  *session
	entry    entry  // without its payload
	place    string // letter of the stream and the entry's id
	lost     atomic.Bool
	finished atomic.Bool
	gone     bool          // another process has it now, or will; guarded by its worker
	marked   bool          // marks may be on record; guarded by its worker
	ended    chan struct{} // of a job that runs alone: closed when the result is recorded

	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// Clock is Redis' time, carried on since the claim by this process's clock.
func (c *Claimed) Clock() time.Time { return c.Now.Add(time.Since(c.here)) }

// GuardAge is how long ago GuardValue was read, at most.
func (c *Claimed) GuardAge() time.Duration { return time.Since(c.asked) }

// Alive tells that the lease is not over, by a clock that only goes forward
// and was read before the claim was sent. Ask immediately before each write to
// the outside; what no lease can rule out is a pause between the question and
// the write.
func (c *Claimed) Alive() bool {
	return !c.lost.Load() && !c.session.over.Load() && c.worker.process.clock() < c.session.deadline.Load()
}

// Context ends when the lease is lost or over, and when Run hands back what is
// unfinished.
func (c *Claimed) Context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancel(c.worker.process.jobs)
		if c.lost.Load() {
			c.cancel()
		}
	}
	return c.ctx
}

// lose ends the lease on this side.
func (c *Claimed) lose() {
	c.lost.Store(true)
	c.stop()
}

func (c *Claimed) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel()
	}
}

// conclude ends the job's context and wakes the goroutine that runs it alone.
func (c *Claimed) conclude() {
	c.stop()
	if c.ended != nil {
		close(c.ended)
	}
}

// Finish says what became of the job. Only the first call counts. It returns
// at once: results are gathered and written per shard, and tried again until
// Redis has them. The result of a job that another process has taken over changes
// nothing.
func (c *Claimed) Finish(r Result) {
	if !c.finished.CompareAndSwap(false, true) {
		return
	}
	if r.Outcome == Retry && c.worker.process.jobs.Err() != nil {
		r.Outcome = Release // it was told to stop: not its fault
	}
	c.worker.finish(c, r)
}

// Wait is how long the job waits after a result: what it says or, after Retry and
// Defer, full jitter over an exponential backoff by its failures, or, if it only ever
// deferred, by its age.
func (c *Claimed) Wait(r Result) time.Duration {
	if r.Delay > 0 || r.Outcome != Retry && r.Outcome != Defer {
		return r.Delay
	}
	o := &c.worker.o
	limit := o.RetryBase
	if r.Outcome == Retry {
		for n := 1; n < c.Attempt && limit < o.RetryMax; n++ {
			limit *= 2
		}
	} else {
		limit = max(limit, c.Now.Sub(c.EnqueuedAt)/2)
	}
	return time.Duration(rand.Int64N(int64(min(limit, o.RetryMax)))) + time.Millisecond
}

// Each makes a handler that calls f on every job in a goroutine of its own. f's
// context is the job's.
func Each(f func(ctx context.Context, c *Claimed) Result) Handler {
	return func(_ context.Context, batch []*Claimed) {
		for _, c := range batch {
			go func() { c.Finish(f(c.Context(), c)) }()
		}
	}
}

// ByType makes a handler of one function per type. A job of another type
// becomes a dead letter with reason unknown_type.
func ByType(types map[string]func(ctx context.Context, c *Claimed) Result) Handler {
	return Each(func(ctx context.Context, c *Claimed) Result {
		f, ok := types[c.Type]
		if !ok {
			return Result{Outcome: Dead, Reason: "unknown_type", Err: "no handler for type " + c.Type}
		}
		return f(ctx, c)
	})
}
