package sales

import (
	"sync"
	"time"

	"fanfare/api"
)

// limitWindow is the time in which a user may try api.MaxUserTries times.
const limitWindow = time.Second

// userLimiter counts the attempts to reserve, per user and sale. It remembers a user
// for one to two windows, so its size follows the rate of requests.
type userLimiter struct {
	began time.Time // before the first attempt

	mu        sync.Mutex
	turned    time.Duration
	now, past map[buyer]*attempts
}

type buyer struct{ sale, user string }

// attempts is a ring of the times of a user's last tries, since began.
type attempts struct {
	at   [api.MaxUserTries]time.Duration
	next int
}

// allow counts one attempt; CodeRateLimited when the user has made as many in the last second as
// are allowed. Refused attempts do not count.
func (t *userLimiter) allow(sale, user string) error {
	return t.allowAt(buyer{sale, user}, time.Since(t.began))
}

func (t *userLimiter) allowAt(b buyer, now time.Duration) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.of(b, now)
	oldest := a.at[a.next]
	if oldest != 0 && now-oldest < limitWindow {
		e := api.Errorf(api.CodeRateLimited, "a user may try %d times a second", api.MaxUserTries)
		e.RetryAfter = max(oldest+limitWindow-now, time.Millisecond)
		return e
	}
	a.at[a.next] = max(now, 1)
	a.next = (a.next + 1) % len(a.at)
	return nil
}

// of finds a buyer's attempts. Buyers without an attempt for two windows are forgotten.
func (t *userLimiter) of(b buyer, now time.Duration) *attempts {
	if t.now == nil || now-t.turned >= limitWindow {
		t.past, t.now, t.turned = t.now, make(map[buyer]*attempts, len(t.now)), now
	}
	a := t.now[b]
	if a == nil {
		if a = t.past[b]; a == nil {
			a = &attempts{}
		}
		t.now[b] = a
	}
	return a
}
