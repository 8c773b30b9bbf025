package web

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"

	"github.com/prometheus/client_golang/prometheus"
)

// TestHalfAnAnswer panics after an answer has begun. The connection is cut, so that the caller does
// not take a part for the whole answer.
func TestHalfAnAnswer(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	server := httptest.NewServer(s.around(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[`))
		panic("in the middle")
	}))
	t.Cleanup(server.Close)
	res, err := server.Client().Get(server.URL)
	if err != nil {
		return // cut before the head was sent
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("half an answer reads like a whole one")
	}
}

// However many requests fail while something is away, there is one warning a minute, with their
// number. Other refusals have their own lines.
func TestOneWarningAMinute(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	s := New(Options{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	answer := api.Errorf(api.CodeUnavailable, "away")
	server := s.around(func(w http.ResponseWriter, r *http.Request) { fail(w, r, answer) })
	for range 5 {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/x", nil))
	}
	if said := lines.String(); strings.Count(said, "level=WARN") != 1 || strings.Count(said, "\n") != 1 {
		t.Errorf("of five that failed:\n%s", said)
	}
	s.outage.next = time.Now()
	server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/x", nil))
	if said := lines.String(); strings.Count(said, "level=WARN") != 2 || !strings.Contains(said, " others=4\n") {
		t.Errorf("a minute later:\n%s", said)
	}
	lines.Reset()
	answer = api.Errorf(api.CodeNotFound, "not here")
	for range 2 {
		server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/x", nil))
	}
	if said := lines.String(); strings.Count(said, "level=INFO") != 2 {
		t.Errorf("of two that were refused:\n%s", said)
	}
}

// Strangers cannot fill the log: of their refused requests one a minute has a line. A caller who is known has
// a line for each.
func TestStrangersHaveOneLineAMinute(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	s := New(Options{Logger: slog.New(slog.NewTextHandler(&lines, nil)), HasKeys: func() bool { return true }})
	var key *api.Key
	server := s.around(func(w http.ResponseWriter, r *http.Request) {
		infoOf(r.Context()).key = key
		fail(w, r, api.Errorf(api.CodeNotFound, "not here"))
	})
	ask := func(times int) {
		for range times {
			server.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost/x", nil))
		}
	}
	ask(5)
	if said := lines.String(); strings.Count(said, "level=INFO") != 1 || strings.Count(said, "\n") != 1 {
		t.Errorf("of five strangers:\n%s", said)
	}
	s.strangers.next = time.Now()
	ask(1)
	if said := lines.String(); strings.Count(said, "level=INFO") != 2 || !strings.Contains(said, " others=4") {
		t.Errorf("a minute later:\n%s", said)
	}
	lines.Reset()
	key = &api.Key{ID: "backend"}
	ask(3)
	if said := lines.String(); strings.Count(said, "level=INFO") != 3 {
		t.Errorf("of three calls with a key:\n%s", said)
	}
}

// TestDurations: each status has one histogram, even if it is first used concurrently.
func TestDurations(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := newMeters(reg).mounted("/x", nil)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			for range 50 {
				m.durations.of(http.MethodGet, 200+i%4).Observe(1)
				m.durations.of(http.MethodHead, 200+i%4).Observe(1)
			}
		})
	}
	all.Wait()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "fanfare_http_request_duration_seconds" {
			continue
		}
		for _, one := range family.GetMetric() {
			if n := one.GetHistogram().GetSampleCount(); n != 500 || len(family.GetMetric()) != 8 {
				t.Errorf("%d of %d: %v", n, len(family.GetMetric()), one.GetLabel())
			}
		}
	}
	if known := len(*m.durations.known.Load()); known != 8 {
		t.Errorf("%d histograms are known of 8", known)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		err    error
		want   slog.Level
	}{
		{200, nil, slog.LevelDebug},
		{503, nil, slog.LevelDebug}, // /readyz is requested every second
		{404, api.Errorf(api.CodeNotFound, "x"), slog.LevelInfo},
		{500, api.Errorf(api.CodeInternal, "x"), slog.LevelError},
		{503, api.Errorf(api.CodeUnavailable, "x"), slog.LevelWarn},
		{503, api.Errorf(api.CodeOverloaded, "x"), slog.LevelDebug},
		{409, api.Errorf(api.CodeSoldOut, "x"), slog.LevelDebug},
		{409, api.Errorf(api.CodeConflict, "x"), slog.LevelInfo},
		{503, api.Errorf(api.CodeUnavailable, "x").Because(context.Canceled), slog.LevelInfo},
	} {
		if got := levelOf(c.status, c.err); got != c.want {
			t.Errorf("%d %v: %v, want %v", c.status, c.err, got, c.want)
		}
	}
}
