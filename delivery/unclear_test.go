package delivery

import (
	"fmt"
	"testing"
	"time"
)

// W14: a refusal of which nobody knows the cause is the device's fault while its host takes others'
// notifications, and an operator's matter if several users are refused.
func TestW14_WhoIsToBlame(t *testing.T) {
	t.Parallel()
	u, now := newUnclear(), time.Now()
	refused := func(what, user string, blamed, several bool) {
		t.Helper()
		now = now.Add(time.Second)
		if b, s := u.refused("h", user, now); b != blamed || s != several {
			t.Errorf("%s: blamed %v, several %v", what, b, s)
		}
	}
	refused("the host has taken nothing", "eve", false, false)
	u.delivered("another", "bob", now)
	refused("another host has", "eve", false, false)
	u.delivered("h", "bob", now)
	for range 5 {
		refused("one user", "eve", true, false)
	}
	refused("two users", "dan", true, false)
	refused("three users since the last delivery", "cid", false, true)
	u.delivered("h", "bob", now)
	refused("the host takes others' again", "eve", true, true)
	u.delivered("h", "dan", now)
	refused("one of the three got theirs", "eve", true, false)
	now = now.Add(answersWithin)
	refused("the last delivery is long ago", "eve", false, false)
	now = now.Add(unclearFor)
	u.delivered("h", "bob", now)
	refused("the others' refusals are long ago", "ann", true, false)
}

// Users who make up hosts and endpoints make the data of a process grow only so far.
func TestUnclearIsBounded(t *testing.T) {
	t.Parallel()
	u, now := newUnclear(), time.Now()
	for i := range 2 * maxUnclearHosts {
		u.refused(fmt.Sprint("h", i), "eve", now)
	}
	for i := range 2 * maxUnclearUsers {
		u.refused("h", fmt.Sprint("u", i), now)
	}
	if len(u.hosts) > maxUnclearHosts || len(u.hosts["h"].refused) > maxUnclearUsers {
		t.Errorf("%d hosts, %d users", len(u.hosts), len(u.hosts["h"].refused))
	}
}
