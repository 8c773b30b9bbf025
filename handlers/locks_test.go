package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

const lockX = "/v1/locks/x"

// hold is the answer of an acquire. t may be that of a model.
func (a answer) hold(t interface {
	Helper()
	Fatalf(format string, args ...any)
}) (h api.LockHold) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &h); err != nil || a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return h
}

func (w *world) acquire(t testing.TB, body string) api.LockHold {
	t.Helper()
	return w.post(lockX+"/acquire", body).hold(t)
}

// tell makes a call of a holder.
func (w *world) tell(what string, h api.LockHold) answer {
	w.t.Helper()
	return w.post(lockX+"/"+what, `{"token":"`+h.Token+`"}`)
}

// awaitStreams waits until so many calls wait.
func (w *world) awaitStreams(t testing.TB, n int) {
	t.Helper()
	storetest.Eventually(t, soon, fmt.Sprint(n, " calls wait"), func() bool {
		return strings.Contains(w.get("/metrics").body, fmt.Sprintf("\nfanfare_open_streams %d\n", n))
	})
}

// awaitListener waits until a call waits for the lock.
func (w *world) awaitListener(t testing.TB) {
	t.Helper()
	storetest.Eventually(t, soon, "it listens", func() bool {
		const channel = "ff:{l:locks:x}:free"
		return w.db.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == 1
	})
}

func held(attempt int) string {
	return problem(api.CodeLockHeld, "another holds the lock", fmt.Sprintf(`"attempt":%d,"retry_after_ms":"*"`, attempt))
}

func lost() string { return problem(api.CodeLockLost, "the lock is lost") }

// The five cases of a lock with attempts: nobody holds it, another does, a holder's lease ended, the work is done,
// and the attempts are used up.
func TestL1_TheFiveCases(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.get(lockX).wants(t, 200, `{"state":"free"}`)
		first := w.acquire(t, "")
		if first.Attempt != 1 || first.LeaseMS != 30_000 || first.Fence < 1 {
			t.Errorf("the first hold: %+v", first)
		}
		w.get(lockX).wants(t, 200, fmt.Sprintf(`{"state":"held","attempt":1,"lease_ms":"*","fence":%d}`, first.Fence))
		w.post(lockX+"/acquire", "").wants(t, 409, held(1))
		renewed := w.tell("renew", first).hold(t)
		if renewed != first {
			t.Errorf("renewed as %+v, was %+v", renewed, first)
		}
		for range 2 {
			w.tell("release", first).wants(t, 200, fmt.Sprintf(`{"state":"free","fence":%d}`, first.Fence))
		}
		w.get(lockX).wants(t, 200, fmt.Sprintf(`{"state":"free","fence":%d}`, first.Fence))

		over := w.acquire(t, `{"lease_ms":1}`) // the release did not count
		second := w.acquire(t, `{"wait_ms":30000}`)
		if over.Attempt != 1 || second.Attempt != 2 || second.Fence <= over.Fence || over.Fence <= first.Fence {
			t.Errorf("then %+v and, after its lease, %+v", over, second)
		}
		for _, call := range []string{"renew", "done", "fail", "release"} {
			w.tell(call, over).wants(t, 409, lost())
		}
		for range 2 {
			w.tell("done", second).wants(t, 200, fmt.Sprintf(`{"state":"done","fence":%d}`, second.Fence))
		}
		w.post(lockX+"/acquire", `{"wait_ms":1000}`).wants(t, 409, problem(api.CodeLockDone, "the work of this lock is done"))
		w.tell("renew", second).wants(t, 409, lost())
		w.get(lockX).wants(t, 200, fmt.Sprintf(`{"state":"done","fence":%d}`, second.Fence))

		const y = "/v1/locks/y"
		for n := range 2 {
			h := w.post(y+"/acquire", `{"max_attempts":2}`).hold(t)
			if h.Attempt != n+1 {
				t.Errorf("attempt %d: %+v", n+1, h)
			}
			w.post(y+"/fail", `{"token":"`+h.Token+`"}`).wants(t, 200, `{"state":"free","fence":"*"}`)
		}
		for n := range 3 {
			w.post(y+"/acquire", `{"max_attempts":2}`).
				wants(t, 409, problem(api.CodeLockExhausted, "the attempts of this lock are used up", fmt.Sprintf(`"first":%v`, n == 0)))
		}
		w.get(y).wants(t, 200, `{"state":"exhausted"}`)
	})
}

