package hooks

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/deadletters"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// H5: a fact that was refused too often is a dead letter. Its retry sends it again.
func TestH5_DeadLetters(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	var mu sync.Mutex
	code := http.StatusUnprocessableEntity
	s := newReceiver(t, func(rw http.ResponseWriter, _ int, _ *request) {
		mu.Lock()
		defer mu.Unlock()
		rw.WriteHeader(code)
	})
	l, _ := w.mustLane(s, 100)
	jobs := queue.New(w.redis, queue.Options{Name: "jobs", Kind: api.DeadTask, Shards: 1, RetryBase: time.Millisecond})
	storetest.Must(t, jobs.Init(t.Context()))
	letters := &Letters{Jobs: jobs, Webhooks: w.Store, Poster: l.s.o.Poster}
	l.s.o.Bury = letters.Bury
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = jobs.Run(ctx, queue.ByType(letters.Handlers())) })
	t.Cleanup(func() { cancel(); all.Wait() })

	w.feed.add(0, "a", "k", 1)
	for range maxRefusals {
		w.mustTurn(l)
	}
	storetest.Must(t, letters.Bury(t.Context(), l.w, w.feed.lanes[0].facts[0], 422)) // again
	dead := func() []api.DeadLetter {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{Reason: ReasonRefused}, "", 10, jobs)
		storetest.Must(t, err)
		return list.Items
	}
	storetest.Eventually(t, soon, "a dead letter", func() bool { return len(dead()) == 1 })
	storetest.Must(t, letters.Bury(t.Context(), l.w, w.feed.lanes[0].facts[0], 422)) // and again
	letter := dead()[0]
	if letter.LastError != "the webhook shop answers 422 to the fact 0-0-0" || letter.Kind != api.DeadTask || w.mustProgress(l).After != "1" {
		t.Errorf("%+v", letter)
	}
	if n := len(s.got()); n != maxRefusals {
		t.Errorf("it was sent %d times before anybody retried it", n)
	}
	answers := func(status int) (before int) {
		mu.Lock()
		defer mu.Unlock()
		code = status
		return len(s.got())
	}
	retry := func() {
		_, _, err := jobs.RetryDead(t.Context(), dead()[0].ID, queue.Once{})
		storetest.Must(t, err)
	}
	before := answers(http.StatusServiceUnavailable)
	retry()
	storetest.Eventually(t, soon, "it is a dead letter again, after one request", func() bool {
		return len(s.got()) > before && len(dead()) == 1 && dead()[0].LastError == "the webhook shop answers 503 to the fact 0-0-0"
	})
	if n := len(s.got()); n != before+1 {
		t.Errorf("%d requests", n-before)
	}
	before = answers(http.StatusOK)
	retry()
	storetest.Eventually(t, soon, "the fact is taken", func() bool { return len(s.got()) > before && len(dead()) == 0 })
	if r := s.got()[before]; r.id != "shop:0-0-0" || len(r.Facts) != 1 || r.Facts[0].ID != "0-0-0" || string(r.Facts[0].Data) != `{"n":0}` {
		t.Errorf("%s %s", r.id, r.raw)
	}
}

