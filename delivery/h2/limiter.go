package h2

import (
	"container/list"
	"errors"
	"fmt"
	"time"
)

// ErrLimited says that the server asked to slow down, and that enough requests are under way.
var ErrLimited = errors.New("the server asked to slow down; enough requests are under way")

// RestError ends the waiting of a request whose limiter rests.
type RestError struct{ Left time.Duration }

// Error says how long the rest lasts.
func (e *RestError) Error() string {
	return fmt.Sprintf("the server asked to send nothing for another %v", e.Left.Round(time.Millisecond))
}

const (
	// recoverEvery is how long a limit stays before it grows by a tenth.
	recoverEvery = time.Second
	// coldAfter is after how long without a request a limiter is cold, see Limiter.StartWith.
	coldAfter = time.Minute
)

// Pace is what an answer says about how many requests may be under way.
type Pace uint8

// The paces.
const (
	// Unsaid: the answer says nothing about the pace.
	Unsaid Pace = iota
	// Fine: the server keeps up.
	Fine
	// Slower: the server asked for fewer requests.
	Slower
)

// Limiter limits how many requests of one kind are under way. There is no limit until the server asks
// for fewer requests. Each round of such answers halves the limit, and it grows by a tenth in each
// second without one. The pool's lock guards it.
type Limiter struct {
	pool *Pool
	now  func() time.Time

	inFlight int
	limit    int // 0: none
	round    int // rises with each halving
	changed  time.Time
	first    int       // the limit with which it begins when it is cold; 0: none
	used     time.Time // when the last request left
	rests    time.Time // until when it lets no request in
	waiting  list.List // of *Waiter
}

// NewLimiter makes a limiter without a limit, for waiters of this pool; now is its
// clock.
func (p *Pool) NewLimiter(now func() time.Time) *Limiter { return &Limiter{pool: p, now: now} }

// StartWith lets the limiter begin with this limit, which then grows as after a halving: at first, and
// after each minute without a request. It is called before the limiter is used.
func (l *Limiter) StartWith(limit int) *Limiter {
	l.first = limit
	return l
}

// warmUp sets the limit of a limiter that is cold.
func (l *Limiter) warmUp() {
	if now := l.now(); l.first > 0 && l.inFlight == 0 && now.Sub(l.used) >= coldAfter {
		l.limit, l.changed, l.used = l.first, now, now
	}
}

// hasRoom reports whether one more request may be under way.
func (l *Limiter) hasRoom() bool { return l.limit == 0 || l.inFlight < l.limit }

// enter takes in a waiter.
func (l *Limiter) enter(w *Waiter) {
	l.inFlight++
	w.entered, w.round = true, l.round
}

// leave ends a request that entered in this round.
func (l *Limiter) leave(round int, pace Pace) {
	switch {
	case pace == Slower && round == l.round:
		l.halve()
	case pace == Fine && l.limit > 0 && l.now().Sub(l.changed) >= recoverEvery:
		l.grow()
	}
	l.inFlight--
	if l.first > 0 {
		l.used = l.now()
	}
}

// halve lowers the limit, once for all requests of a round.
func (l *Limiter) halve() {
	if l.limit == 0 {
		l.limit = l.inFlight
	}
	l.limit = max(l.limit/2, 1)
	l.round, l.changed = l.round+1, l.now()
}

// grow raises the limit until it has no effect any more.
func (l *Limiter) grow() {
	l.limit += max(l.limit/10, 1)
	if l.limit >= l.pool.o.Conns*MaxStreams {
		l.limit = 0
	}
	l.changed = l.now()
}

// Rest lets no request in for some time; of two rests the one that ends later counts. Requests that
// wait, for the limiter or for a connection, and those that come meanwhile fail with a RestError.
// Requests that have a connection go on.
func (l *Limiter) Rest(d time.Duration) {
	p := l.pool
	p.mu.Lock()
	defer p.unlockAndNotify()
	if until := l.now().Add(d); until.After(l.rests) {
		l.rests = until
	}
	err := l.resting()
	for _, waiting := range []*list.List{&l.waiting, &p.waiters} {
		for e := waiting.Front(); e != nil && err != nil; {
			w, next := e.Value.(*Waiter), e.Next()
			if w.Limiter == l {
				p.tell(w, nil, err)
			}
			e = next
		}
	}
}

// resting returns a RestError during a rest.
func (l *Limiter) resting() error {
	if l.rests.IsZero() {
		return nil
	}
	if left := l.rests.Sub(l.now()); left > 0 {
		return &RestError{left}
	}
	l.rests = time.Time{}
	return nil
}

// State returns the number of requests under way and the limit; limit 0: no limit.
func (l *Limiter) State() (inFlight, limit int) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.inFlight, l.limit
}