// A caller that waits is woken by the end of the hold, however long the lease is.
func TestL1_AWaitIsWoken(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		for n, call := range []string{"fail", "release"} {
			h := w.acquire(t, `{"lease_ms":86400000}`)
			got := make(chan answer)
			go func() {
				a, err := w.try(post(lockX+"/acquire", `{"lease_ms":86400000,"wait_ms":30000}`))
				if err != nil {
					t.Error(err)
				}
				got <- a
			}()
			w.awaitStreams(t, 1)
			w.awaitListener(t)
			w.tell(call, h).wants(t, 200, `{"state":"free","fence":"*"}`)
			next := (<-got).hold(t)
			if next.Attempt != h.Attempt+1-n {
				t.Errorf("%s: woken with %+v, after %+v", call, next, h)
			}
			w.tell("release", next)
		}
	})
}

// A caller that waits asks Redis when it begins to listen, and then no more until something happens.
func TestL1_AWaitDoesNotPoll(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.acquire(t, `{"lease_ms":86400000}`)
	before := storetest.Calls(t, w.db.Client(), "evalsha")
	w.post(lockX+"/acquire", `{"wait_ms":1500}`).wants(t, 409, held(1))
	if n := storetest.Calls(t, w.db.Client(), "evalsha") - before; n > 2 {
		t.Errorf("it asked %d times in 1.5 s, want once before it listens and once after", n)
	}
}

// mustNearlyFill sets the limit of Redis' memory so that little is left.
func (w *world) mustNearlyFill(t *testing.T) {
	t.Helper()
	used, err := w.db.Client().Info(t.Context(), "memory").Result()
	storetest.Must(t, err)
	bytes, err := strconv.Atoi(regexp.MustCompile(`used_memory:(\d+)`).FindStringSubmatch(used)[1])
	storetest.Must(t, err)
	storetest.Must(t, w.db.Client().ConfigSet(t.Context(), "maxmemory", strconv.Itoa(bytes*100/94)).Err())
	storetest.Eventually(t, soon, "Redis counts as nearly full", func() bool { return w.db.Overloaded() != nil })
}

// While Redis is full nobody acquires a lock, and holders renew and end their holds.
func TestL1_HoldsEndThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	first, second := w.acquire(t, ""), w.post("/v1/locks/y/acquire", "").hold(t)
	w.mustNearlyFill(t)
	if a := w.post("/v1/locks/z/acquire", ""); a.status != 503 || !strings.Contains(a.body, `"code":"overloaded"`) || a.header.Get("Retry-After") == "" {
		t.Errorf("an acquire: %d %s", a.status, a.body)
	}
	w.tell("renew", first).hold(t)
	storetest.Must(t, w.db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err()) // and now it takes no more
	w.tell("renew", first).hold(t)
	w.tell("done", first).wants(t, 200, `{"state":"done","fence":"*"}`)
	w.post("/v1/locks/y/fail", `{"token":"`+second.Token+`"}`).wants(t, 200, `{"state":"free","fence":"*"}`)
	w.get(lockX).wants(t, 200, `{"state":"done","fence":"*"}`)
}

// A wait that is over is answered like a call that does not wait, also at the stop of the process.
func TestL1_AWaitEnds(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.acquire(t, `{"lease_ms":86400000}`)
		w.post(lockX+"/acquire", `{"wait_ms":30}`).wants(t, 409, held(1))
		got := make(chan answer)
		go func() {
			a, err := w.try(post(lockX+"/acquire", `{"wait_ms":30000}`))
			if err != nil {
				t.Error(err)
			}
			got <- a
		}()
		w.awaitStreams(t, 1)
		w.stopping()
		(<-got).wants(t, 409, held(1))
		w.awaitStreams(t, 0)
	})
}

