package h2

import (
	"container/list"
	"context"
	"slices"
	"time"
)

// Waiter waits for room for one request: in its limiter, until enough other requests have left,
// and then for a connection. No goroutine waits with it.
type Waiter struct {
	// Requests that may hang for the same reason share a Group. A group does not take all new
	// connections: some stay for the other groups.
	Group string
	// Limiter, when set, is a limiter of the pool.
	Limiter *Limiter
	// Context has the values that a connection is opened with; its cancellation is ignored.
	Context context.Context
	// Bulk requests wait for a connection behind those that are not.
	Bulk bool
	// Owner's Acquired is called once for each Acquire, by any goroutine. It must not block. The
	// owner gives the room back by Release.
	Owner interface{ Acquired(c *Conn, err error) }

	// Guarded by the pool's lock.
	entered bool
	round   int           // of the limiter, when it entered
	in      *list.List    // the list that it waits in; nil: it does not wait
	place   *list.Element // its place there
	over    error         // Cancel was called
	conn    *Conn
	err     error
	next    *Waiter
}

// Acquire waits for room for one request, without blocking: Acquired of the waiter's owner is called
// with the connection, perhaps before Acquire returns. The first Acquire enters the limiter, until
// Leave. At most as many requests wait there as may be under way; the others fail at once with
// ErrLimited, so that they do not pile up. While the limiter rests, all fail with a RestError.
func (p *Pool) Acquire(w *Waiter) {
	p.mu.Lock()
	defer p.unlockAndNotify()
	l := w.Limiter
	if l == nil || w.over != nil {
		p.queue(w)
		return
	}
	l.warmUp()
	switch err := l.resting(); {
	case err != nil:
		p.tell(w, nil, err)
	case w.entered:
		p.queue(w)
	case l.hasRoom():
		l.enter(w)
		p.queue(w)
	case l.waiting.Len() >= l.limit:
		p.tell(w, nil, ErrLimited)
	default:
		w.wait(&l.waiting)
	}
}

// Use is what the end of a request shows about its connection.
type Use uint8

// The uses.
const (
	// Unanswered: there was no answer.
	Unanswered Use = iota
	// Refused: the answer asked for another connection. This one takes no more requests.
	Refused
	// Answered: there was any other answer.
	Answered
)

// Release gives back the room of a request. Any answer proves a connection, even a refusal,
// because it shows that the server works on its requests.
func (p *Pool) Release(c *Conn, use Use) {
	p.mu.Lock()
	defer p.unlockAndNotify()
	c.inFlight--
	switch use {
	case Answered:
		c.proven, c.useful, p.failures, p.err = true, true, 0, nil
		c.answered()
	case Refused:
		c.proven = true
		p.retire(c, errRefused)
	}
	if c.gone.Load() {
		p.endIfIdle(c)
	} else if c.inFlight == 0 && (c != p.conns[0] || p.o.CloseLast) {
		p.endUnused(c)
	}
	p.dispatch()
}

// Leave leaves the limiter. pace is what the last answer says about the pace.
func (p *Pool) Leave(w *Waiter, pace Pace) {
	p.mu.Lock()
	defer p.unlockAndNotify()
	l := w.Limiter
	if !w.entered {
		return
	}
	w.entered = false
	l.leave(w.round, pace)
	for first := l.waiting.Front(); first != nil && l.hasRoom(); first = l.waiting.Front() {
		next := first.Value.(*Waiter)
		next.stopWaiting()
		l.enter(next)
		p.queue(next)
	}
}

// Cancel ends the waiting of a waiter, now or when it next asks for room.
func (p *Pool) Cancel(w *Waiter, err error) {
	p.mu.Lock()
	defer p.unlockAndNotify()
	w.over = err
	if w.in != nil {
		p.tell(w, nil, err)
	}
}

