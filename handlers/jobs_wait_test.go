package handlers_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

// claimLater makes a claim that waits, and gives its answer.
func (w *world) claimLater(t testing.TB, body string, headers ...string) <-chan answer {
	t.Helper()
	got := make(chan answer, 1)
	go func() {
		a, err := w.try(post(queueQ+"/claims", body).with(headers...))
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	return got
}

// A worker that waits is woken by a new job of its types, by a retry, and by the end of a lease.
func TestJ5_AWaitIsWoken(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const waiting = `{"worker":"w","types":["mail"],"lease_ms":60000,"wait_ms":30000}`
		woken := func(by func()) api.ClaimedJob {
			t.Helper()
			got := w.claimLater(t, waiting)
			w.awaitStreams(t, 1)
			by()
			list := (<-got).claimed(t)
			if len(list) != 1 || list[0].Type != "mail" || list[0].LeaseMS != 60_000 {
				t.Fatalf("woken with %+v", list)
			}
			return list[0]
		}
		id := ""
		j := woken(func() {
			w.enqueue(t, `{"type":"other"}`)
			id = w.enqueue(t, `{"type":"mail"}`)
		})
		for _, outcome := range []string{"release", "fail"} {
			last := j
			j = woken(func() { w.report(t, last, outcome, "", "ok") })
			if j.ID != id || j.Fence <= last.Fence {
				t.Errorf("after %s: %+v, before %+v", outcome, j, last)
			}
		}
		j = woken(func() { w.report(t, j, "renew", `,"lease_ms":50`, "ok") })
		if j.ID != id || j.Attempt != 3 { // after a failure and a lease that ended
			t.Errorf("after a lease: %+v", j)
		}
		at := api.At(time.Now().Add(300 * time.Millisecond))
		text, err := at.MarshalJSON()
		storetest.Must(t, err)
		if j := woken(func() { w.enqueue(t, fmt.Sprintf(`{"type":"mail","run_at":%s}`, text)) }); time.Now().Before(at.Time) {
			t.Errorf("%+v came before its time", j)
		}
	})
}

// Of several workers that wait, each gets a job of its own.
func TestJ5_ManyWaits(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		var waits []<-chan answer
		for range 5 {
			waits = append(waits, w.claimLater(t, `{"worker":"w","wait_ms":30000}`))
		}
		w.awaitStreams(t, 5)
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a"},{"type":"a"},{"type":"a"},{"type":"a"},{"type":"a"}]}`)
		seen := map[string]bool{}
		for _, got := range waits {
			for _, j := range (<-got).claimed(t) {
				seen[j.ID] = true
			}
		}
		if len(seen) != 5 {
			t.Errorf("%d jobs were claimed", len(seen))
		}
	})
}

// A wait that is over is answered with an empty list, also at the stop of the process. It may take longer than the
// time-out of requests.
func TestJ5_AWaitEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.RequestTimeout = 100 * time.Millisecond })
	for _, c := range []struct {
		ms    int
		least time.Duration
	}{{0, 0}, {1, 0}, {400, 400 * time.Millisecond}} {
		began := time.Now()
		w.post(queueQ+"/claims", fmt.Sprintf(`{"worker":"w","wait_ms":%d}`, c.ms)).wants(t, 200, `{"jobs":[]}`)
		if took := time.Since(began); took < c.least {
			t.Errorf("it waited for %v", took)
		}
	}
	got := w.claimLater(t, `{"worker":"w","wait_ms":30000}`)
	w.awaitStreams(t, 1)
	w.stopping()
	(<-got).wants(t, 200, `{"jobs":[]}`)
	w.awaitStreams(t, 0)
}

// A worker that hangs up while it waits leaves the line, and holds nothing.
func TestJ5_WhoHangsUpLeavesTheLine(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "POST", w.url+queueQ+"/claims", strings.NewReader(`{"worker":"gone","lease_ms":3600000,"wait_ms":20000}`))
			r.Header.Set("Content-Type", "application/json")
			answer, err := http.DefaultClient.Do(r)
			if err == nil {
				_ = answer.Body.Close()
			}
			gone <- err
		}()
		w.awaitStreams(t, 1)
		hangUp()
		if err := <-gone; err == nil {
			t.Fatal("it was answered")
		}
		w.awaitStreams(t, 0)
		id := w.enqueue(t, `{"type":"mail"}`)
		if j := w.claimOne(t, ""); j.ID != id || j.Attempt != 1 {
			t.Errorf("the next worker has %+v", j)
		}
	})
}

