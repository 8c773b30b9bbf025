package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
)

// benchQueue compares the queue with asynq: jobs that do nothing, enqueued and
// worked on by one process at once. asynq takes one job a call.
func benchQueue(ctx context.Context, w *world) (found, error) {
	peer := w.binary("asynq")
	if err := w.build("bench/asynq", peer); err != nil {
		return found{}, err
	}
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	var sides []side
	for _, what := range []string{"batches", "singles", "pick-up"} {
		sides = append(sides, side{"ours " + what, func(ctx context.Context, d time.Duration) (sample, error) {
			name, args, err := w.self("queue", what, store.addr, d.String())
			if err != nil {
				return nil, err
			}
			return w.figures(ctx, name, args...)
		}})
	}
	for _, what := range []string{"singles", "pick-up"} {
		sides = append(sides, side{"asynq " + what, func(ctx context.Context, d time.Duration) (sample, error) {
			return w.figures(ctx, peer, what, store.addr, d.String())
		}})
	}
	m, err := w.turns(ctx, sides...)
	const peerName = "asynq v0.26"
	theirs, late := m.of("asynq singles", "rate"), m.of("asynq pick-up", "p50")
	return found{rows: []row{
		{"queue, no-op jobs, enqueue (100 a call) and process", m.of("ours batches", "rate"), "/s", theirs, peerName, atLeast(8)},
		{"the same, one job a call, 64 callers", m.of("ours singles", "rate"), "/s", theirs, peerName, goal{}},
		{"queue, enqueue to handler at 200/s, p50", m.of("ours pick-up", "p50"), "ms", late, peerName, valueAtMost(.3)},
	}}, err
}

// childQueue is the child "queue": it measures one thing and prints it.
func childQueue(ctx context.Context, what, addr, duration string) error {
	d, err := time.ParseDuration(duration)
	if err != nil {
		return err
	}
	db, err := redisdb.Open(ctx, redisdb.Options{URL: "redis://" + addr})
	if err != nil {
		return err
	}
	q := queue.New(db, queue.Options{Name: "bench"})
	if err := q.Init(ctx); err != nil {
		return err
	}
	b := &queueChild{q: q, waiting: map[uint64]chan time.Time{}}
	working, stop := context.WithCancel(ctx)
	var run sync.WaitGroup
	run.Go(func() { _ = q.Run(working, b.handle) })
	got, err := b.measure(ctx, what, d)
	stop()
	run.Wait() // every result is recorded: the next child finds an empty queue
	if err != nil {
		return err
	}
	return report(got)
}

func (b *queueChild) measure(ctx context.Context, what string, d time.Duration) (sample, error) {
	switch what {
	case "batches":
		return b.throughput(ctx, d, 8, 100)
	case "singles":
		return b.throughput(ctx, d, connections, 1)
	case "pick-up":
		return paced(ctx, d, func(n int) (time.Duration, error) { return b.pickUp(ctx, n) })
	}
	return nil, fmt.Errorf("nobody measures %s", what)
}

// queueChild enqueues and works in the same process.
type queueChild struct {
	q    *queue.Queue
	done atomic.Int64

	mu      sync.Mutex
	waiting map[uint64]chan time.Time // by number of the job
}

// handle does nothing with a job but to tell who waits for it.
func (b *queueChild) handle(_ context.Context, batch []*queue.Claimed) {
	for _, c := range batch {
		if len(c.Payload) == 8 {
			b.mu.Lock()
			b.waiting[binary.BigEndian.Uint64(c.Payload)] <- time.Now()
			b.mu.Unlock()
		}
		c.Finish(queue.Result{})
	}
	b.done.Add(int64(len(batch)))
}

// throughput enqueues from some goroutines for a while, size jobs a call, never
// too far ahead, and waits until all jobs are done.
func (b *queueChild) throughput(ctx context.Context, d time.Duration, goroutines, size int) (sample, error) {
	var all sync.WaitGroup
	var enqueued atomic.Int64
	fails := make([]error, goroutines)
	began := time.Now()
	for g := range goroutines {
		all.Go(func() {
			for time.Since(began) < d && fails[g] == nil {
				if enqueued.Load()-b.done.Load() >= outstanding {
					time.Sleep(time.Millisecond)
					continue
				}
				enqueued.Add(int64(size))
				fails[g] = b.enqueue(ctx, size)
			}
		})
	}
	all.Wait()
	if err := errors.Join(fails...); err != nil {
		return nil, err
	}
	err := eventually(ctx, time.Minute, "all jobs", func() (bool, error) { return b.done.Load() >= enqueued.Load(), nil })
	return sample{"rate": float64(enqueued.Load()) / time.Since(began).Seconds()}, err
}

// job is what the jobs carry.
var job = make([]byte, 64)

// enqueue adds jobs: several in one pipeline; a single one the way that shares
// its round trip with other callers'.
func (b *queueChild) enqueue(ctx context.Context, size int) error {
	jobs := make([]queue.Job, size)
	for i := range jobs {
		jobs[i].Payload = job
	}
	if size == 1 {
		_, _, err := b.q.EnqueueOnce(ctx, queue.Once{}, jobs...)
		return err
	}
	_, err := b.q.Enqueue(ctx, jobs...)
	return err
}

// pickUp enqueues the n-th job and waits until its handler began.
func (b *queueChild) pickUp(ctx context.Context, n int) (time.Duration, error) {
	begun := make(chan time.Time, 1)
	b.mu.Lock()
	b.waiting[uint64(n)] = begun
	b.mu.Unlock()
	began := time.Now()
	_, _, err := b.q.EnqueueOnce(ctx, queue.Once{}, queue.Job{ID: queue.NewID(n%b.q.Shards(), began), Shard: n % b.q.Shards(), Payload: binary.BigEndian.AppendUint64(nil, uint64(n))})
	if err != nil {
		return 0, err
	}
	select {
	case at := <-begun:
		return at.Sub(began), nil
	case <-time.After(10 * time.Second):
		return 0, errors.New("a job was not picked up within 10 s")
	}
}
