package queue_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// world is one queue on one Redis, under a name of its own.
type world struct {
	t  testing.TB
	db *redisdb.DB
	q  *queue.Queue
	o  queue.Options
}

// setup makes a queue of one shard with short times.
func setup(t testing.TB, db *redisdb.DB, change ...func(*queue.Options)) *world {
	t.Helper()
	o := queuetest.Options(t)
	for _, f := range change {
		f(&o)
	}
	w := &world{t: t, db: db, o: o, q: queue.New(db, o)}
	if err := w.q.Init(t.Context()); err != nil {
		t.Fatalf("init: %v", err)
	}
	return w
}

// another is a second process on the same queue.
func (w *world) another(change ...func(*queue.Options)) *world {
	o := w.o
	o.Serve = nil
	for _, f := range change {
		f(&o)
	}
	return &world{t: w.t, db: w.db, o: o, q: queue.New(w.db, o)}
}

// mustEnqueue stores jobs and returns their ids.
func (w *world) mustEnqueue(jobs ...queue.Job) []string {
	w.t.Helper()
	return queuetest.MustEnqueue(w.t, w.q, jobs...)
}

// run starts a worker; the function returned stops it and waits for its end.
// It is stopped at the end of the test in any case.
func (w *world) run(h queue.Handler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.q.Run(ctx, h); err != nil {
			w.t.Errorf("run: %v", err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	w.t.Cleanup(stop)
	return stop
}

// seen collects what handlers did, in order.
type seen struct {
	mu    sync.Mutex
	items []string
}

func (s *seen) add(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item)
}

func (s *seen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.items...)
}

func (s *seen) len() int { return len(s.all()) }

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	storetest.Eventually(t, 3*time.Minute, what, cond)
}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// runUntilKilled is run, but what it returns is kill -9: from then on nothing
// of this process reaches Redis. What its handlers still do is for nobody.
func (w *world) runUntilKilled(h queue.Handler) (kill func()) {
	var dead atomic.Bool
	o := w.o
	o.Logger, o.Serve = nil, nil // it may outlive the test
	w.q = queue.New(w.db, o)
	w.q.SetFault(w.t, func(string, bool) error {
		if dead.Load() {
			return storetest.ErrLost
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	killed.Go(func() { _ = w.q.Run(ctx, h) })
	kill = func() { dead.Store(true); cancel() }
	w.t.Cleanup(kill)
	return kill
}
