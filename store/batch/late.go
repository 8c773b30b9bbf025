package batch

import "time"

// mayGiveUp is how long callers wait before they ask their contexts. Most answers arrive within
// this time. Asking a context with a deadline makes a channel and a timer, and costs more than
// everything else in a batch.
const mayGiveUp = 20 * time.Millisecond

// Late is the timer of callers that wait together. When it has passed, each of them checks whether
// its context has ended.
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
