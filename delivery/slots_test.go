package delivery

import "testing"

// TestQ8_SlowAppsLeaveRoom: whatever an app takes, and others after it, there is room
// for one more app.
func TestQ8_SlowAppsLeaveRoom(t *testing.T) {
	t.Parallel()
	s := newSlots(100)
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
	s := newSlots(10)
	big := []string{"a", "a", "a", "a", "a", "a", "a"}
	if !s.take(1, 1, big...) || s.take(1, 1, "a") || s.taken != 7 {
		t.Fatalf("%d places are taken", s.taken)
	}
	for _, app := range big {
		s.free(app)
	}
	if !s.take(1, 1, "a") || s.take(1, 1, big...) || s.taken != 1 || s.apps["a"] != 1 {
		t.Errorf("%d places are taken, %v", s.taken, s.apps)
	}
}
