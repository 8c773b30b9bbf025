package delivery

import (
	"strings"
	"testing"
	"time"
)

// shelf makes windows with a clock that stands still.
type shelf struct {
	*windows
	at         time.Time
	unrecorded int
	came       time.Time // of those that begin to wait
}

func newShelf(most int) *shelf {
	s := &shelf{at: time.Now()}
	s.windows = newWindows(most, func() int { return s.unrecorded }, func() time.Time { return s.at })
	s.checking = true // the test itself calls check
	return s
}

// takeAll takes room for one request after the other, and returns how many got it.
func (s *shelf) takeAll(app string) (n int) {
	for s.take(false, share{App: app, N: 1}) {
		n++
	}
	return n
}

// serve lets an app answer every request in flight after a time and begin as many more as it may,
// for a number of rounds. It returns how many were in flight at the end.
func (s *shelf) serve(app string, took time.Duration, rounds int) (n int) {
	n = s.takeAll(app)
	for range rounds {
		s.at = s.at.Add(took)
		for range n {
			s.leave(app, false, true, took)
			s.take(false, share{App: app, N: 1})
		}
		s.takeAll(app)
		n = s.apps[app].taken
	}
	return n
}

// wait adds a waiter and records its outcome in the text.
func (s *shelf) wait(name string, part bool, became *string, shares ...share) {
	w := &waiter{shares: shares, part: part, came: s.came}
	w.enter, w.refuse = func() { *became += name + " enters, " }, func() { *became += name + " goes, " }
	if taken, refused := s.takeOrWait(w); taken || refused {
		*became += name + map[bool]string{true: " refused, ", false: " at once, "}[refused]
	}
}

// TestQ8_SlowAppsLeaveRoom: however much some apps take, there is room for another app.
func TestQ8_SlowAppsLeaveRoom(t *testing.T) {
	t.Parallel()
	s := newShelf(100)
	for n, app := range []string{"a", "b", "c"} {
		if taken, want := s.takeAll(app), []int{88, 10, 1}[n]; taken != want {
			t.Errorf("app %s has %d in hand, want %d", app, taken, want)
		}
	}
	if !s.take(false, share{App: "d", N: 1}) || !s.take(false, share{App: "e", N: 30}) {
		t.Error("no room for the first of a fourth or fifth app")
	}
}

// TestA16_AnAppHasItsShareFromItsFirstAnswer: large audiences have two thirds of its first window, and then two
// thirds of eight times what stays free.
func TestA16_AnAppHasItsShareFromItsFirstAnswer(t *testing.T) {
	t.Parallel()
	s := newShelf(InFlight)
	if n := s.serve("a", 300*time.Millisecond, 0); n != firstWindow {
		t.Errorf("an app begins with %d", n)
	}
	s.at = s.at.Add(300 * time.Millisecond)
	s.leave("a", false, true, 300*time.Millisecond)
	if s.takeAll("a"); s.apps["a"].taken != InFlight*8/9 {
		t.Errorf("after its first answer an app has %d in hand, want eight ninths of %d", s.apps["a"].taken, InFlight)
	}
	s = newShelf(InFlight)
	for s.take(true, share{App: "a", N: 100}) {
	}
	if n := s.apps["a"].taken; n != 600 || !s.take(false, share{App: "a", N: 400}) || s.take(false, share{App: "a", N: 1}) {
		t.Errorf("parts took %d of a window of %d", n, firstWindow)
	}
	s.leave("a", false, true, 300*time.Millisecond)
	for s.take(true, share{App: "a", N: 1}) {
	}
	parts := s.apps["a"].taken
	if more := s.takeAll("a"); parts != InFlight*16/19 || parts+more != InFlight*8/9 {
		t.Errorf("after the first answer parts took %d and others %d more, of %d", parts, more, InFlight)
	}
}

// TestA16_AnAppThatIsLateHasHalf: while answers take more than twice their least time an app has half of its
// share. After a minute that time is the usual one.
func TestA16_AnAppThatIsLateHasHalf(t *testing.T) {
	t.Parallel()
	s := newShelf(InFlight)
	s.serve("a", 100*time.Millisecond, 2)
	if n := s.serve("a", 150*time.Millisecond, 2); n != InFlight*8/9 {
		t.Errorf("an app that is a little later has %d in hand", n)
	}
	for range 9000 {
		s.leave("a", false, true, 300*time.Millisecond)
	}
	if s.takeAll("a"); s.apps["a"].taken != InFlight*4/9 {
		t.Errorf("an app that is late has %d in hand, want half of eight ninths of %d", s.apps["a"].taken, InFlight)
	}
	s.at = s.at.Add(leastFor)
	s.answers("a", 300*time.Millisecond, 1)
	s.at = s.at.Add(leastFor + time.Second)
	s.answers("a", 300*time.Millisecond, 1)
	if s.takeAll("a"); s.apps["a"].taken != InFlight*8/9 {
		t.Errorf("an app that has been slow for a minute has %d in hand", s.apps["a"].taken)
	}
}