// The same for one that has left when Redis gives it a job, unless it may come again with its Idempotency-Key.
func TestJ5_WhoHangsUpAsItGetsAJob(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"": "queued", "mine": "running"} {
		proxy, through := storetest.ProxyTo(t, storetest.Redis(t).URL())
		w := setupOn(t, storetest.Open(t, through))
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+queueQ+"/claims", strings.NewReader(`{"worker":"gone","lease_ms":3600000,"wait_ms":20000}`))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/json")
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			w.handler.ServeHTTP(deadlines{httptest.NewRecorder()}, r)
		}()
		w.awaitStreams(t, 1)
		proxy.OnAnswer(func(_ *storetest.ProxyConn, answer []byte) storetest.Fate {
			if bytes.Contains(answer, []byte("in the claim alone")) {
				hangUp()
			}
			return storetest.Pass
		})
		id := w.enqueue(t, `{"type":"mail","payload":"in the claim alone"}`)
		<-ended
		a := w.get("/v1/jobs/" + id)
		if a.member(t, "state") != want || !strings.Contains(a.body, `"attempt":1,`) {
			t.Errorf("with the key %q: %s", key, a.body)
		}
		if ctx.Err() == nil {
			t.Error("it did not hang up")
		}
		hangUp()
	}
}

// A key that is revoked while its worker waits gets no job.
func TestJ5_ARevokedKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	boss, worker := "Authorization: Bearer "+w.mustKey(api.ScopeAdmin), "Authorization: Bearer "+w.mustKey(api.ScopeJobsWork)
	got := w.claimLater(t, `{"worker":"w","lease_ms":3600000,"wait_ms":30000}`, worker)
	w.awaitStreams(t, 1)
	w.mustRevokeOthers()
	id := w.post(queueQ+"/jobs", `{"type":"mail"}`, boss).member(t, "id")
	if a := <-got; a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	storetest.Eventually(t, soon, "the job is there for others", func() bool {
		return w.do(get("/v1/jobs/"+id).with(boss)).member(t, "state") == "queued"
	})
	if list := w.post(queueQ+"/claims", `{"worker":"w"}`, boss).claimed(t); len(list) != 1 || list[0].Attempt != 1 {
		t.Errorf("claimed %+v", list)
	}
}

// A repeated claim has the same jobs and tokens while their leases last, without those that have ended. Its key with
// another body is refused. An empty answer is not kept.
func TestJ3_RepeatedClaims(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const key, claim = "Idempotency-Key: once", `{"worker":"w","max":2,"lease_ms":60000}`
		w.post(queueQ+"/claims", claim, key).wants(t, 200, `{"jobs":[]}`)
		w.post(queueQ+"/jobs/batch", `{"jobs":[{"type":"a","payload":{"n":1}},{"type":"b","key":"k"},{"type":"c"}]}`)
		first := w.post(queueQ+"/claims", claim, key)
		jobs := first.claimed(t)
		if len(jobs) != 2 || first.header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s %v", first.body, first.header)
		}
		repeat := func(want ...api.ClaimedJob) {
			t.Helper()
			a := w.post(queueQ+"/claims", claim, key)
			got := a.claimed(t)
			if len(got) != len(want) || a.header.Get("Idempotent-Replayed") != "true" {
				t.Fatalf("a repeat: %s %v", a.body, a.header)
			}
			for i := range got {
				left := got[i].LeaseMS
				got[i].LeaseMS = want[i].LeaseMS
				if fmt.Sprintf("%+v", got[i]) != fmt.Sprintf("%+v", want[i]) || left > want[i].LeaseMS {
					t.Errorf("a repeat: %+v with a lease of %d, first %+v", got[i], left, want[i])
				}
			}
		}
		repeat(jobs...)
		storetest.Eventually(t, soon, "a repeat says how much of the lease is left", func() bool {
			return w.post(queueQ+"/claims", claim, key).claimed(t)[0].LeaseMS < 60_000
		})
		w.post(queueQ+"/claims", `{"worker":"w","max":3,"lease_ms":60000}`, key).
			wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		w.report(t, jobs[0], "complete", "", "ok")
		repeat(jobs[1])
		w.report(t, jobs[1], "release", "", "ok")
		repeat()
		if other := w.post(queueQ+"/claims", claim, "Idempotency-Key: other"); len(other.claimed(t)) != 2 || other.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("another key: %s %v", other.body, other.header)
		}
	})
}
