package wake

import (
	"context"
	"sync/atomic"
	"time"

	"fanfare/store/redisdb"
)

// pingTime bounds the sending of a PING.
const pingTime = time.Second

// Silence notices that a connection of pub/sub is dead although it looks open: go-redis sends a PING from time to time, but
// does not miss the answer.
type Silence struct {
	sub      redisdb.Subscription
	after    time.Duration
	began    time.Time
	received atomic.Int64  // when something last came, in ns since began
	asked    time.Duration // when the last PING was sent, since began: something is sent at the beginning anyway
}

// NewSilence watches a connection to which something is being sent just now. after is how long it may receive nothing
// until it is sent a PING, and how long the answer may take.
func NewSilence(sub redisdb.Subscription, after time.Duration) *Silence {
	return &Silence{sub: sub, after: after, began: time.Now()}
}

// Hear notes that something came. It may be called from any goroutine.
func (s *Silence) Hear() { s.received.Store(int64(time.Since(s.began))) }

// Lasts reports whether not even the answer to a PING came. It also sends the PING. One goroutine calls it from time to time.
func (s *Silence) Lasts(ctx context.Context) bool {
	at, received := time.Since(s.began), time.Duration(s.received.Load())
	switch {
	case at-received < s.after:
		return false
	case s.asked >= received:
		return at-s.asked >= s.after
	}
	s.asked = at
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	_ = s.sub.Ping(ctx) // an error counts as no answer
	return false
}
