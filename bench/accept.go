package main

import (
	"context"
	"net/http"
)

// greeting is the event that is posted: one user, a text of its own.
const greeting = `{"type":"greeting","audience":{"users":["user-1"]},"alert":{"title":"Hello","body":"from the benchmark"}}`

// pair is a fanfare, a bare server, and the Redis of both.
type pair struct{ redis, server, bare *process }

// pair starts all three.
func (w *world) pair(ctx context.Context, env ...string) (p pair, err error) {
	if p.redis, err = w.redis(); err != nil {
		return p, err
	}
	if p.server, err = w.fanfare(ctx, p.redis, env...); err != nil {
		return p, err
	}
	p.bare, err = w.bare(p.redis)
	return p, err
}

// flood is a side that sends a load.
func (*world) flood(name string, l *load) side {
	return side{name, l.run}
}

// benchAccept compares POST /v1/events with the bare server. The process plays
// the role api alone, so that accepting is what is measured.
func benchAccept(ctx context.Context, w *world) (found, error) {
	p, err := w.pair(ctx, "FANFARE_ROLES=api")
	if err != nil {
		return found{}, err
	}
	post := request(http.MethodPost, "/v1/events", []byte(greeting))
	m, err := w.turns(ctx,
		w.flood("ours", fixed(p.server.addr, http.StatusAccepted, post)),
		w.flood("bare", fixed(p.bare.addr, http.StatusAccepted, post)))
	const work, baseline = "POST /v1/events accepted, 64 callers, API role alone", "bare chi handler, one ungathered XADD"
	return found{rows: []row{
		{work, m.of("ours", "rate"), "/s", m.of("bare", "rate"), baseline, atLeast(1)},
		{work + ", p99", m.of("ours", "p99"), "ms", m.of("bare", "p99"), baseline, atMost(1)},
	}}, err
}
