package sales

import (
	"hash/maphash"
	"sync"
	"time"

	"fanfare/api"
)

const (
	// limitWindow is the time in which a user may try api.MaxUserTries times.
	limitWindow = time.Second
	// limiterShards keep buyers from waiting for one mutex.
	limiterShards = 64
)

// userLimiter counts the attempts to reserve, per user and sale. It remembers a user
// for one to two windows, so its size follows the rate of requests.
type userLimiter struct {
	once   sync.Once
	seed   maphash.Seed
	began  time.Time
	shards [limiterShards]limiterShard
}

type limiterShard struct {
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
	t.once.Do(func() { t.seed, t.began = maphash.MakeSeed(), time.Now() })
	b := buyer{sale, user}
	return t.shards[maphash.Comparable(t.seed, b)%limiterShards].allow(b, time.Since(t.began))
}

func (s *limiterShard) allow(b buyer, now time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of(b, now)
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
func (s *limiterShard) of(b buyer, now time.Duration) *attempts {
	if s.now == nil || now-s.turned >= limitWindow {
		s.past, s.now, s.turned = s.now, make(map[buyer]*attempts, len(s.now)), now
	}
	a := s.now[b]
	if a == nil {
		if a = s.past[b]; a == nil {
			a = &attempts{}
		}
		s.now[b] = a
	}
	return a
}

// errBusy refuses a reservation because too many are under way.
func errBusy() error {
	e := api.Errorf(api.CodeOverloaded, "more reservations are under way than this server takes at once; try again")
	e.RetryAfter = time.Second
	return e
}
