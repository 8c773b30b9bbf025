package web

import (
	"sync/atomic"

	"fanfare/api"
)

// admission limits the bytes of all bodies that are being answered. A body beyond the limit
// is refused at once instead of waiting in a queue that grows.
//
// Bodies count as they arrive, not by their announced length. The part of a body beyond
// api.MaxBody has a limit of its own, a quarter of the total, so that large bodies that
// never end do not displace ordinary ones.
type admission struct {
	maxOrdinary, maxLarge int64
	ordinary, large       atomic.Int64
}

func newAdmission(maxBytes int64) *admission {
	return &admission{maxOrdinary: maxBytes - maxBytes/4, maxLarge: maxBytes / 4}
}

// grow counts a body that grows from `from` to `to` bytes. shrink removes the body from the count.
func (a *admission) grow(from, to int64) error {
	ordinary := min(to, api.MaxBody) - min(from, api.MaxBody)
	if err := take(&a.ordinary, ordinary, a.maxOrdinary); err != nil {
		return err
	}
	err := take(&a.large, to-from-ordinary, a.maxLarge)
	if err != nil {
		a.ordinary.Add(-ordinary)
	}
	return err
}

func (a *admission) shrink(from int64) {
	ordinary := min(from, api.MaxBody)
	a.ordinary.Add(-ordinary)
	a.large.Add(ordinary - from)
}

// tooMuch is the message if the server has no place for a request or its body.
const tooMuch = "the server has as many requests as it can answer; try again"

// take adds n to taken unless that exceeds limit.
func take(taken *atomic.Int64, n, limit int64) error {
	if taken.Add(n) > limit && n > 0 {
		taken.Add(-n)
		e := api.Errorf(api.CodeOverloaded, tooMuch)
		e.RetryAfter = retrySoon
		return e
	}
	return nil
}