// queue gives a waiter a connection, or lets it wait for one. If the server was unreachable a moment
// ago, the waiter fails at once, because its caller knows better how long to wait. mu is held here and
// in the following functions.
func (p *Pool) queue(w *Waiter) {
	switch {
	case w.over != nil:
		p.tell(w, nil, w.over)
		return
	case p.closed:
		p.tell(w, nil, ErrClosed)
		return
	case p.err != nil && len(p.conns) == 0 && time.Now().Before(p.retryAt):
		p.tell(w, nil, p.err)
		return
	}
	if p.waiters.Len() == 0 {
		if c := p.pick(w.Group, p.maxUntried()); c != nil {
			p.give(w, c)
			return
		}
	}
	w.wait(&p.waiters)
	switch {
	case w.Bulk && p.bulk == nil:
		p.bulk = w.place
	case !w.Bulk && p.bulk != nil:
		p.waiters.MoveBefore(w.place, p.bulk)
	}
	p.groups[w.Group]++
	p.dispatch()
}

// dispatch gives room to the waiters, in their order, and opens a connection if some are
// left. New connections go first to groups that have not tried one: a group whose requests hang
// must not take them all.
func (p *Pool) dispatch() {
	for _, most := range []int{1, p.maxUntried()} {
		for e := p.waiters.Front(); e != nil && p.hasRoom(); {
			w, next := e.Value.(*Waiter), e.Next()
			if c := p.pick(w.Group, most); c != nil {
				p.give(w, c)
			}
			e = next
		}
	}
	p.dialIfNeeded()
}

// wait puts a waiter at the end of a list.
func (w *Waiter) wait(in *list.List) { w.in, w.place = in, in.PushBack(w) }

// stopWaiting takes the waiter off its list.
func (w *Waiter) stopWaiting() {
	if w.in != nil {
		w.in.Remove(w.place)
	}
	w.in, w.place = nil, nil
}

// pick returns the first connection with room: few busy connections gather more writes than many
// idle ones. It picks a new connection only while fewer than most new ones wait for the first
// answer to a request of the same group.
func (p *Pool) pick(group string, most int) *Conn {
	for _, c := range p.conns {
		if c.inFlight < c.limit() && (c.proven || p.untried(group) < most) {
			return c
		}
	}
	return nil
}

// untried counts the new connections whose first request is of this group.
func (p *Pool) untried(group string) (n int) {
	hangs := func(c *Conn) bool { return !c.proven && c.inFlight > 0 && c.first == group }
	for _, c := range p.conns {
		if hangs(c) {
			n++
		}
	}
	for c := range p.ending { // also those that were retired because it hangs
		if hangs(c) {
			n++
		}
	}
	return n
}

// fewUntried is how many new connections a group may try while none has proven itself. A
// group whose requests hang must not take all of them.
const fewUntried = 3

// maxUntried is how many new connections a group may try at once.
func (p *Pool) maxUntried() int {
	if proven := p.proven(); proven > 0 {
		return max(proven, maxNew)
	}
	return fewUntried
}

// proven counts the connections that have answered.
func (p *Pool) proven() (n int) {
	for _, c := range p.conns {
		if c.proven {
			n++
		}
	}
	return n
}

// hasRoom reports whether a connection has room for any request.
func (p *Pool) hasRoom() bool {
	return slices.ContainsFunc(p.conns, func(c *Conn) bool { return c.inFlight < c.limit() })
}

// give gives a waiter room on a connection.
func (p *Pool) give(w *Waiter, c *Conn) {
	c.reserve(w.Group)
	p.tell(w, c, nil)
}

// tell ends the waiting of a waiter. unlockAndNotify then calls its owner.
func (p *Pool) tell(w *Waiter, c *Conn, err error) {
	if w.in == &p.waiters {
		if w.place == p.bulk {
			p.bulk = w.place.Next()
		}
		if p.groups[w.Group]--; p.groups[w.Group] == 0 {
			delete(p.groups, w.Group)
		}
	}
	w.stopWaiting()
	w.conn, w.err, w.next = c, err, nil
	if p.last == nil {
		p.told = w
	} else {
		p.last.next = w
	}
	p.last = w
}

// unlockAndNotify unlocks the pool, and then calls the owners of the waiters whose waiting is over.
func (p *Pool) unlockAndNotify() {
	told := p.told
	p.told, p.last = nil, nil
	p.mu.Unlock()
	for w := told; w != nil; {
		next := w.next // its owner may reuse the waiter
		w.Owner.Acquired(w.conn, w.err)
		w = next
	}
}
