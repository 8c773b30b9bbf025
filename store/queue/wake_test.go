package queue_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"

	"github.com/redis/go-redis/v9"
)

// blocked lists the connections that are in a blocking read and alive.
func blocked(p *storetest.Proxy) (out []*storetest.ProxyConn) {
	for _, c := range p.Conns() {
		if c.Marked.Load() && !c.Swallowed() {
			out = append(out, c)
		}
	}
	return out
}

// TestQ5_ADeadBlockingConnection swallows the blocking read that is served next. The
// lease, and so the regular look, is a minute: only the check of who enqueued can
// notice; another worker then gets the job. A busy machine is forgiven in single
// rounds.
func TestQ5_ADeadBlockingConnection(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Lease = time.Minute })
	started := make(chan time.Time, 10)
	work := queue.Each(func(context.Context, *queue.Claimed) queue.Result {
		started <- time.Now()
		return queue.Result{}
	})
	var took []time.Duration
	for range 5 {
		p, url := storetest.ProxyTo(t, server.URL())
		p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
			c.Marked.Store(bytes.Contains(bytes.ToLower(sent), []byte("block\r\n"))) // its last command blocks
			return storetest.Pass
		})
		deaf, other := w.another(), w.another()
		deaf.q = queue.New(storetest.Open(t, url), deaf.o)
		deaf.run(work)
		eventually(t, "the worker is blocked", func() bool { return len(blocked(p)) == 1 })
		stop := other.run(work)
		eventually(t, "both are blocked", func() bool { return w.blockedClients() == 2 })
		blocked(p)[0].Swallow()
		before := time.Now()
		w.mustEnqueue(queue.Job{})
		took = append(took, (<-started).Sub(before))
		w.mustBeEmpty()
		stop()
		p.Cut()
	}
	t.Logf("%v", took)
	if best := slices.Min(took); best > time.Second {
		t.Errorf("the soonest start with a dead connection was after %v", best)
	}
	if worst := slices.Max(took); worst > 30*time.Second {
		t.Errorf("a start took %v: half the time of the regular look", worst)
	}
}

// TestQ5_ADelayedJobWakesNobodyDead: what tells of the first delayed job is given to a
// dead connection. Who enqueued works on nothing; the lease, and so the regular look of
// the worker that lives, is a minute. A busy machine is forgiven in single rounds.
func TestQ5_ADelayedJobWakesNobodyDead(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	const delay = 2 * time.Second
	best := time.Hour
	for round := 0; round < 3 && best > time.Second; round++ {
		w := setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Lease = time.Minute })
		p, url := storetest.ProxyTo(t, server.URL())
		p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
			c.Marked.Store(bytes.Contains(bytes.ToLower(sent), []byte("block\r\n"))) // its last command blocks
			return storetest.Pass
		})
		late := make(chan time.Duration, 2)
		work := queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			late <- c.Now.Sub(c.EnqueuedAt) - delay
			return queue.Result{}
		})
		deaf, other := w.another(), w.another()
		deaf.q = queue.New(storetest.Open(t, url), deaf.o)
		var looks atomic.Int64 // a look that came after the enqueueing would see it
		for _, q := range []*queue.Queue{deaf.q, other.q} {
			q.SetFault(t, func(step string, answered bool) error {
				if answered && step == "maintain" {
					looks.Add(1)
				}
				return nil
			})
		}
		deaf.run(work)
		eventually(t, "the worker is blocked", func() bool { return len(blocked(p)) == 1 })
		stop := other.run(work)
		eventually(t, "both are blocked and have looked", func() bool { return w.blockedClients() == 2 && looks.Load() >= 2 })
		blocked(p)[0].Swallow()
		w.mustEnqueue(queue.Job{Delay: delay})
		select {
		case d := <-late:
			best = min(best, d)
		case <-time.After(20 * time.Second):
		}
		stop()
		p.Cut()
	}
	if t.Logf("%v late", best); best > time.Second {
		t.Errorf("a delayed job started %v late", best)
	}
}

