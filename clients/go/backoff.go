package fanfare

import (
	"context"
	"math/rand/v2"
	"time"
)

// jitter is a random wait before another attempt, of at most first, twice that after the next failure, and so on up to
// most. So many clients do not come back at once.
func jitter(first, most time.Duration, failures int) time.Duration {
	limit := most
	if failures < 32 {
		if d := first << failures; d > 0 && d < most && d>>failures == first {
			limit = d
		}
	}
	return rand.N(max(limit, 1))
}

// pause waits, and is false if ctx ends before, or would end before: then nothing is gained by waiting.
func pause(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
