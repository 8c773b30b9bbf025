package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
)

// connections is how many keep-alive connections load the servers.
const connections = 64

// greeting is the event that is posted: one user, a text of its own.
const greeting = `{"type":"greeting","audience":{"users":["user-1"]},"alert":{"title":"Hello","body":"from the benchmark"}}`

// serveBare is the baseline of accept and of sale. For accept: chi, the body read, one XADD, an answer
// of the same size. It checks nothing, remembers nothing, promises nothing.
func serveBare(addrs string) error {
	addr, store, _ := strings.Cut(addrs, ",")
	client := redis.NewClient(&redis.Options{Addr: store, PoolSize: connections})
	router := chi.NewRouter()
	router.Post("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err == nil {
			err = client.XAdd(r.Context(), &redis.XAddArgs{Stream: "bare", Values: []any{"e", body}}).Err()
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, `{"id":"00000000000000000000000000000000"}`)
	})
	bareSales(router, client)
	server := &http.Server{Addr: addr, Handler: router, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// benchAccept compares POST /v1/events with the bare server, round by round.
// The process plays the role api alone, so that accepting is what is measured.
func benchAccept(ctx context.Context, w *world) ([]result, error) {
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	defer store.stop()
	server, err := w.fanfare(ctx, store, "FANFARE_ROLES=api")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	bare, err := w.bare(store)
	if err != nil {
		return nil, err
	}
	defer bare.stop()
	ours, theirs, err := w.rounds(ctx, server.addr, bare.addr)
	if err != nil {
		return nil, err
	}
	return []result{against("accept", "POST /v1/events", "req/s", ours, theirs, "bare chi handler with one XADD")}, nil
}

// rounds alternates between two servers and gives the medians.
func (w *world) rounds(ctx context.Context, ours, bare string) (float64, float64, error) {
	figures := map[string][]float64{}
	for round := range w.options.rounds + 1 {
		for _, addr := range []string{ours, bare} {
			body := request(http.MethodPost, addr, "/v1/events", []byte(greeting))
			rate, err := flood(ctx, addr, connections, http.StatusAccepted, w.seconds, func() []byte { return body })
			if err != nil {
				return 0, 0, err
			}
			if round > 0 { // the first is for warming up
				figures[addr] = append(figures[addr], rate)
			}
		}
	}
	return median(figures[ours]), median(figures[bare]), nil
}

// bare starts the baseline as a process of its own, as fanfare is one.
func (w *world) bare(store *process) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return w.start(addr, nil, self, "bare", addr+","+store.addr)
}
