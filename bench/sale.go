package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// buyers is how many users buy, none of them more often than a user may.
const buyers = 50_000

// plenty is stock that no run uses up.
const plenty = 1 << 40

// reservations renders a reservation of one unit for each of n users.
func reservations(path string, n int) func(int) []byte {
	rendered := make([][]byte, n)
	for i := range rendered {
		rendered[i] = request(http.MethodPost, path, fmt.Appendf(nil, `{"user":"user-%d","lines":[{"sku":"s","quantity":1}]}`, i))
	}
	var turn atomic.Int64
	return func(int) []byte { return rendered[turn.Add(1)%int64(n)] }
}

// buying is a load of reservations by 64 buyers at once.
func buying(path string, want int, addrs ...string) *load {
	return &load{addrs: addrs, connections: connections, want: want, next: reservations(path, buyers)}
}

// benchSale compares reservations over HTTP with a bare handler and one bounded
// decrement, and refusals after sold out with a bare handler without Redis.
func benchSale(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	if err := putStock(ctx, p.redis); err != nil {
		return found{}, err
	}
	if err := putSales(p.server.addr, sale{"open", plenty, 1}, sale{"empty", 0, 1}); err != nil {
		return found{}, err
	}
	const open, empty, bareEmpty = "/v1/sales/open/reservations", "/v1/sales/empty/reservations", "/v1/sold-out/empty/reservations"
	reserve := buying(open, http.StatusCreated, p.server.addr)
	m, err := w.turns(ctx,
		w.flood("reserve", reserve),
		w.flood("script", buying(open, http.StatusCreated, p.bare.addr)),
		w.flood("sold out", buying(empty, http.StatusConflict, p.server.addr)),
		w.flood("json", buying(bareEmpty, http.StatusConflict, p.bare.addr)))
	if err != nil {
		return found{}, err
	}
	reserve.rate = m.of("reserve", "rate") / 2
	half, err := w.turns(ctx, w.flood("half", reserve))
	return found{rows: []row{
		{"reservation, 64 buyers, one item", m.of("reserve", "rate"), "/s", m.of("script", "rate"), "bare chi handler, one ungathered EVALSHA", atLeast(1)},
		{"reservation at half the highest rate, p99", half.of("half", "p99"), "ms", 0, "", valueAtMost(5)},
		{"refusal after sold out", m.of("sold out", "rate"), "/s", m.of("json", "rate"), "bare chi handler that decodes and answers JSON, no Redis", atLeast(.7)},
	}}, err
}

// benchSaleProcesses compares three processes with the role api with one.
func benchSaleProcesses(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	var addrs []string
	for range 3 {
		p, err := w.fanfare(ctx, store, "FANFARE_ROLES=api", "FANFARE_DATABASE_URL=sqlite:"+store.cmd.Dir+"/fanfare.db")
		if err != nil {
			return found{}, err
		}
		addrs = append(addrs, p.addr)
	}
	if err := putSales(addrs[0], sale{"one", plenty, 1}, sale{"eight", plenty, 8}); err != nil {
		return found{}, err
	}
	m, err := w.turns(ctx,
		w.flood("once", buying("/v1/sales/one/reservations", http.StatusCreated, addrs[0])),
		w.flood("whole", buying("/v1/sales/one/reservations", http.StatusCreated, addrs...)),
		w.flood("split", buying("/v1/sales/eight/reservations", http.StatusCreated, addrs...)))
	once := m.of("once", "rate")
	return found{rows: []row{
		{"reservation on 3 API processes, 1 partition", m.of("whole", "rate"), "/s", once, "one process, 1 partition", atLeast(1)},
		{"reservation on 3 API processes, 8 partitions", m.of("split", "rate"), "/s", once, "one process, 1 partition", atLeast(1)},
	}}, err
}

// putStock fills the counter of the bare sale.
func putStock(ctx context.Context, store *process) error {
	client := redis.NewClient(&redis.Options{Addr: store.addr})
	defer client.Close()
	return client.Set(ctx, "bare:stock:open", plenty, 0).Err()
}

// sale is one to make: of one sku, open for a day, with a limit for each user.
type sale struct {
	id         string
	units      int64
	partitions int
}

func putSales(addr string, all ...sale) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	now := time.Now()
	for _, s := range all {
		body := fmt.Appendf(nil, `{"items":[{"sku":"s","stock":%d}],"starts_at":%q,"ends_at":%q,"per_user_limit":1000000,"partitions":%d}`,
			s.units, now.Add(-time.Hour).UTC().Format(time.RFC3339), now.Add(24*time.Hour).UTC().Format(time.RFC3339), s.partitions)
		if err := c.call(request(http.MethodPut, "/v1/sales/"+s.id, body), http.StatusCreated); err != nil {
			return fmt.Errorf("make sale %s: %w", s.id, err)
		}
	}
	return nil
}