// TestQ12_StopsBesideADeadBlockingConnection: a blocking read that never
// comes back does not keep a process from draining and leaving.
func TestQ12_StopsBesideADeadBlockingConnection(t *testing.T) {
	t.Parallel()
	p, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	p.OnSent(func(c *storetest.ProxyConn, sent []byte) storetest.Fate {
		c.Marked.Store(bytes.Contains(bytes.ToLower(sent), []byte("block\r\n"))) // its last command blocks
		return storetest.Pass
	})
	w := setup(t, storetest.Open(t, url), func(o *queue.Options) { o.Lease = time.Minute })
	running := make(chan bool, 1)
	stop := w.run(queue.Each(func(ctx context.Context, c *queue.Claimed) queue.Result {
		running <- true
		<-ctx.Done()
		return queue.Result{Outcome: queue.Release}
	}))
	w.mustEnqueue(queue.Job{})
	<-running
	eventually(t, "the worker is blocked", func() bool { return len(blocked(p)) == 1 })
	blocked(p)[0].Swallow()
	stopped := make(chan bool)
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(20 * time.Second):
		t.Fatal("it does not stop")
	}
	other := make(chan bool, 1)
	w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { other <- true; return queue.Result{} }))
	select {
	case <-other: // it was handed back: no lease of a minute had to end
	case <-time.After(20 * time.Second):
		t.Fatal("what ran was not handed back")
	}
	w.mustBeEmpty()
}

// blockedClients counts the blocking reads that Redis knows of.
func (w *world) blockedClients() (n int) {
	v, err := w.db.Client().InfoMap(w.t.Context(), "clients").Result()
	if err != nil {
		w.t.Fatal(err)
	}
	fmt.Sscan(v["Clients"]["blocked_clients"], &n)
	return n
}

// deadRead is the blocking read of a process that was stopped: it takes one entry of
// shard 0 to nowhere.
func (w *world) deadRead() {
	w.t.Helper()
	before := w.blockedClients()
	conn, ctx := w.db.Client().(*redis.Client).Conn(), context.Background()
	id, err := conn.ClientID(ctx).Result()
	storetest.Must(w.t, err)
	prefix, ended := w.prefix(0), make(chan bool)
	go func() {
		defer close(ended)
		conn.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "reader",
			Streams: []string{prefix + "ready", prefix + "main", ">", ">"}, Count: 1, Block: time.Minute})
	}()
	w.t.Cleanup(func() {
		w.db.Client().ClientUnblock(ctx, id)
		<-ended
		_ = conn.Close()
	})
	eventually(w.t, "the dead read waits", func() bool { return w.blockedClients() == before+1 })
}

// count counts the steps of one kind that a process takes.
func (w *world) count(kind string) *atomic.Int64 {
	var n atomic.Int64
	w.q.SetFault(w.t, func(step string, answered bool) error {
		if answered && step == kind {
			n.Add(1)
		}
		return nil
	})
	return &n
}

// mustStartSoon runs rounds, each of which says how long a job took to start: a second at
// most. The lease, and so the regular look, is an hour. A busy machine is forgiven in
// single rounds.
func mustStartSoon(t *testing.T, round func(w *world) time.Duration) {
	t.Helper()
	server := storetest.Redis(t)
	best := time.Hour
	for n := 0; n < 3 && best > time.Second; n++ {
		best = min(best, round(setup(t, storetest.Open(t, server.URL()), func(o *queue.Options) { o.Lease = time.Hour })))
	}
	if t.Logf("started after %v", best); best > time.Second {
		t.Errorf("the soonest start was after %v", best)
	}
}

// startedAfter waits for a job's start.
func startedAfter(limit time.Duration, started <-chan time.Time, since time.Time) time.Duration {
	select {
	case at := <-started:
		return at.Sub(since)
	case <-time.After(limit):
		return limit
	}
}

