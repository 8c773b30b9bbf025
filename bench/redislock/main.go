// Command redislock serves locks over HTTP with bsm/redislock and a fence for each hold, for comparison: ADDRESS REDIS.
package main

import (
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
)

// acquired is an answer of as many bytes as that of fanfare.
type acquired struct {
	Token   string `json:"token"`
	Fence   int64  `json:"fence"`
	Attempt int    `json:"attempt"`
	LeaseMS int64  `json:"lease_ms"`
}

func main() {
	db := redis.NewClient(&redis.Options{Addr: os.Args[2], PoolSize: 64})
	locker, router := redislock.New(db), chi.NewRouter()
	var holds sync.Map // by token; here a hold belongs to the process
	router.Get("/readyz", func(http.ResponseWriter, *http.Request) {})
	router.Post("/v1/locks/{lock}/acquire", func(w http.ResponseWriter, r *http.Request) {
		name := chi.URLParam(r, "lock")
		var asked struct {
			LeaseMS int64 `json:"lease_ms"`
		}
		if !read(w, r, &asked) {
			return
		}
		lock, err := locker.Obtain(r.Context(), "bare:lock:"+name, time.Duration(asked.LeaseMS)*time.Millisecond, nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		holds.Store(lock.Token(), lock)
		fence, err := db.Incr(r.Context(), "bare:fence:"+name).Result()
		answer(w, acquired{lock.Token(), fence, 1, asked.LeaseMS}, err)
	})
	router.Post("/v1/locks/{lock}/release", func(w http.ResponseWriter, r *http.Request) {
		var held struct {
			Token string `json:"token"`
		}
		if !read(w, r, &held) {
			return
		}
		lock, known := holds.LoadAndDelete(held.Token)
		if !known {
			http.Error(w, "no such hold", http.StatusConflict)
			return
		}
		answer(w, map[string]string{"state": "free"}, lock.(*redislock.Lock).Release(r.Context()))
	})
	server := &http.Server{Addr: os.Args[1], Handler: router, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err = errors.Join(err, json.Unmarshal(body, into)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}

func answer(w http.ResponseWriter, what any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	text, _ := json.Marshal(what) // it has only numbers and texts
	_, _ = w.Write(text)
}
