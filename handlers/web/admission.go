package web

import (
	"sync/atomic"

	"fanfare/api"
)

// admission limits what is being answered: the number of requests, and the bytes
// of their bodies. What exceeds a limit is refused at once instead of waiting in
// a queue that grows.
//
// Bodies count as they arrive, whatever they announce. What one has beyond
// api.MaxBody is counted apart, in a quarter of the bytes there are: large bodies
// that never come to their end must not displace ordinary ones.
type admission struct {
	maxRequests               int64
	maxOrdinary, maxLarge     int64
	requests, ordinary, large atomic.Int64
}

func newAdmission(maxRequests, maxBytes int64) *admission {
	return &admission{maxRequests: maxRequests, maxOrdinary: maxBytes - maxBytes/4, maxLarge: maxBytes / 4}
}

// enter counts a request in; leave counts it out and must be called when
// err is nil.
func (l *admission) enter() error {
	return take(&l.requests, 1, l.maxRequests)
}

func (l *admission) leave() { l.requests.Add(-1) }

// grow counts bytes of a body that had `from` bytes and shall have `to`; shrink
// counts all of them out.
func (l *admission) grow(from, to int64) error {
	ordinary := min(to, api.MaxBody) - min(from, api.MaxBody)
	if err := take(&l.ordinary, ordinary, l.maxOrdinary); err != nil {
		return err
	}
	err := take(&l.large, to-from-ordinary, l.maxLarge)
	if err != nil {
		l.ordinary.Add(-ordinary)
	}
	return err
}

func (l *admission) shrink(from int64) {
	ordinary := min(from, api.MaxBody)
	l.ordinary.Add(-ordinary)
	l.large.Add(ordinary - from)
}

// take adds n to what is taken, within a limit.
func take(taken *atomic.Int64, n, limit int64) error {
	if taken.Add(n) > limit && n > 0 {
		taken.Add(-n)
		return overloaded()
	}
	return nil
}

func overloaded() error {
	e := api.Errorf(api.CodeOverloaded, "the server has as many requests as it can answer; try again")
	e.RetryAfter = retrySoon
	return e
}
