package erasure_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/erasure"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
)

// world is one process that erases users.
type world struct {
	*erasure.Store
	t     testing.TB
	db    *redisdb.DB
	rec   *record.DB
	jobs  *queue.Queue
	steps *steps
}

// steps records the calls of steps.
type steps struct {
	mu    sync.Mutex
	calls []string
	found func(name string, pass int) (erasure.Found, error)
}

func (s *steps) step(name string) erasure.Step {
	return erasure.Step{Name: name, Run: func(_ context.Context, o *record.Operation) (erasure.Found, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, name+" "+o.Subject)
		pass := 0
		for _, call := range s.calls {
			if call == name+" "+o.Subject {
				pass++
			}
		}
		return s.found(name, pass)
	}}
}

func (s *steps) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func setup(t testing.TB, found func(name string, pass int) (erasure.Found, error)) *world {
	t.Helper()
	w := &world{t: t, db: storetest.Open(t, storetest.Redis(t).URL()), rec: storetest.Record(t, storetest.SQLite(t)), steps: &steps{found: found}}
	storetest.Must(t, w.rec.Migrate(t.Context()))
	w.jobs = queue.New(w.db, queue.Options{Name: "jobs", Shards: 1, MaxAge: -1, Lease: 2 * time.Second, RetryMax: 100 * time.Millisecond})
	storetest.Must(t, w.jobs.Init(t.Context()))
	tokens, err := usertokens.New(w.rec, w.db, usertokens.Options{})
	storetest.Must(t, err)
	w.Store = erasure.New(erasure.Options{
		Record: w.rec, Redis: w.db, Jobs: w.jobs, Begin: tokens.Erase, Steps: []erasure.Step{w.steps.step("one"), w.steps.step("two")},
	})
	return w
}

// work runs jobs and relay until the test ends.
func (w *world) work() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	relay := w.rec.NewRelay(record.RelayOptions{Every: 50 * time.Millisecond, Age: 100 * time.Millisecond}, w.Outbox())
	wg.Go(func() { _ = w.jobs.Run(ctx, queue.ByType(w.Handlers())) })
	wg.Go(func() { _ = relay.Run(ctx) })
	w.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (w *world) mustErase(user string) string {
	w.t.Helper()
	id, err := w.Erase(w.t.Context(), user)
	storetest.Must(w.t, err)
	return id
}

func (w *world) operation(id string) *api.Operation {
	w.t.Helper()
	o, err := w.rec.Operation(w.t.Context(), id)
	storetest.Must(w.t, err)
	return o
}

func (w *world) mustEnd(id string) *api.Operation {
	w.t.Helper()
	storetest.Eventually(w.t, time.Minute, "the operation is done", func() bool { return w.operation(id).State == api.OperationDone })
	return w.operation(id)
}

// E7: the operation is done only after a pass that found nothing. Before, it goes on however often
// steps fail, are busy, or find something. All calls that come meanwhile get its id.
func TestE7_DoneOnlyWhenNothingIsFound(t *testing.T) {
	t.Parallel()
	w := setup(t, func(name string, pass int) (erasure.Found, error) {
		switch {
		case name == "one" && pass == 1:
			return erasure.Found{Removed: map[string]int64{"things": 2}}, errors.New("away")
		case name == "one" && pass == 2:
			return erasure.Found{Counted: true}, nil
		case name == "two" && pass == 2:
			return erasure.Found{Busy: true, Removed: map[string]int64{"things": 1, "others": 0}}, nil
		}
		return erasure.Found{Kept: map[string]int64{name: 7}}, nil
	})
	w.work()
	began := time.Now()
	id := w.mustErase("alice")
	if again := w.mustErase("alice"); again != id {
		t.Errorf("operation %s, want %s again", again, id)
	}
	got := w.mustEnd(id)
	if took := time.Since(began); took < 9*time.Second {
		t.Errorf("done after %v: streams may still be open", took)
	}
	if !maps.Equal(got.Removed, map[string]int64{"things": 3}) || !maps.Equal(got.Kept, map[string]int64{"one": 7, "two": 7}) {
		t.Errorf("%+v", got)
	}
	calls := w.steps.all()
	if n := len(calls); n < 7 || calls[0] != "one alice" || calls[1] != "one alice" || calls[2] != "two alice" || calls[n-2] != "one alice" || calls[n-1] != "two alice" {
		t.Errorf("steps %v", calls)
	}
	if next := w.mustErase("alice"); next == id {
		t.Error("an operation that is done is shared")
	}
}

