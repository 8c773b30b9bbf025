package delivery

import (
	"fmt"
	"testing"
	"time"

	"fanfare/delivery/transport"
)

// observe counts n answers, for users from first on.
func observe(b *breaker, app string, first, n int, o transport.Outcome) (opened int) {
	for i := range n {
		if b.observe(app, fmt.Sprint(first+i), o) {
			opened++
		}
	}
	return opened
}

func TestBreakerOpensAboveTwentyPercent(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	observe(b, "a", 0, 80, transport.Delivered)
	if n := observe(b, "a", 100, 20, transport.SuspectDevice); n != 0 || b.isOpen("a") {
		t.Fatal("it opened at 20 of 100")
	}
	if n := observe(b, "a", 200, 5, transport.SuspectDevice); n != 1 || !b.isOpen("a") {
		t.Fatalf("above 20 %% it opened %d times", n)
	}
	if b.isOpen("b") {
		t.Fatal("another app's breaker is open")
	}
	b.reset("a")
	if b.isOpen("a") || observe(b, "a", 0, 49, transport.SuspectDevice) != 0 {
		t.Fatal("a reset did not forget")
	}
	if observe(b, "a", 50, 1, transport.SuspectDevice) != 1 {
		t.Fatal("it does not open again")
	}
}

func TestBreakerNeedsFiftyDistinctUsers(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	for range 100 {
		if observe(b, "a", 0, 49, transport.SuspectDevice) != 0 {
			t.Fatal("49 users opened it")
		}
	}
	if observe(b, "a", 49, 1, transport.Delivered) != 1 {
		t.Fatal("50 users did not")
	}
}

func TestBreakerCountsNo410s(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	for _, o := range []transport.Outcome{transport.DropDevice, transport.FailMessage, transport.Retry, transport.UnknownOutcome, transport.NotSent, transport.PauseApp} {
		if observe(b, "a", 0, 500, o) != 0 {
			t.Fatalf("%s opened it", o)
		}
	}
	observe(b, "a", 0, 45, transport.Delivered)
	if observe(b, "a", 1000, 5, transport.SuspectDevice) != 0 {
		t.Fatal("what does not count made the 50 full")
	}
}

// The newest answer for a user counts, and old users leave the window.
func TestBreakerForgets(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	observe(b, "a", 0, 200, transport.Delivered)
	for i := range 10 { // a tenth of bad answers at a time, with many answers in between
		observe(b, "a", 1000+200*i, 20, transport.SuspectDevice)
		observe(b, "a", 5000+200*i, 180, transport.Delivered)
	}
	if b.isOpen("a") {
		t.Fatal("10 % of every window opened it")
	}
	for range 30 { // the same few tokens, each time with a good answer
		observe(b, "a", 9000, 30, transport.SuspectDevice)
		observe(b, "a", 9000, 30, transport.Delivered)
	}
	if b.isOpen("a") {
		t.Fatal("one user counted more than once")
	}
	if w := b.apps["a"]; len(w.ring) != 200 || len(w.bad) != 200 {
		t.Fatalf("the window holds %d and %d", len(w.ring), len(w.bad))
	}
}

// The tokens of several users in a row show that a small app may be at fault, until the next delivery.
func TestBreakerNotesRefusalsInARow(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	for range 10 {
		observe(b, "a", 0, 2, transport.SuspectDevice)
	}
	if b.inARow("a") || b.inARow("b") {
		t.Error("two users are several")
	}
	observe(b, "a", 2, 1, transport.UnclearRefusal)
	if !b.inARow("a") {
		t.Error("three users are not")
	}
	observe(b, "a", 9, 1, transport.Delivered)
	observe(b, "a", 0, 2, transport.SuspectDevice)
	if b.inARow("a") {
		t.Error("a delivery does not end the row")
	}
}

// W14: a refusal without a clear cause is the device's fault while its host takes others' notifications, and an
// operator's matter if several users are refused in a row.
func TestW14_WhoIsToBlame(t *testing.T) {
	t.Parallel()
	b := newBreaker()
	refused := func(what string, user int, blamed, several bool) {
		t.Helper()
		observe(b, "h", user, 1, transport.UnclearRefusal)
		if got := b.blames("h"); got != blamed || b.inARow("h") != several {
			t.Errorf("%s: blamed %v, several %v", what, got, b.inARow("h"))
		}
	}
	refused("the host has taken nothing", 1, false, false)
	observe(b, "another", 9, 1, transport.Delivered)
	refused("another host has", 1, false, false)
	observe(b, "h", 9, 1, transport.Delivered)
	for range 5 {
		refused("one user", 1, true, false)
	}
	refused("two users", 2, true, false)
	refused("three users since the last delivery", 3, false, true)
	observe(b, "h", 9, 1, transport.Delivered)
	refused("the host takes others' again", 1, true, false)
	b.apps["h"].took = time.Now().Add(-answersWithin)
	refused("the last delivery is long ago", 1, false, false)
	for i := range 2 * maxWindows { // users make up hosts
		observe(b, fmt.Sprint("h", i), 1, 1, transport.UnclearRefusal)
	}
	if len(b.apps) > maxWindows {
		t.Errorf("%d hosts", len(b.apps))
	}
}
