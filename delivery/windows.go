package delivery

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"fanfare/store/events"
)

// InFlight is the default limit of the requests that a process has under way or not on record
// (FANFARE_MAX_IN_FLIGHT), and of the events and notifications that it may have claimed.
const InFlight = 16_000

const (
	// patience is how long a request waits in the process for its app's window. The device's
	// data must still be fresh when the request leaves.
	patience = heldFresh / 2
	// freeShare limits an app to its share: at most this many times the room that stays free for others. So
	// one busy app holds eight ninths of the limit for all, and two hold eight seventeenths each. An app that
	// hangs gives its room back as its requests time out.
	freeShare = 8
	// Records lag behind if more requests than this part of the limit have ended without one. Then an app without
	// requests under way does not go beyond its share either, because the death of the process would repeat all
	// requests that have no record.
	lagShare = 9
	// mostWaiting is how many requests may wait for windows before nothing more is claimed.
	mostWaiting = 2000
	// checkEvery is how often waiting requests are checked, in addition to each answer.
	checkEvery = 50 * time.Millisecond
)

// windows limit how many requests a process has under way, or ended and not yet on record. All apps together
// have a limit, and each app has its share of it from its first answer on (freeShare), or as much of that as it
// can answer (mostRate). A request that finds its app's window full waits a moment in the process, if the app is
// likely to answer enough other requests within that time. While many wait, the process claims no more (Room):
// other jobs stay in the queue, for any process that has room.
type windows struct {
	most       int
	unrecorded func() int // requests that have ended, without a record of it
	now        func() time.Time

	mu       sync.Mutex
	taken    int  // requests in flight
	waiting  int  // requests that wait
	checking bool // a check is scheduled
	apps     map[string]*window
}

// share is the room that a caller needs in one app's window.
type share = events.Share

// waiter waits for room for all its shares, in the list of an app whose window is full.
type waiter struct {
	shares []share
	part   bool      // of a large audience
	came   time.Time // when Redis got the event or the job: what came first enters first
	since  time.Time
	// Exactly one of them is called, once, without the lock.
	enter, refuse func()
}

func newWindows(most int, unrecorded func() int, now func() time.Time) *windows {
	return &windows{most: most, unrecorded: unrecorded, now: now, apps: map[string]*window{}}
}

// Room is how many more jobs may be claimed.
func (s *windows) Room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(mostWaiting-s.waiting, 0)
}

// takeSome takes room for those shares of a part whose apps have room, and returns them.
func (s *windows) takeSome(shares []share) (taken []share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range shares {
		if s.lacking(now, true, shares[i:i+1], true) < 0 {
			s.hold(now, shares[i:i+1])
			taken = append(taken, shares[i])
		}
	}
	return taken
}

// soon is how many requests the app is likely to take within the patience of one that waits.
func (s *windows) soon(app string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.apps[app]; a != nil {
		return a.soon(s.now(), false)
	}
	return firstWindow
}

// hanging is how many of these apps have stopped answering.
func (s *windows) hanging(shares []share) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range shares {
		if a := s.apps[one.App]; a != nil && a.hangs(s.now()) {
			n++
		}
	}
	return n
}

// take takes room for all shares, or for none.
func (s *windows) take(part bool, shares ...share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.lacking(now, part, shares, true) >= 0 {
		return false
	}
	s.hold(now, shares)
	return true
}

// mayTry reports whether an app has room now for its share of what came then, or, unless that is a part, may let it wait in the
// process because it answers: while the app is busy, newer requests take all room before it can be found.
func (s *windows) mayTry(part bool, came time.Time, shares ...share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	return slices.ContainsFunc(shares, func(one share) bool {
		if s.lacking(now, part, []share{one}, true) < 0 {
			return true
		}
		a := s.apps[one.App]
		if part || a == nil || a.lately == 0 {
			return false
		}
		_, ahead := a.place(part, came)
		return ahead < a.soon(now, part)
	})
}

// takeOrWait takes room for a waiter now or lets it wait. It is refused if so many requests that came before it wait for
// the app that its turn would not come in time, and so are those that came after it if they would wait in vain now.
func (s *windows) takeOrWait(w *waiter) (taken, refused bool) {
	s.mu.Lock()
	w.since = s.now()
	lacking := s.lacking(w.since, w.part, w.shares, true)
	if lacking < 0 {
		s.hold(w.since, w.shares)
		s.mu.Unlock()
		return true, false
	}
	a := s.app(w.shares[lacking].App, w.since)
	before, ahead := a.place(w.part, w.came)
	soon := a.soon(w.since, w.part)
	if ahead >= soon {
		s.mu.Unlock()
		return false, true
	}
	s.line(a, w, before)
	inVain := s.inVain(a, w.part, soon)
	s.checkSoon()
	s.mu.Unlock()
	for _, late := range inVain {
		late.refuse()
	}
	return false, false
}

// inVain takes those waiters out of an app's line that have so many ahead of them that their turn would not come in time. mu is
// held.
func (s *windows) inVain(a *window, part bool, soon int) (out []*waiter) {
	all := &a.waiters[kind(part)]
	for last := all.Back(); last != nil; last = all.Back() {
		w := last.Value.(*waiter)
		if a.waiting-w.size() < soon {
			break
		}
		s.drop(a, w, last)
		out = append(out, w)
	}
	return out
}