// TestA16_AnAppThatAnswersAtOnceNeedsFew: more in flight than leave within the time of an answer only wait.
func TestA16_AnAppThatAnswersAtOnceNeedsFew(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{
		time.Millisecond: 3000, 20 * time.Millisecond: 4000, 60 * time.Millisecond: 12_000, 80 * time.Millisecond: InFlight * 8 / 9,
	} {
		s := newShelf(InFlight)
		if n := s.serve("a", took, 3); n != want {
			t.Errorf("an app that answers within %v has %d in hand, want %d", took, n, want)
		}
		s.leave("a", false, false, time.Microsecond)
		if n := s.apps["a"].size(s.at, InFlight); n < want {
			t.Errorf("after a quick refusal an app that delivers within %v may have %d in hand", took, n)
		}
	}
}

// TestA15_WhatIsNotOnRecordTakesRoom: requests that have ended without a record count for the limit, and if there
// are many nothing begins, not even the first request of an app. It waits until there are fewer.
func TestA15_WhatIsNotOnRecordTakesRoom(t *testing.T) {
	t.Parallel()
	s, became := newShelf(900), ""
	s.unrecorded = 90
	if n := s.serve("a", 100*time.Millisecond, 1); n != (900-90)*8/9 || !s.take(false, share{App: "b", N: 100}) {
		t.Errorf("with 90 requests without a record an app has %d in hand", n)
	}
	if s.unrecorded = 101; s.take(false, share{App: "c", N: 1}) {
		t.Error("the first request of an app began although more than the limit may be repeated")
	}
	s.wait("c", false, &became, share{App: "c", N: 1})
	s.check()
	s.unrecorded = 0
	s.at = s.at.Add(checkEvery)
	if s.check(); became != "c enters, " {
		t.Errorf("a request that waits for records %s", became)
	}
}

// answers lets an app answer n requests after a time; as many begin as it may have.
func (s *shelf) answers(app string, took time.Duration, n int) {
	for range n {
		s.leave(app, false, true, took)
	}
	s.takeAll(app)
}

// TestA16_AnAppThatHangsKeepsLittle: without an answer for 2 s an app has a window of 100, whatever
// it was before. Nothing waits for the app, and others find room. After one answer it has its
// window again.
func TestA16_AnAppThatHangsKeepsLittle(t *testing.T) {
	t.Parallel()
	s, became := newShelf(InFlight), ""
	n := s.serve("a", 300*time.Millisecond, 5)
	s.wait("early", false, &became, share{App: "a", N: 1})
	s.at = s.at.Add(hangsAfter + time.Millisecond)
	s.check()
	s.wait("late", false, &became, share{App: "a", N: 1})
	if became != "early goes, late refused, " {
		t.Errorf("of those that wait for an app that hangs: %s", became)
	}
	for range n - hangingWindow {
		s.leave("a", true, false, 0)
	}
	if s.take(false, share{App: "a", N: 1}) {
		t.Errorf("an app that hangs has more than %d in hand", hangingWindow)
	}
	if s.leave("a", true, false, 0); !s.take(false, share{App: "a", N: 1}) || s.take(false, share{App: "a", N: 1}) {
		t.Error("an app that hangs tries nothing any more")
	}
	if other := s.takeAll("b"); other < firstWindow {
		t.Errorf("beside it another app has %d in hand", other)
	}
	if s.leave("a", false, true, 3*time.Second); !s.take(false, share{App: "a", N: 500}) {
		t.Error("an app that answers again has no room")
	}
}