// A wait may take longer than the body of a request.
func TestL1_AWaitOutlastsTheTimeOutOfRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.RequestTimeout = 100 * time.Millisecond })
	w.acquire(t, `{"lease_ms":86400000}`)
	began := time.Now()
	w.post(lockX+"/acquire", `{"wait_ms":600}`).wants(t, 409, held(1))
	if took := time.Since(began); took < 600*time.Millisecond {
		t.Errorf("it waited for %v", took)
	}
}

// A caller that hangs up while it waits leaves no hold and no attempt behind.
func TestL1_WhoHangsUpLeavesNothing(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		h := w.acquire(t, `{"lease_ms":86400000}`)
		ctx, hangUp := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			r, _ := http.NewRequestWithContext(ctx, "POST", w.url+lockX+"/acquire", strings.NewReader(hourLong))
			r.Header.Set("Content-Type", "application/json")
			res, err := http.DefaultClient.Do(r)
			if err == nil {
				res.Body.Close()
			}
			gone <- err
		}()
		w.awaitStreams(t, 1)
		hangUp()
		if err := <-gone; err == nil {
			t.Fatal("it was answered")
		}
		w.awaitStreams(t, 0)
		w.tell("release", h).wants(t, 200, `{"state":"free","fence":"*"}`)
		if next := w.acquire(t, hourLong); next.Attempt != 1 {
			t.Errorf("the next hold: %+v", next)
		}
	})
}

const hourLong = `{"lease_ms":3600000,"wait_ms":20000}`

// deadlines is a response that takes deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error  { return nil }
func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// The same for one that has left when Redis gives it the lock, unless it may come again with its Idempotency-Key.
func TestL1_WhoHangsUpAsItGetsTheLock(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"": `{"state":"free","fence":"*"}`, "mine": `{"state":"held","attempt":1,"lease_ms":"*","fence":"*"}`} {
		proxy, through := storetest.ProxyTo(t, storetest.Redis(t).URL())
		w := setupOn(t, storetest.Open(t, through))
		h := w.acquire(t, "")
		ctx, hangUp := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost"+lockX+"/acquire", strings.NewReader(hourLong))
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/json")
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			w.handler.ServeHTTP(deadlines{httptest.NewRecorder()}, r)
		}()
		w.awaitListener(t)
		proxy.OnAnswer(func(_ *storetest.ProxyConn, answer []byte) storetest.Fate {
			if bytes.HasPrefix(answer, []byte("*5\r\n:1\r\n")) { // it acquires
				hangUp()
			}
			return storetest.Pass
		})
		w.tell("release", h).wants(t, 200, `{"state":"free","fence":"*"}`)
		<-ended
		w.get(lockX).wants(t, 200, want)
		if ctx.Err() == nil {
			t.Error("it did not hang up")
		}
		hangUp()
	}
}

// A repeated acquire has the same token while its lease lasts; its key with another body is refused.
func TestL2_RepeatedAcquires(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		const key = "Idempotency-Key: night"
		first := w.post(lockX+"/acquire", `{"lease_ms":60000}`, key)
		for range 2 {
			again := w.post(lockX+"/acquire", `{"lease_ms":60000}`, key)
			if h := again.hold(t); h.Token != first.hold(t).Token || h.LeaseMS > 60_000 || again.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("a repeat: %s %v, first %s", again.body, again.header, first.body)
			}
		}
		if first.header.Get("Idempotent-Replayed") != "" {
			t.Error("the first is marked as a repeat")
		}
		w.post(lockX+"/acquire", `{"lease_ms":60001}`, key).
			wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		w.post(lockX+"/acquire", `{"lease_ms":60000}`, "Idempotency-Key: day").wants(t, 409, held(1))
		other := w.post("/v1/locks/y/acquire", `{"lease_ms":60001}`, key) // another lock, so another call
		if other.status != 200 || other.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("another lock: %d %s %v", other.status, other.body, other.header)
		}
		w.tell("release", first.hold(t)).wants(t, 200, `{"state":"free","fence":"*"}`)
		if next := w.post(lockX+"/acquire", `{"lease_ms":60000}`, key).hold(t); next.Token == first.hold(t).Token {
			t.Error("the token of a hold that was released comes again")
		}
	})
}

