package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockRetry is how soon the lock-based way tries again: the default of 50 to 250
// ms would make it slower than it has to be.
const lockRetry = time.Millisecond

// buyers is how many users buy: none of them more often than a user may.
const buyers = 50_000

// benchSale compares reservations over HTTP with a bare handler and one
// bounded decrement, with the common ways to sell by a lock or by WATCH, and
// refusals after sold out with a bare handler that answers JSON.
func benchSale(ctx context.Context, w *world) ([]result, error) {
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
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	if err := client.Set(ctx, bareStock, bareUnits, 0).Err(); err != nil {
		return nil, err
	}
	for sale, units := range map[string]int64{"open": bareUnits, "empty": 0} {
		if err := putSale(ctx, server.addr, sale, units); err != nil {
			return nil, err
		}
	}
	rates, err := w.saleRounds(ctx, []contender{
		{"reserve", server.addr, "/v1/sales/open/reservations", http.StatusCreated},
		{"script", bare.addr, "/script", http.StatusCreated},
		{"lock", bare.addr, "/lock", http.StatusCreated},
		{"watch", bare.addr, "/watch", http.StatusCreated},
		{"sold out", server.addr, "/v1/sales/empty/reservations", http.StatusConflict},
		{"json", bare.addr, "/json", http.StatusConflict},
	})
	if err != nil {
		return nil, err
	}
	return []result{
		against("sale", "reserve", "req/s", rates["reserve"], rates["script"], "bare chi handler with one bounded decrement"),
		against("sale", "reserve", "req/s", rates["reserve"], rates["lock"], "chi handler with a lock (redsync), GET, DECRBY"),
		against("sale", "reserve", "req/s", rates["reserve"], rates["watch"], "chi handler with WATCH, GET, MULTI DECRBY"),
		against("sale", "after sold out", "req/s", rates["sold out"], rates["json"], "bare chi handler that answers JSON"),
	}, nil
}

// contender is one side of a comparison.
type contender struct {
	name, addr, path string
	want             int
}

// saleRounds lets the contenders take turns and gives their medians.
func (w *world) saleRounds(ctx context.Context, all []contender) (map[string]float64, error) {
	requests := make([][][]byte, len(all))
	for i, c := range all {
		requests[i] = make([][]byte, buyers)
		for n := range buyers {
			body := fmt.Appendf(nil, `{"user":"user-%d","lines":[{"sku":"s","quantity":1}]}`, n)
			requests[i][n] = request(http.MethodPost, c.addr, c.path, body)
		}
	}
	figures := map[string][]float64{}
	var turn atomic.Int64
	for round := range w.options.rounds + 1 {
		for i, c := range all {
			rate, err := flood(ctx, c.addr, connections, c.want, w.seconds, func() []byte { return requests[i][turn.Add(1)%buyers] })
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 { // the first is for warming up
				figures[c.name] = append(figures[c.name], rate)
			}
		}
	}
	medians := map[string]float64{}
	for name, values := range figures {
		medians[name] = median(values)
	}
	return medians, nil
}

// putSale makes a sale of one sku that is open for a day.
func putSale(ctx context.Context, addr, sale string, units int64) error {
	now := time.Now()
	body := fmt.Appendf(nil, `{"items":[{"sku":"s","stock":%d}],"starts_at":%q,"ends_at":%q}`, units,
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(24*time.Hour).Format(time.RFC3339))
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+addr+"/v1/sales/"+sale, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("make sale %s: %s", sale, resp.Status)
	}
	return nil
}
