package contacts

import (
	"context"
	"sync"
	"time"
)

// closer deletes outbox rows whose work is done: what arrives while one
// transaction is under way goes with the next, so that a thousand small jobs do
// not cost a thousand commits.
type closer struct {
	deleteRows func(context.Context, ...string) error

	mu      sync.Mutex
	waiting *closing
	busy    bool
}

// closing is the rows of one transaction.
type closing struct {
	rows []string
	done chan struct{}
	err  error // valid once done is closed
}

// closeTimeout bounds one transaction.
const closeTimeout = 10 * time.Second

// close deletes a row and returns when it is gone.
func (c *closer) close(ctx context.Context, row string) error {
	c.mu.Lock()
	if c.waiting == nil {
		c.waiting = &closing{done: make(chan struct{})}
	}
	mine := c.waiting
	mine.rows = append(mine.rows, row)
	if !c.busy {
		c.busy = true
		go c.run(context.WithoutCancel(ctx))
	}
	c.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run makes transactions until nobody waits.
func (c *closer) run(ctx context.Context) {
	for {
		c.mu.Lock()
		now := c.waiting
		c.waiting = nil
		c.busy = now != nil
		c.mu.Unlock()
		if now == nil {
			return
		}
		now.err = c.transact(ctx, now.rows)
		close(now.done)
	}
}

func (c *closer) transact(ctx context.Context, rows []string) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return c.deleteRows(ctx, rows...)
}
