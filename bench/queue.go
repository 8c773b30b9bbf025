package main

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// queues compares the queue with asynq. One process enqueues jobs that do nothing and processes
// them at the same time. asynq takes one job in each call.
func queues(w *world) (sides []side) {
	peer, store := filepath.Join(w.dir, "asynq"), w.redis()
	w.build("bench/asynq", peer)
	measuring := func(name, what string, command ...string) {
		sides = append(sides, side{name: name, run: func(_ context.Context, d time.Duration) sample {
			return w.figures(append(command, what, store.addr, d.String())...)
		}})
	}
	for _, what := range []string{"batches", "singles", "pick-up"} {
		measuring(what, what, self("queue")...)
	}
	for _, what := range []string{"singles", "pick-up"} {
		measuring("asynq "+what, what, peer)
	}
	return sides
}

// childQueue is the child process "queue". It makes one measurement.
func childQueue(ctx context.Context, what, addr string, d time.Duration) sample {
	db := got(redisdb.Open(ctx, redisdb.Options{URL: "redis://" + addr}))
	b := &queueChild{q: queue.New(db, queue.Options{Name: "bench"})}
	must(b.q.Init(ctx))
	working, stop := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() { _ = b.q.Run(working, b.handle) })
	defer run.Wait() // all results are recorded, so that the next child finds an empty queue
	defer stop()
	loads := map[string]*load{
		"batches": b.throughput(8, 100),
		"singles": b.throughput(connections, 1),
		"pick-up": {callers: connections, rate: pace, call: b.pickUp},
	}
	return loads[what].run(ctx, d)
}

// queueChild enqueues and processes jobs in one process.
type queueChild struct {
	q       *queue.Queue
	done    atomic.Int64
	waiting sync.Map // by number of the job, a chan time.Time that gets the time at which the handler began
}

// handle only tells the caller that waits for a job.
func (b *queueChild) handle(_ context.Context, batch []*queue.Claimed) {
	for _, c := range batch {
		if len(c.Payload) == 8 {
			if begun, ok := b.waiting.LoadAndDelete(binary.BigEndian.Uint64(c.Payload)); ok {
				begun.(chan time.Time) <- time.Now()
			}
		}
		c.Finish(queue.Result{})
	}
	b.done.Add(int64(len(batch)))
}

// throughput is a load of jobs, with several jobs in each call. Single jobs share their round trips
// with those of other callers.
func (b *queueChild) throughput(callers, size int) *load {
	return &load{callers: callers, done: b.done.Load, each: int64(size), ahead: outstanding,
		call: func(ctx context.Context, _ int) calls {
			return func(_ int, sent time.Time) time.Duration {
				jobs := make([]queue.Job, size)
				for i := range jobs {
					jobs[i].Payload = job
				}
				var err error
				if size == 1 {
					_, _, err = b.q.EnqueueOnce(ctx, queue.Once{}, jobs...)
				} else {
					_, err = b.q.Enqueue(ctx, jobs...)
				}
				must(err)
				return time.Since(sent)
			}
		}}
}

// job is the payload of the jobs.
var job = make([]byte, 64)

// pickUp enqueues one job at a time and waits until its handler has begun.
func (b *queueChild) pickUp(ctx context.Context, _ int) calls {
	return func(n int, sent time.Time) time.Duration {
		begun := make(chan time.Time, 1)
		b.waiting.Store(uint64(n), begun)
		shard := n % b.q.Shards()
		_, _, err := b.q.EnqueueOnce(ctx, queue.Once{}, queue.Job{
			ID: queue.NewID(shard, time.Now()), Shard: shard, Payload: binary.BigEndian.AppendUint64(nil, uint64(n)),
		})
		must(err)
		return moment(ctx, begun).Sub(sent)
	}
}
