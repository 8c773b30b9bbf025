package app

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// However many probes there are, Redis is asked once a second.
func TestProbesShareOneReading(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	readings := func() int { return storetest.Calls(t, redis.Client(), "hgetall") } // each sends it once, for paused apps
	for name, more := range map[string][]string{"Public": nil, "Private": {"FANFARE_METRICS_ADDR=127.0.0.1:1"}} {
		t.Run(name, func(t *testing.T) {
			a := mustBuildApp(t, append(more, "FANFARE_REDIS_URL="+redis.URL())...)
			public, private := a.handlers()
			before, began := readings(), time.Now()
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					for i := range 200 {
						w := httptest.NewRecorder()
						[]http.Handler{public, private}[i%2].ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/readyz", nil))
						if text := w.Body.String(); w.Code != 200 || strings.Contains(text, "note") != (more == nil || i%2 == 1) {
							t.Errorf("%d %s", w.Code, text)
						}
					}
				})
			}
			all.Wait()
			seconds := int(time.Since(began) / time.Second)
			if n := readings() - before; n < 1 || n > seconds+1 {
				t.Errorf("Redis was asked %d times in %d seconds", n, seconds)
			}
		})
	}
}

// A Redis that refuses changes makes no process unready: reads work, and the reply says what is wrong.
func TestARedisThatRefusesChangesIsDegraded(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	a := mustBuildApp(t, "FANFARE_REDIS_URL="+redis.URL())
	storetest.Must(t, redis.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	storetest.Eventually(t, time.Minute, "it is seen", func() bool { // a busy machine may be slower than a time-out
		d := a.ask(t.Context()).dependencies[0]
		return d.Name == "redis" && d.State == stateDegraded && d.Detail == "Redis refuses changes"
	})
}

// SIGTERM under load: from the signal on the process is not ready and says why. While HTTP drains, requests that are under way are
// served, and what is accepted is still sent.
func TestAProcessThatStopsIsNotReady(t *testing.T) {
	t.Parallel()
	a := mustBuildApp(t, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_SHUTDOWN_TIMEOUT=2m") // a busy machine must not end the drain
	public, _ := a.handlers()
	ask := func(class int, method, path, body string) (answer []byte) {
		t.Helper()
		storetest.Eventually(t, time.Minute, method+" "+path, func() bool {
			r, w := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Content-Type", "application/json")
			public.ServeHTTP(w, r)
			answer = w.Body.Bytes()
			if w.Code/100 != class && w.Code != http.StatusServiceUnavailable { // a busy machine may be slower than a time-out
				t.Fatalf("%s %s: %d %s", method, path, w.Code, answer)
			}
			return w.Code/100 == class
		})
		return answer
	}
	draining, drained := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(drained) })
	defer end()
	stop := mustRunApp(t, a, func(ctx context.Context) error {
		<-ctx.Done() // here the servers would begin to drain
		close(draining)
		<-drained
		return nil
	})
	ask(2, "PUT", "/v1/users/bob/devices/"+strings.Repeat("c0ffee00", 8), `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
	const note = "this process is stopping"
	if text := ask(2, "GET", "/readyz", ""); strings.Contains(string(text), note) {
		t.Errorf("before the signal: %s", text)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	<-draining
	var ready api.Readiness
	storetest.Must(t, json.Unmarshal(ask(5, "GET", "/readyz", ""), &ready))
	if ready.Ready || !slices.Contains(ready.Notes, note) {
		t.Errorf("while it drains: %+v", ready)
	}
	var event api.EventReport
	storetest.Must(t, json.Unmarshal(ask(2, "POST", "/v1/events", `{"type":"hello","audience":{"users":["bob"]},"alert":{"title":"Hello"}}`), &event))
	storetest.Eventually(t, time.Minute, "the event is sent", func() bool {
		storetest.Must(t, json.Unmarshal(ask(2, "GET", "/v1/events/"+event.ID, ""), &event))
		return event.State == api.EventDone && event.Delivered == 1
	})
	end()
	<-stopped
}

// mustRunApp runs an app as serve does, with a loop in place of its HTTP servers, and waits until it has started. stop does what a
// signal does, and waits until the app has stopped.
func mustRunApp(t *testing.T, a *app, serving func(context.Context) error) (stop func()) {
	t.Helper()
	front, err := listen(t.Context(), a.config, a.log)
	storetest.Must(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	preparation, ended := a.beginPreparation(ctx), make(chan error, 1)
	go func() {
		ended <- a.live(ctx, front, []loop{{"http", serving}}, preparation, nil, outputs{out: io.Discard, err: io.Discard, json: true})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		preparation.end()
		_ = front.listener.Close()
	})
	t.Cleanup(stop)
	storetest.Eventually(t, time.Minute, "the app has started", func() bool { return a.starting.Load() == nil })
	return stop
}

// mustBuildApp builds an app that has a database of its own and runs nothing. Without the URL of a Redis it has the
// embedded one in memory.
func mustBuildApp(t *testing.T, environ ...string) *app {
	t.Helper()
	if !slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, "FANFARE_REDIS_URL=") }) {
		environ = append(environ, "FANFARE_EMBEDDED=memory")
	}
	c, err := parseConfig(append(environ, "FANFARE_DATABASE_URL=sqlite:"+filepath.Join(t.TempDir(), "x.db")))
	storetest.Must(t, err)
	a, err := build(t.Context(), c, slog.New(slog.DiscardHandler))
	storetest.Must(t, err)
	t.Cleanup(a.close)
	return a
}
