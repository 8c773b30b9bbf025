package delivery

import (
	"slices"
	"testing"
	"time"
)

// roomsOf asks for room for notifications of these apps.
func roomsOf(apps ...string) (rooms []room) {
	for _, app := range apps {
		rooms = append(rooms, room{app: app})
	}
	return rooms
}

// many asks for n of one app.
func many(app string, n int) []room { return roomsOf(slices.Repeat([]string{app}, n)...) }

// takeAll takes room for one after the other, and tells how many got it.
func (s *slots) takeAll(app string) (n int) {
	for s.take(1, 1, room{app: app}) {
		n++
	}
	return n
}

// TestQ8_SlowAppsLeaveRoom: whatever an app takes, and others after it, there is room
// for one more app.
func TestQ8_SlowAppsLeaveRoom(t *testing.T) {
	t.Parallel()
	s := newSlots(100, time.Now)
	for n, app := range []string{"a", "b", "c"} {
		if taken, want := s.takeAll(app), []int{50, 25, 13}[n]; taken != want {
			t.Errorf("app %s took %d places, want %d", app, taken, want)
		}
	}
	if !s.take(1, 1, room{app: "d"}) {
		t.Error("no room for a fourth app")
	}
	for range 50 {
		s.free(room{app: "a"}, true)
	}
	if !s.take(1, 1, roomsOf("b", "b", "c")...) || s.take(2, 3, many("b", 17)...) {
		t.Error("places that come free are shared otherwise")
	}
}

// TestSlotsOfAnEvent: an event's notifications take all their places or none, and one
// of more than there are goes when nothing of its app is under way.
func TestSlotsOfAnEvent(t *testing.T) {
	t.Parallel()
	s := newSlots(10, time.Now)
	big := roomsOf("a", "a", "a", "a", "a", "a", "a")
	if !s.take(1, 1, big...) || s.take(1, 1, room{app: "a"}) || s.taken != 7 {
		t.Fatalf("%d places are taken", s.taken)
	}
	for _, r := range big {
		s.free(r, true)
	}
	if !s.take(1, 1, room{app: "a"}) || s.take(1, 1, big...) || s.taken != 1 || s.apps["a"].placed != 1 {
		t.Errorf("%d places are taken, %+v", s.taken, s.apps)
	}
}

// TestSlotsOfTwoApps: who gets no room has taken none, whichever app has none.
func TestSlotsOfTwoApps(t *testing.T) {
	t.Parallel()
	s := newSlots(4, time.Now)
	if !s.take(1, 1, roomsOf("a", "b")...) || s.take(1, 1, roomsOf("b", "a", "b", "a")...) || s.fits(1, 1, roomsOf("a", "a", "b")...) {
		t.Error("two apps took what they may not")
	}
	if s.taken != 2 || s.apps["a"].placed != 1 || s.apps["b"].placed != 1 {
		t.Errorf("%d places are taken: %+v", s.taken, s.apps)
	}
}

// paced makes slots of 20 places in which an app ends 100 notifications in each
// paceWindow, and has nothing in hand now.
func paced(app string) (s *slots, now *time.Time) {
	now = new(time.Time)
	*now = time.Now()
	s = newSlots(20, func() time.Time { return *now })
	s.take(1, 1, room{app: app})
	for range 300 {
		*now = now.Add(paceWindow / 100)
		s.take(1, 1, room{app: app})
		s.free(room{app: app}, true)
	}
	s.apps[app] = inHand{since: s.apps[app].since, ended: s.apps[app].ended, before: s.apps[app].before}
	s.taken = 0
	return s, now
}

// TestSlotsFollowThePace: an event with more than one device goes by its app's pace, and
// one of a large audience by two of three of that; nobody's places are used up.
func TestSlotsFollowThePace(t *testing.T) {
	t.Parallel()
	s, now := paced("fast")
	for s.take(2, 3, many("fast", 30)...) {
	}
	if a := s.apps["fast"]; a.paced < 40 || a.paced > 66 || a.placed > 5 {
		t.Errorf("at a pace of 100 the parts in hand are %+v", a)
	}
	for s.take(1, 1, many("fast", 20)...) {
	}
	if a := s.apps["fast"]; a.paced < 80 || a.paced > 100 || a.placed > 10 {
		t.Errorf("at a pace of 100 with small events there is %+v", a)
	}
	if n := s.takeAll("other"); n < 5 {
		t.Errorf("beside an app with much in hand another one got %d", n)
	}
	for s.take(1, 1, room{app: "fast"}) {
	}
	*now = now.Add(2 * paceWindow)
	for range 50 { // all that hung are given up at once
		s.free(room{app: "fast", by: byPace}, false)
	}
	if s.free(room{app: "fast", by: byPlace}, false); s.take(1, 1, roomsOf("fast", "fast")...) {
		t.Error("an app that hangs still has a pace")
	}
}

// TestQ8_AFastAppThatHangs: however fast an app was, the events of it that hang leave
// their queue room for those of others: each has a place, also while only one of its
// notifications is in hand.
func TestQ8_AFastAppThatHangs(t *testing.T) {
	t.Parallel()
	s, _ := paced("fast")
	if n := s.takeAll("fast"); n != 10 {
		t.Errorf("a fast app has %d events with one device in hand, want half of 20", n)
	}
	s, _ = paced("fast")
	d := &Delivery{slots: s}
	events := 0
	for rooms := roomsOf("fast", "fast"); s.take(1, 1, rooms...); events++ {
		e := &oneHop{place: rooms[0].app}
		e.inHand.Store(2)
		rooms[0].by = byEvent
		d.leave(&work{held: rooms[0], event: e})
		if events > 100 {
			break
		}
	}
	if events != 10 {
		t.Errorf("a fast app has %d events in hand of which one notification hangs, want half of 20", events)
	}
	e := &oneHop{place: "fast"}
	e.inHand.Store(1)
	if d.leave(&work{held: room{app: "fast", by: byPace}, event: e}); s.taken != 9 {
		t.Errorf("the end of an event left %d places taken, want 9", s.taken)
	}
}
