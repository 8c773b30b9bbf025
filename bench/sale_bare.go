package main

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// bareStock is the counter of the bare sales, and bareUnits what it begins with.
const (
	bareStock = "bare:stock"
	bareUnits = 1 << 40
)

//go:embed lua/stock_decrement.lua
var decrementText string

// errBareSoldOut is for a counter that is used up.
var errBareSoldOut = errors.New("sold out")

// bareSales are the ways to sell that fanfare is compared with. They check
// nothing, remember nobody and promise nothing but not to go below zero.
func bareSales(router chi.Router, client *redis.Client) {
	decrement := redis.NewScript(decrementText)
	locks := redsync.New(goredis.NewPool(client))
	router.Post("/script", bareTake(func(ctx context.Context) error {
		n, err := decrement.Run(ctx, client, []string{bareStock}, 1).Int()
		if err == nil && n == 0 {
			err = errBareSoldOut
		}
		return err
	}))
	router.Post("/watch", bareTake(func(ctx context.Context) error { return takeWatching(ctx, client) }))
	router.Post("/lock", bareTake(func(ctx context.Context) error { return takeLocking(ctx, client, locks) }))
	router.Post("/json", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"type":"urn:fanfare:problem:sold_out","title":"Sold out","status":409,"code":"sold_out","available":{"s":0}}`)
	})
}

// bareTake answers 201 once take has taken a unit.
func bareTake(take func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			err = take(r.Context())
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"id":"0000000000000000000000000000","user":"user-1","lines":[{"sku":"s","quantity":1}],"state":"held"}`)
	}
}

// takeWatching reads, and decrements if nobody else did meanwhile, else begins
// again.
func takeWatching(ctx context.Context, client *redis.Client) error {
	for {
		err := client.Watch(ctx, func(tx *redis.Tx) error {
			left, err := tx.Get(ctx, bareStock).Int64()
			if err != nil {
				return err
			}
			if left < 1 {
				return errBareSoldOut
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.DecrBy(ctx, bareStock, 1)
				return nil
			})
			return err
		}, bareStock)
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

// takeLocking reads and decrements under a lock.
func takeLocking(ctx context.Context, client *redis.Client, locks *redsync.Redsync) error {
	mutex := locks.NewMutex("bare:lock", redsync.WithTries(1<<20), redsync.WithRetryDelay(lockRetry))
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	left, err := client.Get(ctx, bareStock).Int64()
	if err == nil && left < 1 {
		err = errBareSoldOut
	}
	if err == nil {
		err = client.DecrBy(ctx, bareStock, 1).Err()
	}
	_, e := mutex.UnlockContext(ctx)
	return errors.Join(err, e)
}
