package app

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
