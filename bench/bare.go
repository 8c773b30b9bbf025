package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
)

// child runs this program as a child process of itself. It serves the baselines, or it measures
// something and prints the figures.
func child(ctx context.Context, role string, args []string) {
	if role == "bare" {
		must(serveBare(args[0], args[1]))
	}
	measure := map[string]func(context.Context, string, string, time.Duration) sample{"send": childSend, "queue": childQueue}[role]
	must(json.NewEncoder(os.Stdout).Encode(measure(ctx, args[0], args[1], got(time.ParseDuration(args[2])))))
}

// The scripts of the baselines: the least work that any sale or chat has to do.
var (
	//go:embed lua/stock_decrement.lua
	decrementText string
	//go:embed lua/message_add.lua
	addText string
)

// bareServer serves the baselines over HTTP: chi and one Redis command for each request, without
// sharing round trips. The baselines check nothing and store nothing else. Their answers have as
// many bytes as those of fanfare.
type bareServer struct {
	client         *redis.Client
	decrement, add *redis.Script
}

// serveBare serves the baselines.
func serveBare(addr, store string) error {
	b := &bareServer{
		client:    redis.NewClient(&redis.Options{Addr: store, PoolSize: connections}),
		decrement: redis.NewScript(decrementText), add: redis.NewScript(addText),
	}
	router := chi.NewRouter()
	router.Post("/v1/events", b.event)
	router.Post("/v1/sales/{sale}/reservations", b.reserve)
	router.Post("/v1/sold-out/{sale}/reservations", b.refuse)
	router.Post("/v1/chats/{chat}/messages", b.message)
	router.Get("/v1/users/{user}/recent-contacts", b.recent)
	router.Get("/v1/hashes/{key}", b.hash)
	server := &http.Server{Addr: addr, Handler: router, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// answer writes JSON, or an error.
func answer(w http.ResponseWriter, status int, body string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// body reads at most 1 MiB.
func body(r *http.Request) ([]byte, error) { return io.ReadAll(io.LimitReader(r.Body, 1<<20)) }

// event runs one XADD.
func (b *bareServer) event(w http.ResponseWriter, r *http.Request) {
	text, err := body(r)
	if err == nil {
		err = b.client.XAdd(r.Context(), &redis.XAddArgs{Stream: "bare", Values: []any{"e", text}}).Err()
	}
	answer(w, http.StatusAccepted, `{"id":"00000000000000000000000000000000"}`, err)
}

// reserve runs one EVALSHA that takes a unit.
func (b *bareServer) reserve(w http.ResponseWriter, r *http.Request) {
	_, err := body(r)
	if err == nil {
		err = b.decrement.Run(r.Context(), b.client, []string{"bare:stock:" + chi.URLParam(r, "sale")}, 1).Err()
	}
	answer(w, http.StatusCreated, `{"id":"00000000000000000000000000000","user":"user-1","lines":[{"sku":"s","quantity":1}],"state":"held","expires_at":"2026-01-01T00:00:00.000Z"}`, err)
}

// refuse decodes a reservation and answers that everything is sold, without Redis.
func (b *bareServer) refuse(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		User  string `json:"user"`
		Lines []struct {
			SKU      string `json:"sku"`
			Quantity int64  `json:"quantity"`
		} `json:"lines"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&asked); err != nil || len(asked.Lines) == 0 {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "urn:fanfare:problem:sold_out", "title": "Sold out", "status": http.StatusConflict, "code": "sold_out",
		"available": map[string]int{asked.Lines[0].SKU: 0},
	})
}

// message runs one EVALSHA that gives the message an id and stores it.
func (b *bareServer) message(w http.ResponseWriter, r *http.Request) {
	var id int64
	text, err := body(r)
	if err == nil {
		chat := "bare:chat:" + chi.URLParam(r, "chat")
		id, err = b.add.Run(r.Context(), b.client, []string{chat + ":ids", chat}, text).Int64()
	}
	answer(w, http.StatusCreated, fmt.Sprintf(`{"id":%d,"sent_at":"2026-01-01T00:00:00.000Z"}`, id), err)
}

// recent runs one ZREVRANGE of ten members with scores.
func (b *bareServer) recent(w http.ResponseWriter, r *http.Request) {
	got, err := b.client.ZRevRangeWithScores(r.Context(), "bare:recent:"+chi.URLParam(r, "user"), 0, 9).Result()
	type item struct {
		Contact      any     `json:"contact"`
		Relationship string  `json:"relationship"`
		At           float64 `json:"last_upload_at"`
	}
	items := make([]item, len(got))
	for i, z := range got {
		items[i] = item{z.Member, "friend", z.Score}
	}
	text, e := json.Marshal(map[string]any{"items": items, "complete": true})
	answer(w, http.StatusOK, string(text), errors.Join(err, e))
}

// hash runs one HGETALL.
func (b *bareServer) hash(w http.ResponseWriter, r *http.Request) {
	fields, err := b.client.HGetAll(r.Context(), "bare:hash:"+chi.URLParam(r, "key")).Result()
	text, e := json.Marshal(fields)
	answer(w, http.StatusOK, string(text), errors.Join(err, e))
}
