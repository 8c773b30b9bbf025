package devices

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ahead reads the cached settings of a few users in somebody else's round trip. Like a
// redis.Cmder it is not safe for concurrent use.
type Ahead struct {
	queries []Query
	gets    []*redis.SliceCmd
	at      time.Time // before they left; zero: they were not answered
}

// NewAhead makes the reading for queries without a Mark.
func NewAhead(queries []Query) *Ahead { return &Ahead{queries: queries} }

// Commands implements queue.Ahead.
func (a *Ahead) Commands(ctx context.Context) []redis.Cmder {
	a.gets = make([]*redis.SliceCmd, len(a.queries))
	cmds := make([]redis.Cmder, len(a.queries))
	for i, q := range a.queries {
		a.gets[i] = lookup(ctx, q)
		cmds[i] = a.gets[i]
	}
	return cmds
}

// Sent implements queue.Ahead.
func (a *Ahead) Sent(at time.Time) { a.at = at }

// At is a time before the users were read; zero: they were not.
func (a *Ahead) At() time.Time { return a.at }

// Targets answers the queries, in their order; false unless all were read and cached.
// now is Redis' time.
func (a *Ahead) Targets(now time.Time) ([]Target, bool) {
	if a.at.IsZero() {
		return nil, false
	}
	targets := make([]Target, len(a.queries))
	for i, q := range a.queries {
		hit := a.gets[i].Err() == nil
		if hit {
			targets[i], hit = decodeHit(q, a.gets[i].Val(), now.UnixMilli())
		}
		if !hit {
			return nil, false
		}
	}
	return targets, true
}