// TestQ4_TheNextOfAKeyIsNotLeftToTheDead: a job of a key ends, or is given back, and what
// may run then is given to the read of a process that was stopped.
func TestQ4_TheNextOfAKeyIsNotLeftToTheDead(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]queue.Result{"Done": {}, "Retry": {Outcome: queue.Retry, Delay: time.Hour}, "Release": {Outcome: queue.Release}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustStartSoon(t, func(w *world) time.Duration {
				started, hold := make(chan time.Time, 3), make(chan queue.Result, 3)
				one := w.another(func(o *queue.Options) { o.InFlight = 1 }) // it does not read while it works
				looks, checks := one.count("maintain"), w.count("check")
				defer one.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
					started <- time.Now()
					return <-hold
				}))()
				defer close(hold)
				w.mustEnqueue(queue.Job{Key: "k"}, queue.Job{Key: "k"})
				<-started
				eventually(w.t, "the worker does not read", func() bool { return w.blockedClients() == 0 && looks.Load() > 0 })
				eventually(w.t, "who enqueued is content", func() bool { return checks.Load() > 0 })
				w.deadRead()
				before := time.Now()
				hold <- first
				return startedAfter(10*time.Second, started, before)
			})
		})
	}
}

// TestQ5_WhatIsBroughtBackIsNotLeftToTheDead: a dead letter that is tried again, and what
// was parked, are given to the read of a process that was stopped.
func TestQ5_WhatIsBroughtBackIsNotLeftToTheDead(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]queue.Outcome{"DeadLetter": queue.Dead, "Parked": queue.Park} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustStartSoon(t, func(w *world) time.Duration {
				checks := w.count("check")
				id := w.mustEnqueue(queue.Job{})[0]
				stop := w.another().run(queue.Each(func(context.Context, *queue.Claimed) queue.Result {
					return queue.Result{Outcome: outcome, Parked: "app"}
				}))
				eventually(t, "it is put aside", func() bool { s := w.mustState(0); return len(s.Dead)+len(s.Parked) == 1 })
				stop()
				eventually(w.t, "who enqueued is content", func() bool { return checks.Load() > 0 })
				w.deadRead()
				started, worker := make(chan time.Time, 1), w.another()
				looks := worker.count("maintain")
				defer worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { started <- time.Now(); return queue.Result{} }))()
				eventually(t, "both read", func() bool { return w.blockedClients() == 2 && looks.Load() > 0 })
				before := time.Now()
				if _, _, err := w.q.RetryDead(t.Context(), w.q.DeadID(0, id), queue.Once{}); outcome == queue.Dead && err != nil {
					t.Fatal(err)
				}
				if n, err := w.q.Unpark(t.Context(), 0, "app", 1); outcome == queue.Park && (n != 1 || err != nil) {
					t.Fatal(n, err)
				}
				return startedAfter(10*time.Second, started, before)
			})
		})
	}
}

// TestQ5_ALostWakeUpIsNoLostStart: a process is told that a delayed job came, and the
// answer to the call with which it says so is lost. The lease, and so the regular look, is
// an hour.
func TestQ5_ALostWakeUpIsNoLostStart(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db, func(o *queue.Options) { o.Lease = time.Hour })
		worker := w.another()
		var armed atomic.Bool
		var looks atomic.Int64
		worker.q.SetFault(t, func(step string, answered bool) error {
			switch {
			case step == "maintain" && answered:
				looks.Add(1)
			case step == "claim" && answered && armed.CompareAndSwap(true, false):
				return storetest.ErrLost
			}
			return nil
		})
		ran := make(chan bool, 1)
		worker.run(queue.Each(func(context.Context, *queue.Claimed) queue.Result { ran <- true; return queue.Result{} }))
		eventually(t, "the worker has looked", func() bool { return looks.Load() > 0 })
		armed.Store(true)
		w.mustEnqueue(queue.Job{Delay: 100 * time.Millisecond})
		select {
		case <-ran:
		case <-time.After(30 * time.Second):
			t.Errorf("the job did not start; answer lost: %t", !armed.Load())
		}
	})
}
