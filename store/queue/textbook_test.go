package queue_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// engine is a queue as the checks below see it: the textbook's and ours.
type engine interface {
	enqueue(kind string)
	// start starts a worker. handle says whether it knows a kind; an unknown
	// one is the engine's to deal with. stop stops it, kill kills it.
	start(handle func(kind string)) (stop, kill func())
	// attempts is how often the engine has taken a job of any kind so far.
	attempts() int64
}

// textbookQueue is the way of textbooks: a LIST with the jobs, pub/sub to wake the
// workers, LPOP to take a job, and what nobody handles goes back to the end.
type textbookQueue struct {
	c    redis.UniversalClient
	key  string
	pops atomic.Int64
}

func (s *textbookQueue) attempts() int64 { return s.pops.Load() }

func (s *textbookQueue) enqueue(kind string) {
	ctx := context.Background()
	s.c.RPush(ctx, s.key, kind)
	s.c.Publish(ctx, s.key, "new")
}

func (s *textbookQueue) start(handle func(kind string)) (stop, kill func()) {
	ctx := context.Background()
	sub := s.c.Subscribe(ctx, s.key)
	_, _ = sub.Receive(ctx)
	killed, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-killed:
				return
			case <-sub.Channel():
			}
			for {
				kind, err := s.c.LPop(ctx, s.key).Result()
				if err != nil {
					break
				}
				s.pops.Add(1)
				if kind == "unknown" {
					s.c.RPush(ctx, s.key, kind) // perhaps another worker has its handler
					select {
					case <-killed:
						return
					default:
						continue
					}
				}
				handle(kind)
			}
		}
	}()
	kill = sync.OnceFunc(func() { close(killed); _ = sub.Close() })
	return func() {}, kill // the textbook's stop sets a flag that its loop reads only after the next message
}

// ourQueue is this package behind the same face.
type ourQueue struct {
	w    *world
	took atomic.Int64
}

func (o *ourQueue) attempts() int64 { return o.took.Load() }

func (o *ourQueue) enqueue(kind string) { o.w.mustEnqueue(queue.Job{Type: kind}) }

func (o *ourQueue) start(handle func(kind string)) (stop, kill func()) {
	known := func(_ context.Context, c *queue.Claimed) queue.Result { handle(c.Type); return queue.Result{} }
	h := queue.ByType(map[string]func(context.Context, *queue.Claimed) queue.Result{"job": known, "crash": known})
	counting := func(ctx context.Context, batch []*queue.Claimed) { o.took.Add(int64(len(batch))); h(ctx, batch) }
	one := o.w.another()
	var dead atomic.Bool
	one.q.SetFault(o.w.t, func(string, bool) error {
		if dead.Load() {
			return storetest.ErrLost
		}
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool)
	go func() { defer close(done); _ = one.q.Run(ctx, counting) }()
	o.w.t.Cleanup(cancel)
	return func() { cancel(); <-done }, func() { dead.Store(true); cancel() }
}

// within reports whether cond comes true soon enough for a queue of good faith.
func within(d time.Duration, cond func() bool) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) { //nolint:forbidigo // the pace of a poll
		if cond() {
			return true
		}
	}
	return cond()
}

// textbookFaults are the checks; each returns what went wrong.
var textbookFaults = map[string]func(e engine) string{
	"LostWakeUp": func(e engine) string {
		var ran atomic.Int64
		e.enqueue("job") // its message finds nobody
		_, kill := e.start(func(string) { ran.Add(1) })
		defer kill()
		if !within(2*time.Second, func() bool { return ran.Load() == 1 }) {
			return "a job that came before the worker was never run"
		}
		return ""
	},
	"JobLostInACrash": func(e engine) string {
		var ran atomic.Int64
		taken := make(chan bool, 1)
		over := make(chan bool)
		defer close(over)
		_, kill := e.start(func(string) { taken <- true; <-over })
		e.enqueue("crash")
		<-taken
		kill()
		_, killOther := e.start(func(string) { ran.Add(1) })
		defer killOther()
		e.enqueue("job")
		if !within(3*time.Second, func() bool { return ran.Load() == 2 }) {
			return "the job of a crashed worker was never run again"
		}
		return ""
	},
	"BusyLoopWithoutHandler": func(e engine) string {
		_, kill := e.start(func(string) {})
		defer kill()
		e.enqueue("unknown")
		within(300*time.Millisecond, func() bool { return e.attempts() > 20 })
		if n := e.attempts(); n > 20 {
			return "a job without a handler was taken again and again"
		}
		return ""
	},
	"StopThatDoesNotStop": func(e engine) string {
		var ran atomic.Int64
		stop, kill := e.start(func(string) { ran.Add(1) })
		defer kill()
		e.enqueue("job")
		within(2*time.Second, func() bool { return ran.Load() == 1 })
		stop()
		e.enqueue("job")
		if within(300*time.Millisecond, func() bool { return ran.Load() > 1 }) {
			return "a job started after the stop"
		}
		return ""
	},
}

// TestFaultsOfTheTextbook shows that each check finds its fault in the textbook's
// algorithm, and none here.
func TestFaultsOfTheTextbook(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	for name, check := range textbookFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t, server.URL())
			textbook := &textbookQueue{c: db.Client().(redis.UniversalClient), key: "textbook:" + strings.ToLower(name)}
			if check(textbook) == "" {
				t.Error("the check does not find the fault in the textbook's way")
			}
			if fault := check(&ourQueue{w: setupQuiet(t, db)}); fault != "" {
				t.Error(fault)
			}
		})
	}
}

// setupQuiet is setup for processes that may outlive the test.
func setupQuiet(t *testing.T, db *redisdb.DB) *world {
	return setup(t, db, func(o *queue.Options) { o.Logger = nil })
}
