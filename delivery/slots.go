package delivery

import (
	"slices"
	"sync"
	"time"
)

// Places is how many notifications a process has in hand at once by default beyond the
// pace of their apps, and what the queues of events and notifications should let it hold
// (queue.Options.InFlight).
const Places = 1500

// paceWindow is the time that an app's pace is counted over: what it has in hand by its
// pace is sent that soon. It is well below heldFresh.
const paceWindow = 250 * time.Millisecond

// slots bound what a process has in hand. An app may have as many as ended lately, its
// pace: a fast one never lacks work, a hanging one soon has none of these. All else is
// in places that the apps share: one that has so many gets another only while more than
// that are free. So a slow app takes half of them at most, two slow ones three quarters:
// there is always room for others.
type slots struct {
	places int
	now    func() time.Time
	mu     sync.Mutex
	taken  int // places
	apps   map[string]inHand
}

// inHand is what an app has in hand.
type inHand struct {
	all    int
	placed int // of them, those with a place
	since  time.Time
	ended  int // since then
	before int // ended in the paceWindow before that
}

// hand is an app with what it has in hand, and how much of that was taken just now.
type hand struct {
	app string
	inHand
	now int
}

func newSlots(places int, now func() time.Time) *slots {
	return &slots{places: places, now: now, apps: map[string]inHand{}}
}

// pace is how many ended in the last whole paceWindow, or in the present one, if these
// are more.
func (a *inHand) pace(now time.Time) int {
	switch passed := now.Sub(a.since); {
	case passed >= 2*paceWindow:
		a.since, a.ended, a.before = now, 0, 0
	case passed >= paceWindow:
		a.since, a.ended, a.before = a.since.Add(paceWindow), 0, a.ended
	}
	return max(a.ended, a.before)
}

// take takes room for a notification of each of these apps, or for none. Of the most
// that an app may have, they take the share parts/of.
func (s *slots) take(parts, of int, apps ...string) bool {
	return s.tryTake(parts, of, apps, true)
}

// fits tells whether take would take them now.
func (s *slots) fits(parts, of int, apps ...string) bool {
	return s.tryTake(parts, of, apps, false)
}

func (s *slots) tryTake(parts, of int, apps []string, keep bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, taken := s.now(), s.taken
	var first [2]hand // most events go to one app
	hands := first[:0]
	for _, app := range apps {
		i := slices.IndexFunc(hands, func(h hand) bool { return h.app == app })
		if i < 0 {
			i, hands = len(hands), append(hands, hand{app: app, inHand: s.apps[app]})
		}
		h := &hands[i]
		switch {
		case h.all-h.placed < h.pace(now)*parts/of:
		// What is more than the most is begun when nothing else of its app is.
		case h.placed < (s.places-taken)*parts/of, h.all == h.now:
			h.placed++
			taken++
		default:
			return false
		}
		h.all++
		h.now++
	}
	if keep {
		s.taken = taken
		for _, h := range hands {
			s.apps[h.app] = h.inHand
		}
	}
	return true
}

// free gives room back: a place first, which others may need.
func (s *slots) free(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[app]
	a.pace(s.now())
	a.ended++
	if a.placed > 0 {
		a.placed--
		s.taken--
	}
	if a.all--; a.all <= 0 {
		delete(s.apps, app)
		return
	}
	s.apps[app] = a
}
