package apnstest

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// Request is one request in the ledger, which has arrived completely.
type Request struct {
	Method     string
	Path       string
	Token      string // of a broadcast the channel
	Channel    string // apns-channel-id as sent
	Topic      string
	PushType   string
	ID         string // apns-id as sent, of a broadcast apns-request-id
	CollapseID string
	Priority   string // as sent; "" when absent
	Expiration string // as sent; "" when absent
	Bearer     string // provider token as sent, without "bearer "
	Payload    []byte
	At         time.Time
	Answered   time.Time // when the answer left; zero: it did not, or the client had gone
	Connection int       // 1, 2, ... in the order they were accepted
	Stream     uint32
	// Status and Reason are the answer; Status 0: none was sent.
	Status int
	Reason string
	// Taken: the device got the notification (a 200, or a fault after APNs accepted the request).
	Taken bool
}

// Ledger has the requests that arrived, in order. With Options.CountsOnly it has only counts, so
// that a million requests take no memory.
type Ledger struct {
	mu         sync.Mutex
	changed    chan struct{} // closed and replaced when a waiter must count again
	waiting    bool
	countsOnly bool
	requests   []Request
	resets     int
	total      int
	taken      int
	left       int // answers
	statuses   map[int]int
	reasons    map[string]int
	ids        map[[16]byte]int
}

// newLedger makes an empty ledger of the kind that the options ask for.
func newLedger(o *Options) *Ledger {
	l := &Ledger{countsOnly: o.CountsOnly, changed: make(chan struct{})}
	l.clear(o.TrackIDs)
	return l
}

// clear removes everything. ids says whether apns-ids are counted from now on.
func (l *Ledger) clear(ids bool) {
	l.requests, l.total, l.taken, l.left = nil, 0, 0, 0
	l.statuses, l.reasons, l.ids = make(map[int]int), make(map[string]int), nil
	if ids {
		l.ids = make(map[[16]byte]int)
	}
}

// add enters a request and wakes the goroutines that wait for one. id is its apns-id in binary,
// which takes half the memory of the text. It returns the request's place.
func (l *Ledger) add(r *Request, id [16]byte) place {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	l.statuses[r.Status]++
	if r.Reason != "" {
		l.reasons[r.Reason]++
	}
	if r.Taken {
		l.taken++
		if l.ids != nil {
			l.ids[id]++
		}
	}
	if !l.countsOnly {
		l.requests = append(l.requests, *r)
	}
	if l.waiting {
		l.waiting = false
		close(l.changed)
		l.changed = make(chan struct{})
	}
	return place{len(l.requests) - 1, l.resets}
}

// place is the place of a request in the ledger, with the number of resets before it.
type place struct{ index, resets int }

// answered records the time at which a request's answer was sent.
func (l *Ledger) answered(p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.resets != l.resets {
		return
	}
	l.left++
	if !l.countsOnly {
		l.requests[p.index].Answered = time.Now()
	}
}

// Reset removes everything.
func (l *Ledger) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets++
	l.clear(l.ids != nil)
}

// Requests returns a copy of every request so far, in order of arrival. It is
// empty with Options.CountsOnly.
func (l *Ledger) Requests() []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Request(nil), l.requests...)
}

// Of returns the requests for one device, in order of arrival.
func (l *Ledger) Of(token string) []Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Request
	for i := range l.requests {
		if l.requests[i].Token == token {
			out = append(out, l.requests[i])
		}
	}
	return out
}

// Total counts every request that arrived completely, with any answer.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// Taken counts the requests that reached their device.
func (l *Ledger) Taken() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// Answered counts the answers that were sent.
func (l *Ledger) Answered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.left
}

// Status counts the answers with a status; 0 counts requests without one.
func (l *Ledger) Status(status int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statuses[status]
}

// Reason counts the answers with one of Apple's reasons.
func (l *Ledger) Reason(reason string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reasons[reason]
}

// IDs returns how many distinct apns-ids were taken, and how many were taken again. 0 repeats means
// exactly once. It needs Options.TrackIDs.
func (l *Ledger) IDs() (distinct, repeats int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.ids {
		repeats += n - 1
	}
	return len(l.ids), repeats
}

// WaitTotal waits until at least n requests have arrived.
func (l *Ledger) WaitTotal(n int, within time.Duration) error {
	return l.wait(within, fmt.Sprintf("%d requests", n), func() bool { return l.total >= n })
}

// WaitTaken waits until at least n requests have reached their devices.
func (l *Ledger) WaitTaken(n int, within time.Duration) error {
	return l.wait(within, fmt.Sprintf("%d taken requests", n), func() bool { return l.taken >= n })
}

// WaitIDs waits until n distinct apns-ids were taken (Options.TrackIDs).
func (l *Ledger) WaitIDs(n int, within time.Duration) error {
	return l.wait(within, fmt.Sprintf("%d distinct ids", n), func() bool { return len(l.ids) >= n })
}

// MustWait fails the test unless n requests reach their devices in time.
func (l *Ledger) MustWait(t testing.TB, n int, within time.Duration) {
	t.Helper()
	if err := l.WaitTaken(n, within); err != nil {
		t.Fatal(err)
	}
}

// wait checks a condition each time the ledger has changed.
func (l *Ledger) wait(within time.Duration, what string, ok func() bool) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	for {
		l.mu.Lock()
		if ok() {
			l.mu.Unlock()
			return nil
		}
		total, taken := l.total, l.taken
		changed := l.changed
		l.waiting = true
		l.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return fmt.Errorf("wait for %s: %d arrived and %d were taken within %v", what, total, taken, within)
		}
	}
}
