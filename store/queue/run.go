package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// These types are described in the package shard: in job.go and, Claimed, in claimed.go.
type (
	// Job is one piece of work.
	Job = shard.Job
	// Enqueued is the answer for one job.
	Enqueued = shard.Enqueued
	// Once makes an enqueueing idempotent over many calls.
	Once = shard.Once
	// Claimed is a job that this process may work on until its lease ends.
	Claimed = shard.Claimed
	// Result is what a handler says about a job.
	Result = shard.Result
	// Fact is one thing that happened.
	Fact = shard.Fact
	// Outcome is how a claimed job goes on.
	Outcome = shard.Outcome
	// ParkedName says that jobs are parked under a name in a shard.
	ParkedName = shard.ParkedName
)

// The outcomes, described in its job.go as well.
const (
	Done     = shard.Done
	Retry    = shard.Retry
	Defer    = shard.Defer
	Dead     = shard.Dead
	Continue = shard.Continue
	Park     = shard.Park
	Release  = shard.Release
)

// Handler works on claimed jobs. It must call Finish on each, now or later and
// from any goroutine; the queue bounds the unfinished ones by InFlight and
// renews their leases. ctx ends when Run is stopped and its Drain is over.
type Handler func(ctx context.Context, batch []*Claimed)

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

// Run claims jobs of the shards it serves and hands them to h until ctx ends.
// Then nothing new starts; Run waits Drain for unfinished jobs, ends their
// contexts, hands back what is still unfinished, uncounted, and returns. It
// survives any absence of Redis. Run it once per Queue and process.
func (q *Queue) Run(ctx context.Context, h Handler) error {
	writes := context.WithoutCancel(ctx)
	jobs, stopJobs := context.WithCancel(writes)
	defer stopJobs()
	background, stopBackground := context.WithCancel(writes)
	defer stopBackground()
	p := shard.NewProcess(jobs, writes, q.o.InFlight, shard.Callbacks{Room: q.o.Room, Handle: h})
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

// Unrecorded is how many marks, and results of jobs that are done, this process has that Redis has not
// stored yet: what they stand for happens again if the process dies now.
func (q *Queue) Unrecorded() int { return int(q.common.Unrecorded.Load()) }

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

// Marks reads the marks that earlier owners left of jobs, in one round trip: a map for
// each job.
func (q *Queue) Marks(ctx context.Context, jobs ...*Claimed) ([]map[string]string, error) {
	cmds := make([]redis.Cmder, len(jobs))
	for i, c := range jobs {
		cmds[i] = redis.NewMapStringStringCmd(ctx, "hgetall", q.shards[c.Shard].MarksKey(c.ID))
	}
	if err := q.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, err
	}
	out := make([]map[string]string, len(jobs))
	for i, c := range jobs {
		var err error
		if out[i], err = cmds[i].(*redis.MapStringStringCmd).Result(); err != nil {
			return nil, fmt.Errorf("read the marks of job %s: %w", c.ID, err)
		}
		if len(out[i]) > 0 {
			c.NoteMarks()
		}
	}
	return out, nil
}

// Attachment reads one item of a claimed job's attachment.
func (q *Queue) Attachment(ctx context.Context, c *Claimed, index int) (string, error) {
	cmd := redis.NewStringCmd(ctx, "lindex", q.shards[c.Shard].AttachKey(c.ID), index)
	value, err := redisdb.Value(ctx, q.db, redisdb.Read, cmd)
	if err != nil {
		return "", fmt.Errorf("read attachment %d of job %s: %w", index, c.ID, err)
	}
	return value, nil
}