// TestA16_WhoWaitsForAWindow: requests that find no room enter in order as answers come, with parts
// of large audiences last. A request that has waited too long is refused, and one that would wait
// too long is refused at once.
func TestA16_WhoWaitsForAWindow(t *testing.T) {
	t.Parallel()
	s, became := newShelf(5), ""
	s.take(false, share{App: "a", N: 4})
	s.wait("part", true, &became, share{App: "a", N: 1})
	s.wait("first", false, &became, share{App: "a", N: 1})
	s.wait("second", false, &became, share{App: "a", N: 1})
	s.wait("other", false, &became, share{App: "b", N: 1})
	if got := s.Room(); got != mostWaiting-3 {
		t.Errorf("there is room to claim %d more", got)
	}
	for range 5 {
		s.leave("a", false, true, time.Millisecond)
	}
	if became != "other at once, first enters, second enters, part enters, " || s.waiting != 0 || s.taken != 3 {
		t.Errorf("%s; %d wait, %d in hand", became, s.waiting, s.taken)
	}
	became = ""
	s.takeAll("a")
	s.at = s.at.Add(time.Second)
	s.wait("late", false, &became, share{App: "a", N: 1})
	s.at = s.at.Add(patience - time.Millisecond)
	s.check()
	s.wait("later", false, &became, share{App: "a", N: 1})
	s.at = s.at.Add(time.Millisecond)
	if s.check(); became != "late goes, " || s.waiting != 1 {
		t.Errorf("%s; %d wait", became, s.waiting)
	}
	s.at = s.at.Add(patience)
	s.check()
	for name, a := range map[string]int{"a": s.apps["a"].taken, "b": s.apps["b"].taken} {
		for range a {
			s.leave(name, false, false, 0)
		}
	}
	if len(s.apps) > 0 || s.taken != 0 || s.Room() != mostWaiting {
		t.Errorf("%d in hand, apps %v", s.taken, s.apps)
	}
}

// TestA16_WhatCameFirstEntersFirst: while an app that answers has no room, an event to many devices that waited in the queue goes
// before what came later, however much of that waits. Those that would wait in vain now go back, so that what waits for one app has
// a bound. Nothing waits for an app that hangs.
func TestA16_WhatCameFirstEntersFirst(t *testing.T) {
	t.Parallel()
	s, became, many := newShelf(100), "", share{App: "a", N: 20}
	s.serve("a", 300*time.Millisecond, 2)
	old, since := s.at.Add(-time.Minute), s.at
	for n := 0; became == ""; n++ { // until one is refused, because so many wait
		s.came = since.Add(time.Duration(n))
		s.wait("newest", false, &became, share{App: "a", N: 1})
	}
	if s.mayTry(false, s.came, many) || !s.mayTry(false, old, many) || s.mayTry(true, old, many) {
		t.Error("a new event or a part finds a place in line, or an old event does not")
	}
	became, s.came = "", old
	most := s.waiting
	s.wait("old", false, &became, many)
	if want := strings.Repeat("newest goes, ", many.N); became != want || s.waiting != most {
		t.Errorf("when an old event waits: %s; %d wait, at most %d", became, s.waiting, most)
	}
	became, s.came = "", old.Add(time.Second)
	s.wait("second", false, &became, share{App: "a", N: 1})
	for range 22 {
		s.leave("a", false, true, 300*time.Millisecond)
	}
	if want := "newest goes, old enters, second enters, newest enters, "; became != want {
		t.Errorf("as the app answers: %s", became)
	}
	s.at = s.at.Add(patience)
	if s.check(); s.waiting > 0 {
		t.Errorf("%d wait longer than they may", s.waiting)
	}
	s.at = s.at.Add(hangsAfter)
	if s.mayTry(false, old, many) {
		t.Error("an event would wait for an app that hangs")
	}
}

// TestA16_AnEventOfTwoAppsHoldsUpNeither: an event to devices of two apps, one of which has no
// room, waits only for that app. Requests of the other app go on.
func TestA16_AnEventOfTwoAppsHoldsUpNeither(t *testing.T) {
	t.Parallel()
	s, became := newShelf(InFlight), ""
	s.takeAll("slow")
	s.take(false, share{App: "fast", N: 1})
	s.wait("both", false, &became, share{App: "fast", N: 1}, share{App: "slow", N: 1})
	s.wait("fast", false, &became, share{App: "fast", N: 1})
	s.leave("slow", false, true, time.Millisecond)
	if became != "fast at once, both enters, " {
		t.Errorf("while one of two apps has no room: %s", became)
	}
	// Neither app has room: a waiter moves from one list to the other.
	s.takeAll("slow")
	s.takeAll("fast")
	became = ""
	s.wait("both", false, &became, share{App: "fast", N: 1}, share{App: "slow", N: 1})
	s.wait("fast", false, &became, share{App: "fast", N: 1})
	s.leave("fast", false, true, time.Millisecond)
	if became != "fast enters, " {
		t.Errorf("when the first of two apps has room: %s", became)
	}
	// The other app hangs: nothing waits for it.
	s.at = s.at.Add(hangsAfter + time.Millisecond)
	s.leave("fast", false, true, time.Millisecond)
	s.check()
	if s.wait("late", false, &became, share{App: "fast", N: 1}, share{App: "slow", N: 1}); became != "fast enters, both goes, late refused, " {
		t.Errorf("while one of two apps hangs: %s", became)
	}
	// A request that ends without asking the service is not an answer.
	s.leave("slow", false, false, 0)
	if s.take(false, share{App: "slow", N: 1}) {
		t.Error("an app that hangs has room again after a notification that was not sent")
	}
}