// E7: whatever a pass finds, and also a step that has to wait, keeps the operation from being done, long
// after the 10 s that it takes at least.
func TestE7_NotDoneWhileAStepFindsSomething(t *testing.T) {
	t.Parallel()
	for name, found := range map[string]erasure.Found{"Counted": {Counted: true}, "Busy": {Busy: true}, "Removed": {Removed: map[string]int64{"things": 1}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const until = 14 * time.Second
			began := time.Now()
			w := setup(t, func(string, int) (erasure.Found, error) {
				if time.Since(began) < until {
					return found, nil
				}
				return erasure.Found{}, nil
			})
			w.work()
			w.mustEnd(w.mustErase("alice"))
			if took := time.Since(began); took < until {
				t.Errorf("done after %v", took)
			}
		})
	}
}

// E7: the work is done although the process that was called died before it enqueued the job, and
// although Redis was emptied.
func TestE7_TheOutboxBeginsItAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, func(string, int) (erasure.Found, error) { return erasure.Found{}, nil })
	id := w.mustErase("alice")
	storetest.Must(t, w.db.Client().FlushAll(t.Context()).Err())
	storetest.Must(t, w.jobs.Init(t.Context()))
	if o := w.operation(id); o.State != api.OperationRunning {
		t.Errorf("%+v", o)
	}
	w.work()
	w.mustEnd(id)
}

// E7: operations pass one at a time, whichever process runs them, because each goes through everything. An
// operation that waits for its next pass holds up no other.
func TestE7_OnePassAtATime(t *testing.T) {
	t.Parallel()
	var passing, passes atomic.Int64
	step := erasure.Step{Name: "slow", Run: func(ctx context.Context, o *record.Operation) (erasure.Found, error) {
		if n := passing.Add(1); n > 1 {
			t.Errorf("%d pass at once", n)
		}
		defer passing.Add(-1)
		passes.Add(1)
		redisdb.Sleep(ctx, 50*time.Millisecond) // others have time to begin
		return erasure.Found{}, nil
	}}
	found := func(string, int) (erasure.Found, error) { return erasure.Found{}, nil }
	one := setup(t, found)
	two := &world{t: t, db: one.db, rec: one.rec, jobs: queue.New(one.db, queue.Options{Name: "jobs", Shards: 1, MaxAge: -1, Lease: 2 * time.Second, RetryMax: 100 * time.Millisecond})}
	tokens, err := usertokens.New(one.rec, one.db, usertokens.Options{})
	storetest.Must(t, err)
	for _, w := range []*world{one, two} {
		w.Store = erasure.New(erasure.Options{Record: w.rec, Redis: w.db, Jobs: w.jobs, Begin: tokens.Erase, Steps: []erasure.Step{step}})
		w.work()
	}
	began := time.Now()
	var ids []string
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range 10 {
		all.Go(func() {
			id := one.mustErase(fmt.Sprint("user-", i))
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
		})
	}
	all.Wait()
	for _, id := range ids {
		one.mustEnd(id)
	}
	if took := time.Since(began); took > 60*time.Second { // ten times the 10 s that each takes at least are 100 s
		t.Errorf("%v for ten operations: they wait for each other's ends", took)
	}
	if n := passes.Load(); n < 20 {
		t.Errorf("%d passes", n)
	}
}

// No job, record or key of the operation names the user once it is done; before, only SQL does.
func TestE7_TheOperationForgetsTheName(t *testing.T) {
	t.Parallel()
	w := setup(t, func(string, int) (erasure.Found, error) { return erasure.Found{}, nil })
	w.mustErase("zoe-mallory")
	keys, err := w.db.Client().Keys(t.Context(), "ff:{q:jobs*main").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	for _, m := range w.db.Client().XRange(t.Context(), keys[0], "-", "+").Val() {
		if text := m.Values["e"].(string); len(text) == 0 || slices.Contains([]byte(text), 'z') {
			t.Errorf("the job is %q", text)
		}
	}
}
