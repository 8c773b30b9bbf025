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
const paceWindow = 100 * time.Millisecond

// slots bound what a process has in hand. There are places, which apps share: one that
// has so many gets another only while more than that are free. So a slow app takes half
// of them at most, two slow ones three quarters: there is always room for others. What
// was claimed from a queue has a place until it ends, so that none fills up its queue's
// room either. The further notifications of an event may do without, as many as ended of
// their app lately, its pace: a fast one never lacks work.
type slots struct {
	places int
	now    func() time.Time
	mu     sync.Mutex
	taken  int // places
	apps   map[string]inHand
}

// room is what a notification is in hand by.
type room struct {
	app string
	by  grant
}

// grant says why a notification may be in hand.
type grant uint8

const (
	byPlace grant = iota // one of its own
	byPace               // of its app
	byEvent              // by the place of its event
)

// inHand is what an app has in hand.
type inHand struct {
	placed, paced int
	since         time.Time
	ended         int // since then
	before        int // ended in the paceWindow before that
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

// take takes room for what was claimed at once, the first by a place, or for nothing. Of
// the most that an app may have, it takes the share parts/of.
func (s *slots) take(parts, of int, rooms ...room) bool { return s.tryTake(parts, of, rooms, true) }

// fits tells whether take would take it now.
func (s *slots) fits(parts, of int, rooms ...room) bool { return s.tryTake(parts, of, rooms, false) }

func (s *slots) tryTake(parts, of int, rooms []room, keep bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, taken := s.now(), s.taken
	var first [2]hand // most events go to one app
	hands := first[:0]
	for i := range rooms {
		r := &rooms[i]
		at := slices.IndexFunc(hands, func(h hand) bool { return h.app == r.app })
		if at < 0 {
			at, hands = len(hands), append(hands, hand{app: r.app, inHand: s.apps[r.app]})
		}
		h := &hands[at]
		switch {
		case i > 0 && h.paced < h.pace(now)*parts/of:
			r.by = byPace
			h.paced++
		// What is more than the most is begun when nothing else of its app is.
		case h.placed < (s.places-taken)*parts/of, h.placed+h.paced == h.now:
			r.by = byPlace
			h.placed++
			taken++
		default:
			return false
		}
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

// free gives back the room of a notification that has ended; one that the service has
// answered counts for its app's pace.
func (s *slots) free(r room, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.apps[r.app]
	a.pace(s.now())
	if answered {
		a.ended++
	}
	if r.by == byPace {
		a.paced--
	}
	s.put(r.app, a, r.by == byPlace)
}

// freePlace gives back the place of an event of which nothing is in hand any more.
func (s *slots) freePlace(app string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(app, s.apps[app], true)
}

// put keeps what an app has, and with it one place less if that came free. mu is held.
func (s *slots) put(app string, a inHand, place bool) {
	if place {
		a.placed--
		s.taken--
	}
	if a.placed+a.paced <= 0 {
		delete(s.apps, app)
		return
	}
	s.apps[app] = a
}
