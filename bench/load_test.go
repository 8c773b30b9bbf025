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

// A server that ends by itself is the error, and not what follows from it.
func TestAServerThatEndsIsAnError(t *testing.T) {
	t.Parallel()
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	err := attempt(func() {
		testWorld(t).run(subject{measure: func(w *world) sample {
			p := w.serve("the server", ready.Listener.Addr().String(), nil, "sleep", "60")
			must(p.cmd.Process.Signal(syscall.SIGTERM))
			<-p.done
			return sample{}
		}})
	})
	if text := fmt.Sprint(err); !strings.HasSuffix(text, "the server ended by itself (signal: terminated)") {
		t.Errorf("the error is %v", err)
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
