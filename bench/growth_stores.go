package main

import (
	"context"
	"fmt"
	"net/http"
)

// growBuyers lets 1 to 10,000 buyers reserve at once, each on a connection, and
// as many be refused after sold out. Who is one too many is answered 503 and
// tries again at once.
func growBuyers(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	p, err := w.fanfare(ctx, store, "FANFARE_ROLES=api", "FANFARE_SALE_MAX_IN_FLIGHT=20000")
	if err != nil {
		return found{}, err
	}
	if err := putSales(p.addr, sale{"open", plenty, 1}, sale{"empty", 0, 1}); err != nil {
		return found{}, err
	}
	reserve := buying("/v1/sales/open/reservations", http.StatusCreated, p.addr)
	refuse := buying("/v1/sales/empty/reservations", http.StatusConflict, p.addr)
	reserve.also, refuse.also = http.StatusServiceUnavailable, http.StatusServiceUnavailable
	t := table{Head: []string{"buyers at once", "reservations /s", "p50 ms", "p99 ms", "turned away %", "refusals /s", "p50 ms", "p99 ms", "turned away %"}}
	for _, n := range w.sizes(1, 10, 100, 1000, 10_000) {
		reserve.connections, refuse.connections = n, n
		m, err := w.turns(ctx, w.flood("reserve", reserve), w.flood("refuse", refuse))
		if err != nil {
			return found{}, fmt.Errorf("%d: %w", n, err)
		}
		line := []string{count(n)}
		for _, side := range []string{"reserve", "refuse"} {
			line = append(line, text(m.of(side, "rate"), m.of(side, "p50"), m.of(side, "p99"), 100*m.of(side, "also"))...)
		}
		t.Lines = append(t.Lines, line)
	}
	return found{tables: []table{t}}, nil
}

// growMembers lets 64 callers send to one chat of 2 to 1,000 members.
func growMembers(ctx context.Context, w *world) (found, error) {
	store, err := w.redis()
	if err != nil {
		return found{}, err
	}
	p, err := w.fanfare(ctx, store, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	t := table{Head: []string{"members", "messages /s", "p50 ms", "p99 ms"}}
	for _, n := range w.sizes(2, 10, 100, 1000) {
		chat := fmt.Sprintf("of-%d", n)
		if err := each(ctx, p.addr, 1, func(c *caller, _ int) error { return putChat(c, chat, n) }); err != nil {
			return found{}, err
		}
		m, err := w.turns(ctx, w.flood("send", fixed(p.addr, http.StatusCreated, message(chat))))
		if err != nil {
			return found{}, err
		}
		t.Lines = append(t.Lines, append([]string{count(n)}, text(m.of("send", "rate"), m.of("send", "p50"), m.of("send", "p99"))...))
	}
	return found{tables: []table{t}}, nil
}

// growReaders sends to one chat that 100 to 10,000 streams follow.
func growReaders(ctx context.Context, w *world) (found, error) {
	t := table{Head: []string{"streams", "messages to readers /s", "fanfare µs each"}}
	for _, n := range w.sizes(100, 1000, 10_000) {
		line, err := w.readersOf(ctx, n)
		if err != nil {
			return found{}, fmt.Errorf("%d: %w", n, err)
		}
		t.Lines = append(t.Lines, append([]string{count(n)}, line...))
		w.reset()
	}
	return found{tables: []table{t}}, nil
}

// readersOf measures one number of streams.
func (w *world) readersOf(ctx context.Context, n int) ([]string, error) {
	r, err := w.readers(ctx, n)
	if err != nil {
		return nil, err
	}
	defer closeAll(r.conns)
	m, err := w.turns(ctx, side{"ours", r.round})
	return text(m.of("ours", "rate"), m.of("ours", "fanfare")), err
}
