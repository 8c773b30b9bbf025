package batch

import (
	"context"
	"sync/atomic"
	"time"
)

// Crowd is a Group of which every item has an answer of its own, and whose callers
// take items back that have not left yet.
type Crowd[T any] struct {
	group   *Group[*member[T], struct{}]
	maxWait time.Duration
	do      func(context.Context, []T)
}

// member is one caller's item.
type member[T any] struct {
	item  T
	since time.Time
	// decided: it has left, or never will. Who sets it decides.
	decided atomic.Bool
	late    bool // it waited too long; valid once its run has ended
}

// NewCrowd makes a crowd whose runs are do's, which notes in each item what became
// of it. An item that has waited longer than maxWait does not leave any more.
func NewCrowd[T any](o Options, maxWait time.Duration, do func(context.Context, []T)) *Crowd[T] {
	c := &Crowd[T]{maxWait: maxWait, do: do}
	c.group = New(o, c.carry)
	return c
}

// Do hands in an item and waits for the run that carries it. Beside an error, left
// tells whether the item is under way: a run may still work on it then, else none
// ever does.
func (c *Crowd[T]) Do(ctx context.Context, item T) (left bool, err error) {
	m := &member[T]{item: item, since: time.Now()}
	if _, err := c.group.Do(ctx, m); err != nil {
		return m.decided.Swap(true), err
	}
	if m.late {
		return false, context.DeadlineExceeded
	}
	return true, nil
}

// carry runs with the items whose callers are still there.
func (c *Crowd[T]) carry(ctx context.Context, members []*member[T]) (struct{}, error) {
	items, now := make([]T, 0, len(members)), time.Now()
	for _, m := range members {
		if m.decided.Swap(true) {
			continue
		}
		if m.late = now.Sub(m.since) > c.maxWait; !m.late {
			items = append(items, m.item)
		}
	}
	if len(items) > 0 {
		c.do(ctx, items)
	}
	return struct{}{}, nil
}
