// Package batch lets callers share a piece of work. Items that arrive while a run is under way wait
// and are part of the next run, so that a thousand small changes do not need a thousand commits. At
// low load nobody waits. Options allow a full run to begin while the previous one is still under
// way, and any run to begin while another one hangs. A Group has one result for all items of a run,
// and a Crowd has a result for each item.
package batch

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Group runs batches. It is safe for concurrent use.
type Group[T, R any] struct {
	o  Options
	do func(context.Context, []T) (R, error)

	mu      sync.Mutex
	waiting []*run[T, R] // the first leaves next; all but the last are full
	running int
	slow    int       // running batches past Patience; others may start beside them
	ended   time.Time // the latest run, if there is a Rest
}

// Options are the limits of a run.
type Options struct {
	Most    int           // items of one run; 0: any number
	Timeout time.Duration // of one run; must be set
	// Abreast is how many runs may be under way at once, 1 or less: one. A run
	// begins beside another only when it is full, so that runs do not get small.
	Abreast int
	// Patience is how long the next run waits for one that is under way. Then it begins, full or
	// not. 0: it waits until that run has ended.
	Patience time.Duration
	// Rest is the least time from the end of a run to the beginning of the next one.
	Rest time.Duration
}

// run is one batch and its result.
type run[T, R any] struct {
	items  []T
	done   chan struct{}
	late   *Late
	result R // valid, as err, once done is closed
	err    error
}

// New makes a group; do makes a run. The context of a run has the values of one caller's
// context, and no caller can end it.
func New[T, R any](o Options, do func(context.Context, []T) (R, error)) *Group[T, R] {
	return &Group[T, R]{o: o, do: do}
}

// Do hands in an item and waits for its run, which begins after the call. The result and the
// error are those of the whole run. When ctx ends first, Do returns its error, up to 20 ms
// late, and the item stays in its run.
func (g *Group[T, R]) Do(ctx context.Context, item T) (R, error) {
	mine := g.join(ctx, item)
	if mine.late.Wait(mine.done) {
		return mine.result, mine.err
	}
	select {
	case <-mine.done:
		return mine.result, mine.err
	case <-ctx.Done():
	}
	select {
	case <-mine.done: // both at once: the result counts
		return mine.result, mine.err
	default:
		var none R
		return none, ctx.Err()
	}
}

// join adds an item to the last run if it is not full, or else to a new one, and starts the runs if
// none is under way.
func (g *Group[T, R]) join(ctx context.Context, item T) *run[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := len(g.waiting)
	if n == 0 || g.o.Most > 0 && len(g.waiting[n-1].items) >= g.o.Most {
		g.waiting = append(g.waiting, &run[T, R]{done: make(chan struct{}), late: NewLate()})
		n++
	}
	mine := g.waiting[n-1]
	mine.items = append(mine.items, item)
	if g.running == g.slow || g.full() {
		g.begin(context.WithoutCancel(ctx))
	}
	return mine
}

// begin starts the next run unless Abreast runs are under way. It needs the lock.
func (g *Group[T, R]) begin(ctx context.Context) {
	if len(g.waiting) > 0 && g.running < max(1, g.o.Abreast) {
		g.running++
		go g.work(ctx)
	}
}

// Waiting is how many items wait for a run.
func (g *Group[T, R]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, r := range g.waiting {
		n += len(r.items)
	}
	return n
}

// full reports whether the next run can take no more items.
func (g *Group[T, R]) full() bool {
	return g.o.Most > 0 && len(g.waiting[0].items) >= g.o.Most
}

// work makes runs until no run waits that may begin now.
func (g *Group[T, R]) work(ctx context.Context) {
	for {
		runtime.Gosched() // many callers often wake at once: let them join this run
		g.rest()
		now := g.next()
		if now == nil {
			return
		}
		g.carry(ctx, now)
	}
}

// rest waits until the next run may begin.
func (g *Group[T, R]) rest() {
	if g.o.Rest > 0 {
		g.mu.Lock()
		ended := g.ended
		g.mu.Unlock()
		time.Sleep(time.Until(ended.Add(g.o.Rest))) //nolint:forbidigo // nothing ends a rest
	}
}

// next takes the next run; nil ends the work.
func (g *Group[T, R]) next() *run[T, R] {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 || g.running-g.slow > 1 && !g.full() {
		g.running--
		return nil
	}
	now := g.waiting[0]
	g.waiting = slices.Delete(g.waiting, 0, 1) // which also forgets it, with its items and its result
	return now
}

func (g *Group[T, R]) carry(ctx context.Context, now *run[T, R]) {
	limited, cancel := context.WithTimeout(ctx, g.o.Timeout)
	defer cancel()
	defer close(now.done)
	if g.o.Patience > 0 {
		late := time.AfterFunc(g.o.Patience, func() { g.isSlow(ctx, 1) })
		defer func() {
			if !late.Stop() {
				g.isSlow(ctx, -1)
			}
		}()
	}
	now.result, now.err = g.do(limited, now.items)
	now.late.Stop()
	if g.o.Rest > 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.ended = time.Now()
	}
}

// isSlow counts one more run past Patience, or one less.
func (g *Group[T, R]) isSlow(ctx context.Context, more int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.slow += more; g.running == g.slow {
		g.begin(ctx)
	}
}
