package shard_test

import (
	"context"
	"math"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// world is a queue of one shard on one Redis, under a name of its own, as callers see it.
// The tests are other processes that take their steps by hand.
type world struct {
	t  testing.TB
	db *redisdb.DB
	q  *queue.Queue
	o  queue.Options
}

// setup makes a queue of one shard with a long lease.
func setup(t testing.TB, db *redisdb.DB, change ...func(*queue.Options)) *world {
	t.Helper()
	o := queuetest.Options(t)
	o.Lease = time.Hour
	for _, f := range change {
		f(&o)
	}
	w := &world{t: t, db: db, o: o, q: queue.New(db, o)}
	storetest.Must(t, w.q.Init(t.Context()))
	return w
}

// common is what another process has of the queue.
func (w *world) common(db *redisdb.DB) *shard.Common {
	return shard.New(db, shard.Options{Name: w.o.Name, Shards: 1, Lease: w.o.Lease, MaxAttempts: max(w.o.MaxAttempts, 1), Batch: 100, MaxAge: time.Hour,
		Retention: time.Hour, GroupRetention: time.Hour, ReportRetention: time.Hour, RetryBase: w.o.RetryBase, RetryMax: w.o.RetryMax,
		MaxDead: 1000, DeadRetention: time.Hour, OnEmptied: func() {}, Logger: w.o.Logger})
}

// mustStep makes a process whose every step is taken by hand.
func (w *world) mustStep() *shard.Stepper {
	w.t.Helper()
	return mustStepper(w.t, w.common(w.db))
}

func mustStepper(t interface{ Fatal(...any) }, c *shard.Common) *shard.Stepper {
	p, err := shard.NewStepper(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustClaim claims exactly n jobs.
func mustClaim(t testing.TB, p *shard.Stepper, n int) []*queue.Claimed {
	t.Helper()
	batch, err := p.Claim(n)
	if err != nil || len(batch) != n {
		t.Fatalf("claimed %d of %d jobs, %v", len(batch), n, err)
	}
	return batch
}

func (w *world) mustEnqueue(jobs ...queue.Job) []string {
	w.t.Helper()
	return queuetest.MustEnqueue(w.t, w.q, jobs...)
}

// prefix of the keys of the shard.
func (w *world) prefix() string { return shard.Prefix(w.o.Name, 0, 1) }

// mustState reads the shard.
func (w *world) mustState() *queuetest.State {
	w.t.Helper()
	return queuetest.MustState(w.t, w.db, w.o.Name, w.prefix())
}

// mustBeConsistent checks the shard, in which nothing changes.
func (w *world) mustBeConsistent() {
	w.t.Helper()
	for _, problem := range w.mustState().Problems() {
		w.t.Error(problem)
	}
}

// attend has a worker claim jobs until the test ends.
func (w *world) attend(worker *shard.Worker) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); worker.Attend(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done; worker.Stop(); worker.Leave() })
}

// endless is the room of a handler that has always use for more.
func endless() int { return math.MaxInt }

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
