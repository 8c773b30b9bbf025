package queue

import (
	"context"
	"time"
)

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

// Fresh tells that now is a good time for an outside write: the lease will last
// until its outcome is recorded, as far as one can tell, because it is not near
// its end and the shard's results reach Redis. Ask it, instead of Alive, before
// writes that must not happen twice: while Redis is away, or this process
// starves, they wait instead of happening unrecorded.
func (c *Claimed) Fresh() bool {
	now, lease := c.worker.process.clock(), int64(c.worker.o.Lease)
	if c.lost.Load() || c.session.over.Load() || c.session.deadline.Load()-now < lease/freshParts {
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
	look := time.NewTicker(max(min(c.worker.o.Lease/100, freshLook), time.Millisecond))
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
