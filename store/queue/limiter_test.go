package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/redisdb"
)

// told is a shard of a worker without Redis, which counts how often its sender looked
// for work.
type told struct {
	*worker
	looked atomic.Int64
}

// mustShards makes shards of one worker with one place. What their lanes would send is
// dropped.
func mustShards(t *testing.T, n int) (*limiter, []*told) {
	q := New(&redisdb.DB{}, Options{Name: "t", Shards: n})
	p := &process{limiter: newLimiter(1, endless), started: time.Now(), jobs: t.Context(), writes: t.Context()}
	shards := make([]*told, n)
	for i := range shards {
		s := &told{worker: newWorker(p, q.shards[i])}
		s.session = &session{worker: s.worker, name: "l-1"}
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
			g.alone(context.Background(), time.Minute)
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
			g.ask(shards[0].worker)
			rest(shards)
			if n := shards[0].looked.Load(); n != 1 || !g.unasked() {
				t.Errorf("told %d times", n)
			}
		})
	}
}

// TestQ5_WhoTakesNoPlacePassesOn: a shard is told of a place that it needs no more, or may
// not use. The next in turn is told then, and nobody for ever.
func TestQ5_WhoTakesNoPlacePassesOn(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(s *worker){
		"NothingToClaim": func(*worker) {},
		"WithoutALife":   func(s *worker) { s.session, s.claims.wantsMore = nil, true },
		"Stopped":        func(s *worker) { s.stopped, s.claims.wantsMore = true, true },
		"Troubled":       func(s *worker) { s.results.failing, s.claims.wantsMore = true, true },
		"OneAlone":       func(s *worker) { s.claims.alone = &aloneClaim{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, shards := mustShards(t, 3)
			g.take(1)
			for _, s := range shards {
				g.ask(s.worker)
			}
			set(shards[0].worker)
			set(shards[1].worker)
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
