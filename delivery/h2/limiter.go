package h2

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrLimited says that enough requests are under way after the server asked for
// less.
var ErrLimited = errors.New("the server asked to slow down; enough requests are under way")

// recoverEvery is how long a limit stays before it grows by a tenth.
const recoverEvery = time.Second

// Limiter bounds how many requests of one kind are under way. There is no limit
// until the server asks for less: each round of such answers halves the limit,
// each second without one lets it grow by a tenth.
type Limiter struct {
	now func() time.Time

	mu       sync.Mutex
	inFlight int
	limit    int // 0: none
	round    int // rises with each halving
	changed  time.Time
	waiting  int
	room     chan struct{} // closed when a waiter should try again
}

// NewLimiter makes a limiter without a limit; now is its clock.
func NewLimiter(now func() time.Time) *Limiter {
	return &Limiter{now: now, room: make(chan struct{})}
}

// Enter waits until one more request may be under way and returns the round it
// belongs to. At most as many requests wait as may be under way; the others fail
// at once with ErrLimited, so that they do not fill up their caller.
func (l *Limiter) Enter(ctx context.Context) (round int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit > 0 && l.inFlight >= l.limit && l.waiting >= l.limit {
		return 0, ErrLimited
	}
	l.waiting++
	defer func() { l.waiting-- }()
	for l.limit > 0 && l.inFlight >= l.limit {
		room := l.room
		l.mu.Unlock()
		select {
		case <-room:
			l.mu.Lock()
		case <-ctx.Done():
			l.mu.Lock()
			return 0, ctx.Err()
		}
	}
	l.inFlight++
	return l.round, nil
}

// Leave ends a request that Enter let in.
func (l *Limiter) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	l.wake()
}

// wake lets all waiting requests try again. mu is held.
func (l *Limiter) wake() {
	if l.waiting > 0 {
		close(l.room)
		l.room = make(chan struct{})
	}
}

// Halve lowers the limit, once for all requests of a round.
func (l *Limiter) Halve(round int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if round != l.round {
		return
	}
	l.round++
	l.changed = l.now()
	if l.limit == 0 {
		l.limit = l.inFlight
	}
	l.limit = max(l.limit/2, 1)
}

// Succeed lets the limit grow when its time has come, until it binds no more.
func (l *Limiter) Succeed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit == 0 || l.now().Sub(l.changed) < recoverEvery {
		return
	}
	l.changed = l.now()
	l.limit += max(l.limit/10, 1)
	if l.limit >= MaxConns*MaxStreams {
		l.limit = 0
	}
	l.wake()
}

// State tells how many requests are under way and may be; limit 0: no limit.
func (l *Limiter) State() (inFlight, limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inFlight, l.limit
}
