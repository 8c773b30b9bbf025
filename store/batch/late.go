package batch

import "time"

// mayGiveUp is how long callers wait until they look whether their contexts have ended.
// That costs more than all else in a batch (a context with a deadline makes a channel and
// a timer for who asks), and most answers have come by then.
const mayGiveUp = 20 * time.Millisecond

// Late tells those who wait together when to look whether they still want to wait.
type Late struct {
	passed chan struct{}
	timer  *time.Timer
}

// NewLate begins now.
func NewLate() *Late {
	l := &Late{passed: make(chan struct{})}
	l.timer = time.AfterFunc(mayGiveUp, func() { close(l.passed) })
	return l
}

// Wait ends with what is waited for, true, or 20 ms after the begin.
func (l *Late) Wait(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-l.passed:
		return false
	}
}

// Stop frees the timer; only when nobody waits any more.
func (l *Late) Stop() { l.timer.Stop() }
