package shard

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
	// First reports whether no process had the job before and it had no delay.
	First bool
	// EnqueuedAt and Now (the moment of the claim) are Redis' time.
	EnqueuedAt, Now time.Time
	// Class is what the job's dead letter is counted by, made by ClassOf: the handler may set it before
	// Finish.
	Class string
	// Aged is the label of a Defer that has none. It is counted in the job's group if the job is given up because it is older
	// than MaxAge; default "failed". The handler may set it before Finish.
	Aged string
	// GuardValue is what SetGuards stored for the job's Guard, "" if nothing.
	GuardValue string

	here     time.Time // this process's clock at Now
	asked    time.Time // the same before the claim was sent
	worker   *Worker
	session  *session
	past     past
	place    string // letter of the stream and the entry's id
	lost     atomic.Bool
	finished atomic.Bool
	gone     bool          // another process has it now, or will; guarded by its worker
	marked   bool          // marks may be on record; guarded by its worker
	ended    chan struct{} // of a job that runs without others: closed when the result is recorded

	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// Clock is Redis' time, carried on since the claim by this process's clock.
func (c *Claimed) Clock() time.Time { return c.Now.Add(time.Since(c.here)) }

// GuardAge is how long ago GuardValue was read, at most.
func (c *Claimed) GuardAge() time.Duration { return time.Since(c.asked) }

// After reports whether the claim with this fence was the last one that began anything: it left the job in the queue
// with its result, and each claim since was given back Untouched.
func (c *Claimed) After(fence int64) bool { return fence > 0 && c.past.fence == fence }

// Alive reports whether the lease lasts, by a clock that only goes forward
// and was read before the claim was sent. Ask it right before each write to
// another system. No lease can rule out a pause between this call and the
// write.
func (c *Claimed) Alive() bool {
	return !c.lost.Load() && !c.session.over.Load() && c.worker.process.clock() < c.session.deadline()
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

// conclude ends the job's context and wakes the goroutine that keeps others from running beside it.
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
		r.Outcome = Release // the process is stopping, so the failure does not count
	}
	c.worker.finish(c, r)
}

// Wait is how long the job waits after a result: what it says or, after Retry and
// Defer, full jitter over an exponential backoff by its failures, or, if it only ever
// deferred, by its age; at least the result's Least.
func (c *Claimed) Wait(r Result) time.Duration {
	if r.Delay > 0 || r.Outcome != Retry && r.Outcome != Defer {
		return r.Delay
	}
	o := &c.worker.Options
	limit := o.RetryBase
	if r.Outcome == Retry {
		for n := 1; n < c.Attempt && limit < o.RetryMax; n++ {
			limit *= 2
		}
	} else {
		limit = max(limit, c.Now.Sub(c.EnqueuedAt)/2)
	}
	return max(r.Least, time.Duration(rand.Int64N(int64(min(limit, o.RetryMax))))+time.Millisecond)
}

const (
	// freshParts is the share of a lease that must be left for an outside write:
	// its answer has to come back and be recorded before the lease ends. A lease
	// that is renewed in time never has less.
	freshParts = 2
	// slowParts is the share of a lease that the writing of results may take
	// before no new outside write begins in the shard.
	slowParts = 10
	// mostUnrecorded: no outside write begins while more marks of the shard than this
	// wait for Redis. A crash repeats at most that many writes. With thousands of writes
	// in flight answers come in bursts: a bound of 200 held up a fifth of 40,000 writes a
	// second in one shard, while nothing was slow.
	mostUnrecorded = 1000
	// freshLook is the longest time between two looks of AwaitFresh.
	freshLook = 50 * time.Millisecond
)

// Fresh reports whether now is a good time for an outside write: the lease will last
// until its outcome is recorded, as far as one can tell, because it is not near
// its end and the shard's results reach Redis. Ask it, instead of Alive, before
// writes that must not happen twice: while Redis is away, or this process
// starves, they wait instead of happening unrecorded.
func (c *Claimed) Fresh() bool {
	now, lease := c.worker.process.clock(), int64(c.worker.Lease)
	if c.lost.Load() || c.session.over.Load() || c.session.deadline()-now < lease/freshParts {
		return false
	}
	if c.worker.results.unrecorded.Load() >= mostUnrecorded {
		return false
	}
	since := c.worker.results.since.Load()
	return since == 0 || now-since < lease/slowParts
}

// AwaitFresh waits until Fresh says yes. It says no when the lease is over or
// ctx has ended; ctx should be the job's, or a child of it.
func (c *Claimed) AwaitFresh(ctx context.Context) bool {
	if c.Fresh() {
		return true
	}
	look := time.NewTicker(max(min(c.worker.Lease/100, freshLook), time.Millisecond))
	defer look.Stop()
	for c.Alive() {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
		if c.Fresh() {
			return true
		}
	}
	return false
}

// Named reports whether the job is known by its id after its end: a dead letter that was retried is, and what was told of its end
// may have been told before.
func (c *Claimed) Named() bool { return c.past.named != "" }

// Mark notes that a part of the job has ended and how, so that the process that takes
// the job over can read it (Queue.Marks), and replaces the job's report unless it is "". Marks
// are gathered as results are, and written with or before the job's own result; they
// stay until the job is done, at most MaxAge or GroupRetention. Call it before Finish.
// Marks of a job that another process took over are not written. The facts are told with the mark, or with the job's result.
func (c *Claimed) Mark(name, value, report string, facts ...Fact) {
	w := c.worker
	w.mu.Lock()
	if c.gone || c.finished.Load() { // another process has the job, or will have it: its marks count
		w.mu.Unlock()
		return
	}
	w.results.mark(c, name, value, report, facts)
	w.results.since.CompareAndSwap(0, max(w.process.clock(), 1))
	w.mu.Unlock()
	w.sender.wake()
}

// NoteMarks notes that marks of the job are on record, which go when it is done.
func (c *Claimed) NoteMarks() {
	c.worker.mu.Lock()
	defer c.worker.mu.Unlock()
	c.marked = true
}
