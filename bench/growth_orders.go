package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// growOrders reads and goes on with sales of 1 to 1,000,000 orders, and brings
// them back after Redis lost everything.
func growOrders(ctx context.Context, w *world) (found, error) {
	t := table{Head: []string{"orders", "sold and recorded /s", "GET sale p50 ms", "GET orders p50 ms", "reservations /s", "Redis bytes each", "back after a loss s"}}
	for _, n := range w.sizes(1, 1000, 100_000, 1_000_000) {
		line, err := w.orders(ctx, n)
		if err != nil {
			return found{}, fmt.Errorf("%d: %w", n, err)
		}
		t.Lines = append(t.Lines, append([]string{count(n)}, line...))
		w.reset()
	}
	return found{tables: []table{t}}, nil
}

// orders measures one size.
func (w *world) orders(ctx context.Context, n int) ([]string, error) {
	store, err := w.redis()
	if err != nil {
		return nil, err
	}
	p, err := w.fanfare(ctx, store, "FANFARE_SALE_LOCAL=off")
	if err != nil {
		return nil, err
	}
	if err := putSales(p.addr, sale{"open", plenty, 1}); err != nil {
		return nil, err
	}
	sold, each, err := sell(ctx, p, store, n)
	if err != nil {
		return nil, err
	}
	read, list := fixed(p.addr, http.StatusOK, request(http.MethodGet, "/v1/sales/open", nil)), fixed(p.addr, http.StatusOK, request(http.MethodGet, "/v1/sales/open/orders", nil))
	read.connections, list.connections = 1, 1
	m, err := w.turns(ctx, w.flood("read", read), w.flood("list", list), w.flood("reserve", buying("/v1/sales/open/reservations", http.StatusCreated, p.addr)))
	if err != nil {
		return nil, err
	}
	back, err := lose(ctx, p, store)
	return text(sold, m.of("read", "p50"), m.of("list", "p50"), m.of("reserve", "rate"), each, back.Seconds()), err
}

// sell sells one unit each to n users and waits until all orders are on record:
// orders a second, and what each takes of Redis.
func sell(ctx context.Context, p, store *process, n int) (rate, bytes float64, err error) {
	before, err := usedMemory(ctx, store)
	if err != nil {
		return 0, 0, err
	}
	var user atomic.Int64
	began := time.Now()
	err = each(ctx, p.addr, n, func(c *caller, _ int) error {
		body := fmt.Appendf(nil, `{"user":"buyer-%d","lines":[{"sku":"s","quantity":1}]}`, user.Add(1))
		if err := c.call(request(http.MethodPost, "/v1/sales/open/reservations", body), http.StatusCreated); err != nil {
			return err
		}
		var r struct{ ID string }
		if err := json.Unmarshal(c.body, &r); err != nil {
			return err
		}
		return c.call(request(http.MethodPost, "/v1/sales/open/reservations/"+r.ID+"/confirm", nil), http.StatusOK)
	})
	if err != nil {
		return 0, 0, err
	}
	if err := recorded(ctx, p); err != nil {
		return 0, 0, err
	}
	rate = float64(n) / time.Since(began).Seconds()
	after, err := usedMemory(ctx, store)
	return rate, max(after-before, 1) / float64(n), err
}

// recorded waits until no order is owed to SQL.
func recorded(ctx context.Context, p *process) error {
	return eventually(ctx, 10*time.Minute, "all orders to be on record", func() (bool, error) {
		time.Sleep(50 * time.Millisecond) // the question has a price
		resp, err := http.Get("http://" + p.addr + "/v1/stats")
		if err != nil {
			return false, err
		}
		defer resp.Body.Close()
		var stats struct {
			Sales struct {
				Waiting int `json:"waiting_orders"`
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&stats)
		return stats.Sales.Waiting == 0, err
	})
}

// lose empties Redis and gives the time until the sale is there again.
func lose(ctx context.Context, p, store *process) (time.Duration, error) {
	client := redis.NewClient(&redis.Options{Addr: store.addr, ReadTimeout: time.Minute})
	defer client.Close()
	if err := client.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	c, err := dial(p.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	began := time.Now()
	err = eventually(ctx, 10*time.Minute, "the sale to be back", func() (bool, error) {
		err := c.call(request(http.MethodGet, "/v1/sales/open", nil), http.StatusOK)
		if err != nil && strings.Contains(err.Error(), `"code":"unavailable"`) {
			return false, nil // it is being read from the record
		}
		return err == nil, err
	})
	return time.Since(began), err
}
