package apns

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errSlowed says that an app which APNs asked to slow down has enough under way.
var errSlowed = errors.New("APNs asked to slow down; enough is under way for this app")

// recoverEvery is how long an app's limit stays before it grows by a tenth.
const recoverEvery = time.Second

// gate bounds how many requests of one app are under way. It is open until
// APNs answers 503 ServiceUnavailable: each round of such answers halves the
// limit, each second without one lets it grow by a tenth.
type gate struct {
	now func() time.Time

	mu       sync.Mutex
	inFlight int
	limit    int // 0: none
	round    int // rises with each halving
	changed  time.Time
	waiting  int
	room     chan struct{} // closed when a waiter should look again
}

// newGate makes an open gate.
func newGate(now func() time.Time) *gate { return &gate{now: now, room: make(chan struct{})} }

// enter takes a place and returns the round it belongs to. As many requests as
// have a place may wait for one; more fail at once with errSlowed, so that one
// slow app can't hold everyone.
func (g *gate) enter(ctx context.Context) (round int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit > 0 && g.inFlight >= g.limit && g.waiting >= g.limit {
		return 0, errSlowed
	}
	g.waiting++
	defer func() { g.waiting-- }()
	for g.limit > 0 && g.inFlight >= g.limit {
		room := g.room
		g.mu.Unlock()
		select {
		case <-room:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			return 0, ctx.Err()
		}
	}
	g.inFlight++
	return g.round, nil
}

// leave gives the place back.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.wake()
}

// wake lets all who wait look again; there are never more than places.
func (g *gate) wake() {
	if g.waiting > 0 {
		close(g.room)
		g.room = make(chan struct{})
	}
}

// halve lowers the limit, once for all requests of a round.
func (g *gate) halve(round int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if round != g.round {
		return
	}
	g.round++
	g.changed = g.now()
	if g.limit == 0 {
		g.limit = g.inFlight
	}
	g.limit = max(g.limit/2, 1)
}

// succeed lets the limit grow when its time has come, until it binds no more.
func (g *gate) succeed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit == 0 || g.now().Sub(g.changed) < recoverEvery {
		return
	}
	g.changed = g.now()
	g.limit += max(g.limit/10, 1)
	if g.limit >= maxConns*maxStreamsPerConn {
		g.limit = 0
	}
	g.wake()
}

// state is for AppState; limit 0 means that the gate is open.
func (g *gate) state() (inFlight, limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inFlight, g.limit
}