// H5: retried dead letters of a receiver that hangs leave places to other background jobs.
func TestH5_RetriedLettersLeavePlaces(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	release := make(chan struct{})
	var under, most, seen atomic.Int32
	s := newReceiver(t, func(http.ResponseWriter, int, *request) {
		seen.Add(1)
		for n := under.Add(1); n > most.Load(); {
			most.CompareAndSwap(most.Load(), n)
		}
		<-release
		under.Add(-1)
	})
	t.Cleanup(func() { close(release) }) // before the receiver is closed, which waits for its answers
	l, _ := w.mustLane(s, 100)
	jobs := queue.New(w.redis, queue.Options{Name: "jobs", Kind: api.DeadTask, Shards: 1})
	storetest.Must(t, jobs.Init(t.Context()))
	letters := &Letters{Jobs: jobs, Webhooks: w.Store, Poster: l.s.o.Poster}
	var others atomic.Int32
	handlers := letters.Handlers()
	handlers["other"] = func(context.Context, *queue.Claimed) queue.Result { others.Add(1); return queue.Result{} }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() { _ = jobs.Run(ctx, queue.ByType(handlers)) })
	t.Cleanup(func() { cancel(); all.Wait() })

	const n = 3 * mostLetters
	w.feed.add(0, "a", "k", n)
	for _, f := range w.feed.lanes[0].facts {
		storetest.Must(t, letters.Bury(t.Context(), l.w, f, 422))
	}
	var dead []api.DeadLetter
	storetest.Eventually(t, soon, "dead letters", func() bool {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{Reason: ReasonRefused}, "", 2*n, jobs)
		storetest.Must(t, err)
		dead = list.Items
		return len(dead) == n
	})
	for _, letter := range dead {
		_, _, err := jobs.RetryDead(t.Context(), letter.ID, queue.Once{})
		storetest.Must(t, err)
	}
	storetest.Eventually(t, soon, "some are under way", func() bool { return under.Load() == mostLetters })
	_, err := jobs.Enqueue(t.Context(), queue.Job{Type: "other"})
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "another job runs meanwhile", func() bool { return others.Load() == 1 })
	for range n {
		release <- struct{}{}
	}
	storetest.Eventually(t, soon, "all are taken", func() bool { return seen.Load() == n && under.Load() == 0 })
	if most.Load() > mostLetters {
		t.Errorf("%d were sent at once", most.Load())
	}
}

// H5: all dead letters of webhooks are retried at once, many more than are sent at a time, and each fact is taken once.
func TestH5_RetryAllLetters(t *testing.T) {
	t.Parallel()
	w := setup(t, 1)
	s := newReceiver(t, nil)
	l, _ := w.mustLane(s, 100)
	jobs := queue.New(w.redis, queue.Options{Name: "jobs", Kind: api.DeadTask, Shards: 2})
	storetest.Must(t, jobs.Init(t.Context()))
	letters := &Letters{Jobs: jobs, Webhooks: w.Store, Poster: l.s.o.Poster}
	all := deadletters.New(deadletters.Options{Queues: []*queue.Queue{jobs}, Jobs: jobs})
	handlers := all.Handlers()
	maps.Copy(handlers, letters.Handlers())
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = jobs.Run(ctx, queue.ByType(handlers)) })
	t.Cleanup(func() { cancel(); running.Wait() })

	const n = 10 * mostLetters
	w.feed.add(0, "a", "k", n)
	for _, f := range w.feed.lanes[0].facts {
		storetest.Must(t, letters.Bury(t.Context(), l.w, f, 422))
	}
	dead := func() int64 {
		stats, err := jobs.Stats(t.Context())
		storetest.Must(t, err)
		return stats.DeadLetters
	}
	storetest.Eventually(t, soon, "dead letters", func() bool { return dead() == n })
	last, expect := w.redis.Clock(), int64(n)
	storetest.Eventually(t, soon, "the clock goes on", func() bool { return w.redis.Clock().After(last.Add(2 * time.Millisecond)) })
	begun, _, err := all.Begin(t.Context(), api.ActionRetryDead, &api.DeadLettersRequest{Kind: api.DeadTask, Reason: ReasonRefused, Before: new(api.At(last.Add(time.Millisecond))), Expect: &expect}, api.Idempotency{})
	if err != nil || begun.Matched != n {
		t.Fatalf("%+v %v", begun, err)
	}
	storetest.Eventually(t, soon, "all are taken", func() bool { return len(s.facts()) >= n && dead() == 0 })
	got := s.facts()
	slices.Sort(got)
	if len(slices.Compact(got)) != n || len(s.got()) != n {
		t.Errorf("%d facts came in %d requests, want %d", len(slices.Compact(got)), len(s.got()), n)
	}
	storetest.Eventually(t, soon, "the operation is done", func() bool {
		o, err := all.Operation(t.Context(), begun.Operation)
		return err == nil && o.State == api.OperationDone && *o.Left == 0
	})
}
