package delivery

import (
	"math/rand/v2"
	"sync"
	"time"
)

// maxBackoffs is the number of entries at which expired backoffs are first swept. When more than
// half of the entries survive a sweep, the next sweep waits until their number has doubled.
const maxBackoffs = 10_000

// backoffs holds the devices for which the push service asked this process to slow down. Other
// processes get such answers themselves: sharing them would cost a read of Redis for each send.
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

// wait returns how long a device still has to back off, 0 if it may be sent to now.
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

// sweep forgets backoffs that ended long ago. The next sweep waits until the number of entries
// has doubled, so that its cost is spread over many refusals. The caller holds the lock.
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
