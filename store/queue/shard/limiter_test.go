package shard

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/redisdb"
)

// told is a shard of a worker without Redis, which counts how often its sender looked
// for work.
type told struct {
	*Worker
	looked atomic.Int64
}

// mustShards makes shards of one worker with one place. What their lanes would send is
// dropped.
func mustShards(t *testing.T, n int) (*limiter, []*told) {
	c := New(&redisdb.DB{}, Options{Name: "t", Shards: n, Batch: 100})
	p := NewProcess(t.Context(), t.Context(), 1, Callbacks{Room: endless})
	shards := make([]*told, n)
	for i := range shards {
		s := &told{Worker: NewWorker(p, c.Shard(i))}
		s.session = &session{worker: s.Worker, name: "l-1"}
		s.sender.next = func() *call {
			s.looked.Add(1)
			s.nextCall()
			return nil
		}
		shards[i] = s
	}
	return p.limiter, shards
}

// rest waits until the lanes have stopped, which wake each other.
func rest(shards []*told) {
	for range shards {
		for _, s := range shards {
			s.sender.await()
		}
	}
}

// TestQ5_APlaceThatCameFreeBeforeTheQuestion: a shard finds no place, the last one comes
// free, and only then it asks: nothing will come free any more that could tell it.
func TestQ5_APlaceThatCameFreeBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	ways := map[string]func(g *limiter) (free func()){
		"Release": func(g *limiter) func() {
			g.take(1)
			return func() { g.release(1) }
		},
		"Together": func(g *limiter) func() {
			g.isolate(context.Background(), isolation{1, time.Minute})
			g.release(1)
			return g.together
		},
	}
	for name, occupy := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, shards := mustShards(t, 1)
			free := occupy(g)
			if g.take(1) != 0 {
				t.Fatal("there was a place")
			}
			free()
			g.ask(shards[0].Worker)
			rest(shards)
			if n := shards[0].looked.Load(); n != 1 || !g.noWaiters() {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// TestQ5_AskingBesideAJobThatRunsAlone: while a job runs alone, a shard asks for a place. It is told
// when the job ends.
func TestQ5_AskingBesideAJobThatRunsAlone(t *testing.T) {
	t.Parallel()
	g, shards := mustShards(t, 3)
	g.isolate(t.Context(), isolation{1, time.Minute})
	for _, s := range shards {
		g.ask(s.Worker)
	}
	rest(shards)
	g.release(1)
	g.together()
	rest(shards)
	for i, s := range shards {
		if n := s.looked.Load(); n == 0 {
			t.Errorf("shard %d was not told", i)
		}
	}
}

// TestQ11_AJobThatRunsAloneWaits: it begins when all others have ended, and none begins beside it.
func TestQ11_AJobThatRunsAloneWaits(t *testing.T) {
	t.Parallel()
	g := newLimiter(2, endless)
	g.take(1)
	begun := make(chan bool)
	go func() { defer close(begun); g.isolate(context.Background(), isolation{1, time.Hour}) }()
	for quiet := false; !quiet; { // until it waits
		g.mu.Lock()
		quiet = g.quiet
		g.mu.Unlock()
		runtime.Gosched()
	}
	select {
	case <-begun:
		t.Error("it began beside another")
	case <-time.After(100 * time.Millisecond):
	}
	g.release(1)
	<-begun
	if g.take(1) != 0 {
		t.Error("another began beside it")
	}
}

// TestQ5_WhoTakesNoPlacePassesOn: a shard is told of a place that it needs no more, or may
// not use. The next in turn is told then, and nobody for ever.
func TestQ5_WhoTakesNoPlacePassesOn(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(s *Worker){
		"NothingToClaim": func(*Worker) {},
		"WithoutALife":   func(s *Worker) { s.session, s.claims.wantsMore = nil, true },
		"Stopped":        func(s *Worker) { s.Stop(); s.claims.wantsMore = true },
		"Troubled":       func(s *Worker) { s.results.failing, s.claims.wantsMore = true, true },
		"OneAlone":       func(s *Worker) { s.claims.isolated = &isolatedClaim{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, shards := mustShards(t, 3)
			g.take(1)
			for _, s := range shards {
				g.ask(s.Worker)
			}
			set(shards[0].Worker)
			set(shards[1].Worker)
			shards[2].claims.wantsMore = true
			g.release(1)
			rest(shards)
			for i, s := range shards {
				if n := s.looked.Load(); n != 1 {
					t.Errorf("shard %d was told %d times", i, n)
				}
			}
			if g.take(1) != 0 {
				t.Error("nobody took the place")
			}
		})
	}
}
