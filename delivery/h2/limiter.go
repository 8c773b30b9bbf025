package h2

import (
	"container/list"
	"errors"
	"time"
)

// ErrLimited says that the server asked to slow down, and that enough requests are under way.
var ErrLimited = errors.New("the server asked to slow down; enough requests are under way")

// recoverEvery is how long a limit stays before it grows by a tenth.
const recoverEvery = time.Second

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
	waiting  list.List // of *Waiter
}

// NewLimiter makes a limiter without a limit, for waiters of this pool; now is its
// clock.
func (p *Pool) NewLimiter(now func() time.Time) *Limiter { return &Limiter{pool: p, now: now} }

// hasRoom tells whether one more request may be under way.
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
	if l.limit >= MaxConns*MaxStreams {
		l.limit = 0
	}
	l.changed = l.now()
}

// State returns the number of requests under way and the limit; limit 0: no limit.
func (l *Limiter) State() (inFlight, limit int) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.inFlight, l.limit
}
