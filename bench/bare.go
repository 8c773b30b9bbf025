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
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
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
	//go:embed lua/counter_add.lua
	countText string
)

// serveBare serves the baselines over HTTP: chi and one Redis command for each request, without
// sharing round trips. The baselines check nothing and store nothing else. Their answers have as
// many bytes as those of fanfare.
func serveBare(addr, store string) error {
	db := redis.NewClient(&redis.Options{Addr: store, PoolSize: connections})
	decrement, add, count := redis.NewScript(decrementText), redis.NewScript(addText), redis.NewScript(countText)
	router := chi.NewRouter()
	handle := func(method, path string, status int, answer func(r *http.Request, body []byte) (string, error)) {
		router.MethodFunc(method, path, func(w http.ResponseWriter, r *http.Request) {
			text := ""
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err == nil {
				text, err = answer(r, body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		})
	}
	handle("GET", "/readyz", http.StatusOK, func(*http.Request, []byte) (string, error) { return "", nil })
	handle("POST", "/v1/events", http.StatusAccepted, func(r *http.Request, body []byte) (string, error) {
		err := db.XAdd(r.Context(), &redis.XAddArgs{Stream: "bare", Values: []any{"e", body}}).Err()
		return `{"id":"00000000000000000000000000000000"}`, err
	})
	handle("POST", "/v1/sales/{sale}/reservations", http.StatusCreated, func(r *http.Request, _ []byte) (string, error) {
		err := decrement.Run(r.Context(), db, []string{"bare:stock:" + chi.URLParam(r, "sale")}, 1).Err()
		return `{"id":"00000000000000000000000000000","user":"user-1","lines":[{"sku":"s","quantity":1}],"state":"held","expires_at":"2026-01-01T00:00:00.000Z"}`, err
	})
	handle("POST", "/v1/counters/{counter}/add", http.StatusOK, func(r *http.Request, body []byte) (string, error) {
		var asked api.CounterAdd
		if err := json.Unmarshal(body, &asked); err != nil || asked.Delta == nil {
			return "", errors.Join(err, errors.New("nothing is added"))
		}
		n, err := count.Run(r.Context(), db, []string{"bare:counter:" + chi.URLParam(r, "counter")}, *asked.Delta, 0, api.MaxNumber).Int64()
		return fmt.Sprintf(`{"value":%d,"applied":%d}`, n, *asked.Delta), err
	})
	handle("POST", "/v1/sold-out/{sale}/reservations", http.StatusConflict, refuse)
	handle("POST", "/v1/chats/{chat}/messages", http.StatusCreated, func(r *http.Request, body []byte) (string, error) {
		chat := "bare:chat:" + chi.URLParam(r, "chat")
		id, err := add.Run(r.Context(), db, []string{chat + ":ids", chat}, body).Int64()
		return fmt.Sprintf(`{"id":%d,"sent_at":"2026-01-01T00:00:00.000Z"}`, id), err
	})
	handle("GET", "/v1/users/{user}/recent-contacts", http.StatusOK, func(r *http.Request, _ []byte) (string, error) {
		found, err := db.ZRevRangeWithScores(r.Context(), "bare:recent:"+chi.URLParam(r, "user"), 0, 9).Result()
		type item struct {
			Contact      any     `json:"contact"`
			Relationship string  `json:"relationship"`
			At           float64 `json:"last_upload_at"`
		}
		items := made(len(found), func(i int) item { return item{found[i].Member, "friend", found[i].Score} })
		text, _ := json.Marshal(map[string]any{"items": items, "complete": true})
		return string(text), err
	})
	handle("GET", "/v1/hashes/{key}", http.StatusOK, func(r *http.Request, _ []byte) (string, error) {
		fields, err := db.HGetAll(r.Context(), "bare:hash:"+chi.URLParam(r, "key")).Result()
		text, _ := json.Marshal(fields)
		return string(text), err
	})
	bareJobs(db, handle)
	server := &http.Server{Addr: addr, Handler: router, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// refuse decodes a reservation and answers that everything is sold, without Redis.
func refuse(_ *http.Request, body []byte) (string, error) {
	var asked api.ReservationRequest
	if err := json.Unmarshal(body, &asked); err != nil || len(asked.Lines) == 0 {
		return "", errors.Join(err, errors.New("nothing is asked for"))
	}
	text, err := json.Marshal(map[string]any{
		"type": "urn:fanfare:problem:sold_out", "title": "Sold out", "status": http.StatusConflict, "code": "sold_out",
		"available": map[string]int{asked.Lines[0].SKU: 0},
	})
	return string(text), err
}
