package batch

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"
)

// Crowd is a Group in which every item has an outcome of its own. A caller that gives up
// takes its item back if its run has not begun.
type Crowd[T any] struct {
	group   *Group[*member[T], struct{}]
	maxWait time.Duration
	do      func(context.Context, []T)
}

// member is one caller's item.
type member[T any] struct {
	ctx   context.Context
	item  T
	since time.Time
	// decided is set once: by the run that takes the item, or by the caller that
	// takes it back.
	decided atomic.Bool
	late    bool // the item waited too long, or its caller has given up; valid once its run has ended
}

// NewCrowd makes a crowd; do makes a run and notes the outcome in each item. A run does not
// take items that have waited longer than maxWait.
func NewCrowd[T any](o Options, maxWait time.Duration, do func(context.Context, []T)) *Crowd[T] {
	c := &Crowd[T]{maxWait: maxWait, do: do}
	c.group = New(o, c.carry)
	return c
}

// Do hands in an item and waits for its run. If there is an error, left says that a run has taken
// the item and may still work on it. If left is false, no run will take it.
func (c *Crowd[T]) Do(ctx context.Context, item T) (left bool, err error) {
	m := &member[T]{ctx: ctx, item: item, since: time.Now()}
	if _, err := c.group.Do(ctx, m); err != nil {
		return m.decided.Swap(true), err
	}
	if m.late {
		return false, cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	return true, nil
}

// carry makes a run with the items that were not taken back. It asks the callers' contexts, because the callers do so
// late (Late).
func (c *Crowd[T]) carry(ctx context.Context, members []*member[T]) (struct{}, error) {
	items, now := make([]T, 0, len(members)), time.Now()
	for _, m := range members {
		if m.decided.Swap(true) {
			continue
		}
		if m.late = m.ctx.Err() != nil || now.Sub(m.since) > c.maxWait; !m.late {
			items = append(items, m.item)
		}
	}
	if len(items) > 0 {
		c.do(ctx, items)
	}
	return struct{}{}, nil
}
