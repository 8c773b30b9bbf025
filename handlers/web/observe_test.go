package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"fanfare/api"
)

// TestHalfAnAnswer panics after an answer has begun: the connection is cut, so
// that the caller does not take the half for the whole.
func TestHalfAnAnswer(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	h := identify(s.observe(s.recoverPanics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[`))
		panic("in the middle")
	}))))
	server := httptest.NewServer(h)
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

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		err    error
		want   slog.Level
	}{
		{200, nil, slog.LevelDebug},
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
