package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// benchReads compares the reading of an event and of a sale with a bare handler
// that reads a hash.
func benchReads(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx)
	if err != nil {
		return found{}, err
	}
	if err := putSales(p.server.addr, sale{"open", plenty, 1}); err != nil {
		return found{}, err
	}
	if err := putHashes(ctx, p.redis); err != nil {
		return found{}, err
	}
	ids, err := postEvents(ctx, p.server.addr, 1000)
	if err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx,
		w.flood("event", getting(p.server.addr, "/v1/events/", ids)),
		w.flood("event hash", getting(p.bare.addr, "/v1/hashes/", []string{"event"})),
		w.flood("sale", getting(p.server.addr, "/v1/sales/", []string{"open"})),
		w.flood("sale hash", getting(p.bare.addr, "/v1/hashes/", []string{"sale"})))
	const baseline = "bare chi handler, one HGETALL"
	return found{rows: []row{
		{"GET /v1/events/{id}", m.of("event", "rate"), "/s", m.of("event hash", "rate"), baseline, atLeast(.8)},
		{"GET /v1/sales/{id}", m.of("sale", "rate"), "/s", m.of("sale hash", "rate"), baseline, atLeast(.8)},
	}}, err
}

// getting is a load of GETs of some names under a path.
func getting(addr, path string, names []string) *load {
	rendered := make([][]byte, len(names))
	for i, name := range names {
		rendered[i] = request(http.MethodGet, path+name, nil)
	}
	var turn atomic.Int64
	return &load{addrs: []string{addr}, connections: connections, want: http.StatusOK, next: func(int) []byte {
		return rendered[turn.Add(1)%int64(len(rendered))]
	}}
}

// putHashes stores what the bare handler reads: about as much as an event's
// report and a sale.
func putHashes(ctx context.Context, store *process) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	event := map[string]any{
		"id": "00000000000000000000000000000000", "type": "greeting", "state": "done", "recipients": 1, "notifications": 1,
		"delivered": 1, "failed": 0, "expired": 0, "retrying": 0, "no_device": 0,
	}
	sale := map[string]any{
		"id": "open", "state": "open", "sku": "s", "total": plenty, "available": plenty, "held": 0, "sold": 0,
		"starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2026-01-02T00:00:00.000Z", "version": 1,
	}
	return errors.Join(client.HSet(ctx, "bare:hash:event", event).Err(), client.HSet(ctx, "bare:hash:sale", sale).Err())
}

// postEvents posts n events, waits until all are done, and gives their ids.
func postEvents(ctx context.Context, addr string, n int) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	body := request(http.MethodPost, "/v1/events", []byte(greeting))
	err := each(ctx, addr, n, func(c *caller, _ int) error {
		if err := c.call(body, http.StatusAccepted); err != nil {
			return err
		}
		var accepted struct{ ID string }
		err := json.Unmarshal(c.body, &accepted)
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, accepted.ID)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ids, each(ctx, addr, n, func(c *caller, i int) error {
		return eventually(ctx, 30*time.Second, "an event to be done", func() (bool, error) {
			if err := c.call(request(http.MethodGet, "/v1/events/"+ids[i], nil), http.StatusOK); err != nil {
				return false, err
			}
			var report struct{ State string }
			err := json.Unmarshal(c.body, &report)
			return report.State == "done", err
		})
	})
}