func TestL2_AnotherNumberOfAttempts(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		h := w.acquire(t, `{"max_attempts":3}`)
		other := `"errors":[{"field":"max_attempts","rule":"equal","message":"must be 3, as of the first acquire"}]`
		for range 2 { // held, and free
			for _, body := range []string{`{"max_attempts":4}`, ""} {
				w.post(lockX+"/acquire", body).wants(t, 422, problem(api.CodeValidation, "*", other))
			}
			w.tell("fail", h)
		}
	})
}

func TestBadLocks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const acquire = lockX + "/acquire"
	bads := []bad{
		{"a lock with a space", post("/v1/locks/a%20b/acquire", "{}"), 422, broken("lock", "identifier", identifierRule)},
		{"a lock with a space, read", get("/v1/locks/a%20b"), 422, broken("lock", "identifier", identifierRule)},
		{"a lease of nothing", post(acquire, `{"lease_ms":0}`), 422, broken("lease_ms", "min", "must be at least 1")},
		{"a lease of more than a day", post(acquire, `{"lease_ms":86400001}`), 422, broken("lease_ms", "max", "must be at most 86400000")},
		{"a wait below zero", post(acquire, `{"wait_ms":-1}`), 422, broken("wait_ms", "min", "must be at least 0")},
		{"a wait that is too long", post(acquire, `{"wait_ms":30001}`), 422, broken("wait_ms", "max", "must be at most 30000")},
		{"no attempt", post(acquire, `{"max_attempts":0}`), 422, broken("max_attempts", "min", "must be at least 1")},
		{"a short memory", post(acquire, `{"retention_ms":999}`), 422, broken("retention_ms", "min", "must be at least 1000")},
		{"a long memory", post(acquire, `{"retention_ms":2592000001}`), 422, broken("retention_ms", "max", "must be at most 2592000000")},
		{"an unknown field", post(acquire, `{"lease":1}`), 400, badJSON("lease", "is not a field of this call")},
	}
	for _, call := range []string{"renew", "done", "fail", "release"} {
		bads = append(bads,
			bad{call + " without a token", post(lockX+"/"+call, `{}`), 422, broken("token", "required", "is required")},
			bad{call + " with a text", post(lockX+"/"+call, `{"token":"mine"}`), 422, broken("token", "token", "is not one that an acquire gave")},
			bad{call + " of nobody", post(lockX+"/"+call, `{"token":"1.1.30000.3600000"}`), 409, lost()})
	}
	run(t, w, bads)
}

// mustRevokeOthers revokes every key that may not do everything.
func (w *world) mustRevokeOthers() {
	w.t.Helper()
	keys, err := w.keys.List(w.t.Context())
	storetest.Must(w.t, err)
	for _, k := range keys {
		if !k.Allows(api.ScopeAdmin) {
			storetest.Must(w.t, w.keys.Revoke(w.t.Context(), k.ID))
		}
	}
}

// A key that is revoked while its caller waits gets no lock.
func TestLocksAndARevokedKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	boss, worker := w.mustKey(api.ScopeAdmin), w.mustKey(api.ScopeLocks)
	as := func(key string) string { return "Authorization: Bearer " + key }
	h := w.post(lockX+"/acquire", `{"lease_ms":86400000}`, as(boss)).hold(t)
	got := make(chan answer)
	go func() {
		a, err := w.try(call{method: "POST", path: lockX + "/acquire", body: `{"wait_ms":30000}`, headers: []string{as(worker)}})
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	w.awaitStreams(t, 1)
	w.mustRevokeOthers()
	w.post(lockX+"/release", `{"token":"`+h.Token+`"}`, as(boss)).wants(t, 200, `{"state":"free","fence":"*"}`)
	if a := <-got; a.status != 401 {
		t.Errorf("%d %s", a.status, a.body)
	}
	storetest.Eventually(t, soon, "the lock is free", func() bool {
		return strings.Contains(w.do(call{method: "GET", path: lockX, headers: []string{as(boss)}}).body, `"free"`)
	})
}
