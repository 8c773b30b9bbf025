package redisdb

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/batch"
)

const (
	// crowdSize is how many callers one script answers: Redis does nothing else
	// meanwhile.
	crowdSize = 128
	// crowdWaits is how many round trips' deadlines a caller waits until he leaves.
	crowdWaits = 2
)

// Crowd gathers the callers of one script: those who come while it runs share the
// next.
type Crowd[T any] struct {
	db *DB
	of *batch.Crowd[T]
}

// NewCrowd makes a crowd whose script do runs, noting in each item what became of it;
// it may take that much longer than its round trip.
func NewCrowd[T any](db *DB, longer time.Duration, do func(context.Context, []T)) *Crowd[T] {
	wait := crowdWaits * db.Timeout()
	o := batch.Options{Most: crowdSize, Timeout: 2*wait + longer}
	return &Crowd[T]{db, batch.NewCrowd(o, wait, do)}
}

// Do hands in an item and waits until a script with it has run. A caller who gives up
// gets unknown_outcome if his item was under way, else unavailable: it is never done
// then.
func (c *Crowd[T]) Do(ctx context.Context, item T) error {
	left, err := c.of.Do(ctx, item)
	if err != nil && left {
		return api.Errorf(api.CodeUnknownOutcome, "Redis did not answer in time").Because(context.Cause(ctx))
	}
	return c.db.Err(err, Write)
}