// leave gives back the room of a request that has ended, and lets waiting requests enter. hanging says
// that the service was asked and did not answer, delivered that it took the notification. took is the answer
// time, or 0 if the service was not asked or the time was not measured. An app hangs until the service answers.
func (s *windows) leave(app string, hanging, delivered bool, took time.Duration) {
	s.mu.Lock()
	now, a := s.now(), s.apps[app]
	a.taken--
	s.taken--
	switch {
	case took > 0:
		a.note(now, delivered, took)
	case !hanging && !a.hangs(now):
		a.answered = now
	}
	entering := s.admit(now, a)
	s.forgetIdle(app, a)
	s.mu.Unlock()
	for _, w := range entering {
		w.enter()
	}
}

// lacking is the index of the first share for which its app has no room, or -1 if there is room for
// all. With behind, there is no room for a request while others wait. mu is held.
func (s *windows) lacking(now time.Time, part bool, shares []share, behind bool) int {
	unrecorded := s.unrecorded()
	free, lags := s.most-s.taken-unrecorded, unrecorded > s.most/lagShare
	for i, one := range shares {
		free -= one.N
		a := s.apps[one.App]
		if a == nil {
			a = &window{answered: now}
		}
		if !lags && a.taken == 0 && a.waiting == 0 {
			continue // the first request of an app has room, unless records lag behind
		}
		if behind && (a.waiters[0].Len() > 0 || part && a.waiters[1].Len() > 0) {
			return i
		}
		most := a.size(now, free)
		if part { // a large audience leaves room for single requests and small events
			most = most * 2 / 3
		}
		if (lags || a.taken > 0) && a.taken+one.N > most {
			return i
		}
	}
	return -1
}

// hold takes room for shares; mu is held.
func (s *windows) hold(now time.Time, shares []share) {
	for _, one := range shares {
		a := s.app(one.App, now)
		if a.taken == 0 { // it may have waited for records
			a.answered = now
		}
		a.taken += one.N
		s.taken += one.N
	}
}

// app is an app's window; mu is held.
func (s *windows) app(name string, now time.Time) *window {
	a := s.apps[name]
	if a == nil {
		a = &window{answered: now}
		s.apps[name] = a
	}
	return a
}

// forgetIdle removes the window of an app that has nothing left; mu is held.
func (s *windows) forgetIdle(name string, a *window) {
	if a.taken == 0 && a.waiting == 0 {
		delete(s.apps, name)
	}
}

// admit takes room for the requests that came first. If a waiter still lacks room in another
// app's window, it moves to that app's list, so that it holds up nobody here. mu is held.
func (s *windows) admit(now time.Time, a *window) (entering []*waiter) {
	for i := range a.waiters {
		for first := a.waiters[i].Front(); first != nil; first = a.waiters[i].Front() {
			w := first.Value.(*waiter)
			lacking := s.lacking(now, w.part, w.shares, false)
			if lacking >= 0 && s.app(w.shares[lacking].App, now) == a {
				return entering // parts wait until single requests and small events have room
			}
			s.drop(a, w, first)
			if lacking >= 0 {
				other := s.app(w.shares[lacking].App, now)
				before, _ := other.place(w.part, w.came)
				s.line(other, w, before)
				continue
			}
			s.hold(now, w.shares)
			entering = append(entering, w)
		}
	}
	return entering
}

// line puts a waiter into an app's list, behind the last one that came before it, which is nil if there is none; mu is held.
func (s *windows) line(a *window, w *waiter, before *list.Element) {
	all := &a.waiters[kind(w.part)]
	if before != nil {
		all.InsertAfter(w, before)
	} else {
		all.PushFront(w)
	}
	a.waiting += w.size()
	s.waiting += w.size()
}

// drop takes a waiter off its list; mu is held.
func (s *windows) drop(a *window, w *waiter, at *list.Element) {
	a.waiters[kind(w.part)].Remove(at)
	a.waiting -= w.size()
	s.waiting -= w.size()
}

// checkSoon schedules the next check of the waiting requests; mu is held.
func (s *windows) checkSoon() {
	if !s.checking {
		s.checking = true
		time.AfterFunc(checkEvery, s.check)
	}
}

// check admits waiting requests for which other apps have given room back, and refuses those whose
// patience is over.
func (s *windows) check() {
	s.mu.Lock()
	now := s.now()
	var entering, refused []*waiter
	for name, a := range s.apps {
		entering = append(entering, s.admit(now, a)...)
		for i := range a.waiters {
			for at, next := a.waiters[i].Front(), (*list.Element)(nil); at != nil; at = next {
				next = at.Next()
				if w := at.Value.(*waiter); now.Sub(w.since) >= patience || a.hangs(now) {
					s.drop(a, w, at)
					refused = append(refused, w)
				}
			}
		}
		s.forgetIdle(name, a)
	}
	s.checking = false
	if s.waiting > 0 {
		s.checkSoon()
	}
	s.mu.Unlock()
	for _, w := range entering {
		w.enter()
	}
	for _, w := range refused {
		w.refuse()
	}
}

// size is the number of requests of a waiter.
func (w *waiter) size() (n int) {
	for _, one := range w.shares {
		n += one.N
	}
	return n
}

// kind is the list that a waiter waits in.
func kind(part bool) int {
	if part {
		return 1
	}
	return 0
}

// sharesOf counts notifications by app.
func sharesOf(works []*work) (shares []share) {
	for _, w := range works {
		at := slices.IndexFunc(shares, func(s share) bool { return s.App == w.charged })
		if at < 0 {
			at, shares = len(shares), append(shares, share{App: w.charged})
		}
		shares[at].N++
	}
	return shares
}
