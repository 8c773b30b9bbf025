// Command locks serves locks over HTTP with a library and a fence for each hold, for comparison: redislock|redsync ADDRESS REDIS.
package main

import (
	"context"
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
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// acquired is an answer of as many bytes as that of fanfare.
type acquired struct {
	Token   string `json:"token"`
	Fence   int64  `json:"fence"`
	Attempt int    `json:"attempt"`
	LeaseMS int64  `json:"lease_ms"`
}

// obtain tries once to get a lock.
type obtain func(ctx context.Context, name string, lease time.Duration) (token string, release func(context.Context) error, err error)

// libraries are the ways to get a lock, by the name of the library.
var libraries = map[string]func(db *redis.Client) obtain{
	"redislock": func(db *redis.Client) obtain {
		locker := redislock.New(db)
		return func(ctx context.Context, name string, lease time.Duration) (string, func(context.Context) error, error) {
			lock, err := locker.Obtain(ctx, name, lease, nil)
			if err != nil {
				return "", nil, err
			}
			return lock.Token(), lock.Release, nil
		}
	},
	"redsync": func(db *redis.Client) obtain {
		all := redsync.New(goredis.NewPool(db))
		return func(ctx context.Context, name string, lease time.Duration) (string, func(context.Context) error, error) {
			mutex := all.NewMutex(name, redsync.WithExpiry(lease))
			if err := mutex.TryLockContext(ctx); err != nil {
				return "", nil, err
			}
			return mutex.Value(), func(ctx context.Context) error {
				_, err := mutex.UnlockContext(ctx)
				return err
			}, nil
		}
	},
}

func main() {
	db := redis.NewClient(&redis.Options{Addr: os.Args[3], PoolSize: 64})
	lock, router := libraries[os.Args[1]](db), chi.NewRouter()
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
		token, release, err := lock(r.Context(), "bare:lock:"+name, time.Duration(asked.LeaseMS)*time.Millisecond)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		holds.Store(token, release)
		fence, err := db.Incr(r.Context(), "bare:fence:"+name).Result()
		answer(w, acquired{token, fence, 1, asked.LeaseMS}, err)
	})
	router.Post("/v1/locks/{lock}/release", func(w http.ResponseWriter, r *http.Request) {
		var held struct {
			Token string `json:"token"`
		}
		if !read(w, r, &held) {
			return
		}
		release, known := holds.LoadAndDelete(held.Token)
		if !known {
			http.Error(w, "no such hold", http.StatusConflict)
			return
		}
		answer(w, map[string]string{"state": "free"}, release.(func(context.Context) error)(r.Context()))
	})
	server := &http.Server{Addr: os.Args[2], Handler: router, ReadHeaderTimeout: 5 * time.Second}
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
