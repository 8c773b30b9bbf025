// Package batch shares one piece of work among the callers that wait for it:
// what arrives while a run is under way goes with the next, so that a thousand
// small changes do not cost a thousand commits. At low load a call waits for
// nobody.
package batch

import (
	"context"
	"sync"
	"time"
)

// Group runs one batch after the other. All methods may be called by many
// goroutines at once.
type Group[T, R any] struct {
	o  Options
	do func(context.Context, []T) (R, error)

	mu      sync.Mutex
	waiting []*run[T, R] // the first leaves next; all but the last are full
	busy    bool
}

// Options bound a run.
type Options struct {
	Most    int           // items of one run; 0: any number
	Timeout time.Duration // of one run; must be set
}

// run is one batch and what became of it.
type run[T, R any] struct {
	items  []T
	done   chan struct{}
	result R // valid, as err, once done is closed
	err    error
}

// New makes a group whose runs are do's. Its context keeps the values of one
// of its callers and the end of none.
func New[T, R any](o Options, do func(context.Context, []T) (R, error)) *Group[T, R] {
	return &Group[T, R]{o: o, do: do}
}

// Do hands in an item and waits for the run that carries it, which begins after
// the call. The result and the error are the whole run's. Who gives up earlier
// gets his context's error; his item goes on with the others.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	mine := g.join(ctx, item)
	select {
	case <-mine.done:
		return mine.result, mine.err
	case <-ctx.Done():
		var none R
		return none, ctx.Err()
	}
}

// join adds an item to the last run that has room, and starts the runs if none
// is under way.
func (g *Group[T, R]) join(ctx context.Context, item T) *run[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	if n == 0 || g.o.Most > 0 && len(g.waiting[n-1].items) >= g.o.Most {
		g.waiting = append(g.waiting, &run[T, R]{done: make(chan struct{})})
		n++
	}
	mine := g.waiting[n-1]
	mine.items = append(mine.items, item)
	if !g.busy {
		g.busy = true
		go g.work(context.WithoutCancel(ctx))
	}
	return mine
}

// work makes runs until nobody waits.
func (g *Group[T, R]) work(ctx context.Context) {
	for now := g.next(); now != nil; now = g.next() {
		g.carry(ctx, now)
	}
}

// next takes the run that leaves next; without one the work has ended.
func (g *Group[T, R]) next() *run[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.busy = false
		return nil
	}
	now := g.waiting[0]
	g.waiting = g.waiting[1:]
	return now
}

func (g *Group[T, R]) carry(ctx context.Context, now *run[T, R]) {
	ctx, cancel := context.WithTimeout(ctx, g.o.Timeout)
	defer cancel()
	defer close(now.done)
	now.result, now.err = g.do(ctx, now.items)
}
