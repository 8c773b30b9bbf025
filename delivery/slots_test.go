package delivery

import (
	"testing"
	"time"
)

// TestQ8_SlowAppsLeaveRoom: whatever an app takes, and others after it, there is room
// for one more app.
func TestQ8_SlowAppsLeaveRoom(t *testing.T) {
	t.Parallel()
	s := newSlots(100, time.Now)
	for n, app := range []string{"a", "b", "c"} {
		taken := 0
		for s.take(1, 1, app) {
			taken++
		}
		if want := []int{50, 25, 13}[n]; taken != want {
			t.Errorf("app %s took %d places, want %d", app, taken, want)
		}
	}
	if !s.take(1, 1, "d") {
		t.Error("no room for a fourth app")
	}
	for range 50 {
		s.free("a")
	}
	if !s.take(1, 1, "b", "b", "c") || s.take(2, 3, "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b", "b") {
		t.Error("places that come free are shared otherwise")
	}
}

// TestSlotsOfAnEvent: an event's notifications take all their places or none, and one
// of more than there are goes when nothing of its app is under way.
func TestSlotsOfAnEvent(t *testing.T) {
	t.Parallel()
	s := newSlots(10, time.Now)
	big := []string{"a", "a", "a", "a", "a", "a", "a"}
	if !s.take(1, 1, big...) || s.take(1, 1, "a") || s.taken != 7 {
		t.Fatalf("%d places are taken", s.taken)
	}
	for _, app := range big {
		s.free(app)
	}
	if !s.take(1, 1, "a") || s.take(1, 1, big...) || s.taken != 1 || s.apps["a"].all != 1 {
		t.Errorf("%d places are taken, %v", s.taken, s.apps)
	}
}

// takeAll takes room for one after the other, and tells how many got it.
func (s *slots) takeAll(parts, of int, app string) (n int) {
	for s.take(parts, of, app) {
		n++
	}
	return n
}

// TestSlotsFollowThePace: an app may have as many more as ended of it lately, parts of
// large audiences two of three of these, and none of them takes room from others. Once
// nothing of it ends, it has what any slow app has.
func TestSlotsFollowThePace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newSlots(20, func() time.Time { return now })
	if n := s.takeAll(1, 1, "fast"); n != 10 {
		t.Fatalf("an app without a pace has %d", n)
	}
	for range 300 { // 300 end, in three windows: 100 in each
		now = now.Add(paceWindow / 100)
		s.free("fast")
		if !s.take(1, 1, "fast") {
			t.Fatal("one that has ended left no room for another")
		}
	}
	if parts, all := s.takeAll(2, 3, "fast"), s.takeAll(1, 1, "fast"); s.apps["fast"].all-s.apps["fast"].placed != 100 || parts == 0 || parts > 66 {
		t.Errorf("at a pace of 100 parts got %d, then others %d: %+v", parts, all, s.apps["fast"])
	}
	if n := s.takeAll(1, 1, "other"); n != 5 {
		t.Errorf("beside an app that has much in hand another one got %d", n)
	}
	if s.fits(1, 1, "fast") {
		t.Error("there is room beyond the pace and the places")
	}
	has := s.apps["fast"].all
	now = now.Add(2 * paceWindow)
	s.free("fast")
	if s.take(1, 1, "fast") && s.take(1, 1, "fast") {
		t.Errorf("an app that hangs got more than it gave back; it had %d", has)
	}
	for s.apps["fast"].all > 0 {
		s.free("fast")
	}
	if now = now.Add(2 * paceWindow); s.taken != 5 || s.takeAll(1, 1, "fast") != 8 {
		t.Errorf("later it has %+v of %d", s.apps["fast"], s.taken)
	}
}

// TestSlotsOfTwoApps: who gets no room has taken none, whichever app has none.
func TestSlotsOfTwoApps(t *testing.T) {
	t.Parallel()
	s := newSlots(4, time.Now)
	if !s.take(1, 1, "a", "b") || s.take(1, 1, "b", "a", "b", "a") || s.fits(1, 1, "a", "a", "b") || s.taken != 2 || s.apps["a"].all != 1 || s.apps["b"].all != 1 {
		t.Errorf("%d places are taken: %+v", s.taken, s.apps)
	}
}
