package hooks

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"fanfare/api"
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
