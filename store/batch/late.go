package batch

import "time"

// mayGiveUp is how long callers wait before they look at their contexts. Asking a context
// with a deadline costs more than all else in a batch, as it makes a channel and a timer
// only then; and most answers arrive within this time.
const mayGiveUp = 20 * time.Millisecond

// Late is the timer of callers that wait together: when it has passed, each looks whether its
// context has ended.
type Late struct {
	passed chan struct{}
	timer  *time.Timer
}

// NewLate starts the timer.
func NewLate() *Late {
	l := &Late{passed: make(chan struct{})}
	l.timer = time.AfterFunc(mayGiveUp, func() { close(l.passed) })
	return l
}

// Wait returns true when done is closed, or false when the timer has passed.
func (l *Late) Wait(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-l.passed:
		return false
	}
}

// Stop frees the timer. Call it only when nobody waits any more.
func (l *Late) Stop() { l.timer.Stop() }
