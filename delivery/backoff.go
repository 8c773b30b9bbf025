package delivery

import (
	"math/rand/v2"
	"sync"
	"time"
)

// maxBackoffs is from how many devices on the expired backoffs are forgotten, at
// first: while more than half of them are not expired, from twice as many.
const maxBackoffs = 10_000

// backoffs are the devices whose push service asked to slow down, as answers told this
// process. Another process that sends to the device learns it from an answer of its own:
// to know before, each send would have to ask Redis.
type backoffs struct {
	base, most time.Duration
	mu         sync.Mutex
	devices    map[string]backoff
	sweepAt    int // devices
}

type backoff struct {
	times int
	until time.Time
}

func newBackoffs(base, most time.Duration) *backoffs {
	return &backoffs{base: base, most: most, devices: map[string]backoff{}, sweepAt: maxBackoffs}
}

// wait is how long a device still backs off; 0: it does not.
func (b *backoffs) wait(token string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.devices[token].until.Sub(now))
}

// next makes a device back off: exponentially longer each time, with full jitter,
// and at least as long as the service asked for.
func (b *backoffs) next(token string, asked time.Duration, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.devices) >= b.sweepAt {
		b.sweep(now)
	}
	d := b.devices[token]
	limit := b.base
	for n := 0; n < d.times && limit < b.most; n++ {
		limit *= 2
	}
	delay := max(asked, Jitter(min(limit, b.most)))
	b.devices[token] = backoff{times: d.times + 1, until: now.Add(delay)}
	return delay
}

// sweep forgets backoffs that ended long ago. As many devices must come before the
// next as are left, so that a refusal does not pay for all. The caller holds the lock.
func (b *backoffs) sweep(now time.Time) {
	for token, d := range b.devices {
		if now.Sub(d.until) > b.most {
			delete(b.devices, token)
		}
	}
	b.sweepAt = max(maxBackoffs, 2*len(b.devices))
}

// forget ends a device's backoff after a success.
func (b *backoffs) forget(token string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.devices) > 0 {
		delete(b.devices, token)
	}
}

// Jitter is a random part of d, at least a millisecond.
func Jitter(d time.Duration) time.Duration {
	return time.Millisecond + rand.N(max(d, time.Millisecond))
}
