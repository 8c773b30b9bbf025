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
func queues(w *world) sample {
	var sides []*side
	peer, store := filepath.Join(w.dir, "asynq"), w.redis()
	w.build("bench/asynq", peer)
	measuring := func(prefix, what string, command ...string) {
		sides = append(sides, &side{name: prefix + what, run: func(d time.Duration) sample {
			return w.figures(append(command, what, store.Addr(), d.String())...)
		}})
	}
	for _, what := range []string{"batches", "singles", "pick-up"} {
		measuring("", what, self("queue")...)
	}
	for _, what := range []string{"singles", "pick-up"} {
		measuring("asynq ", what, peer)
	}
	return w.turns(sides...)
}

// childQueue is the child process "queue". It enqueues and processes jobs. Those of "pick-up" are
// enqueued at even intervals, and each caller waits until the handler of its job has begun.
func childQueue(ctx context.Context, what, addr string, d time.Duration) sample {
	q := queue.New(got(redisdb.Open(ctx, redisdb.Options{URL: "redis://" + addr})), queue.Options{Name: "bench"})
	must(q.Init(ctx))
	var done atomic.Int64
	var waiting sync.Map // by number of the job, a chan time.Time that gets the time at which the handler began
	working, stop := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() {
		_ = q.Run(working, func(_ context.Context, batch []*queue.Claimed) {
			for _, c := range batch {
				if begun, ok := waiting.LoadAndDelete(binary.BigEndian.Uint64(c.Payload)); ok {
					begun.(chan time.Time) <- time.Now()
				}
				c.Finish(queue.Result{})
			}
			done.Add(int64(len(batch)))
		})
	})
	defer run.Wait() // all results are recorded, so that the next child finds an empty queue
	defer stop()
	// Single jobs share their round trips with those of other callers.
	one := func(job queue.Job) {
		_, _, err := q.EnqueueOnce(ctx, queue.Once{}, job)
		must(err)
	}
	return map[string]*side{
		"batches": {callers: 8, each: 100, done: done.Load, call: func(*caller, int) {
			_, err := q.Enqueue(ctx, made(100, func(int) queue.Job { return queue.Job{Payload: make([]byte, 64)} })...)
			must(err)
		}},
		"singles": {done: done.Load, call: func(*caller, int) {
			one(queue.Job{Payload: make([]byte, 64)})
		}},
		"pick-up": {rate: pace, call: func(c *caller, n int) {
			begun := make(chan time.Time, 1)
			waiting.Store(uint64(n+1), begun)
			shard := n % q.Shards()
			one(queue.Job{ID: queue.NewID(shard, time.Now()), Shard: shard, Payload: binary.BigEndian.AppendUint64(nil, uint64(n+1))})
			c.ended = moment(ctx, begun)
		}},
	}[what].load(ctx, d)
}
