package redisdb

import (
	"context"
	"time"

	"fanfare/api"
	"fanfare/store/batch"
)

const (
	// crowdSize bounds the callers of one script: Redis does nothing else while it runs.
	crowdSize = 128
	// crowdWaits bounds how long an item may wait until its run begins, in time-outs of a
	// round trip.
	crowdWaits = 2
)

// Crowd gathers the callers of one script: callers that arrive while it runs share the next
// run.
type Crowd[T any] struct {
	db *DB
	of *batch.Crowd[T]
}

// NewCrowd makes a crowd. do runs the script for several items and records the outcome in each. In
// addition to its round trip it may take the time longer.
func NewCrowd[T any](db *DB, longer time.Duration, do func(context.Context, []T)) *Crowd[T] {
	wait := crowdWaits * db.Timeout()
	o := batch.Options{Most: crowdSize, Timeout: 2*wait + longer}
	return &Crowd[T]{db, batch.NewCrowd(o, wait, do)}
}

// Do hands in an item and waits until a script has run with it. When ctx ends before that,
// the error is unknown_outcome if the item is under way. Otherwise it is unavailable, and
// the item is never done.
func (c *Crowd[T]) Do(ctx context.Context, item T) error {
	left, err := c.of.Do(ctx, item)
	if err != nil && left {
		return api.Errorf(api.CodeUnknownOutcome, "Redis did not answer in time").Because(context.Cause(ctx))
	}
	return c.db.Err(err, Write)
}
