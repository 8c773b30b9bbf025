package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A server that ends by itself is an error, with the last lines of its output.
func TestAServerThatEndsIsAnError(t *testing.T) {
	t.Parallel()
	w := &world{ctx: t.Context(), dir: t.TempDir()}
	const script = `trap 'echo its last words; exit 3' TERM; echo ready; while :; do sleep 0.01; done`
	f, err := w.run(subject{once: func(w *world) medians {
		p := w.start("the server", "addr", nil, "sh", "-c", script)
		eventually(w.ctx, "the trap", func() bool { return p.out.String() == "ready\n" })
		must(p.cmd.Process.Signal(syscall.SIGTERM))
		<-p.done
		return medians{"rate": 1}
	}, rows: []want{{"work", "rate", "/s", "", "", goal{}}}})
	text := fmt.Sprint(err)
	if !strings.Contains(text, "the server ended by itself (exit status 3)") || !strings.Contains(text, "its last words") {
		t.Errorf("%v and the error %v", f.measured, err)
	}
}

// An unexpected answer is an error and not a figure.
func TestALoadFailsByOneAnswer(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "reason")
	}))
	defer server.Close()
	to := []*process{{addr: server.Listener.Addr().String()}}
	one := side{callers: 1, servers: to, requests: [][]byte{request("POST", "/", "")}, status: http.StatusAccepted}
	var got sample
	err := attempt(func() { got = one.load(t.Context(), time.Hour) })
	if err == nil || !strings.Contains(err.Error(), "status 503 instead of 202: reason") {
		t.Errorf("%v and the error %v", got, err)
	}
}
