package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// O1, O2: thousands of users open notifications of two events, a large one and a small one, each more than once, while two servers
// are killed in turns. Each user is counted once, and told once by a fact in the same numbers.
func TestO1_KillsCountEachUserOnce(t *testing.T) {
	t.Parallel()
	n, few := storetest.Sized(6000, 2500), 60
	apns := apnstest.Start(t, apnstest.Options{})
	vars := quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	turns := newKilled(t, vars)
	servers := turns.now()
	servers[0].mustRegister(n)
	servers[0].must(201, nil, "PUT", "/v1/event-types/seen", map[string]any{"title": "New photo", "opened": true})
	servers[0].mustTellFacts(api.FactTypes...)
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("user-%d", i)
	}
	ids := make([]string, 2)
	for i, audience := range [][]string{users, users[:few]} {
		var accepted struct{ ID string }
		servers[1].must(202, &accepted, "POST", "/v1/events", map[string]any{"type": "seen", "audience": map[string]any{"users": audience}})
		ids[i] = accepted.ID
	}

	pace := time.NewTicker(12 * time.Second / time.Duration(n)) // so that there is time for some kills
	defer pace.Stop()
	calls := &openings{killed: turns, ids: ids, few: few, pace: pace.C}
	f := newTold()
	turns.run(f, func() error { return spread(n, calls.make) })
	t.Logf("%d users, %d kills", n, turns.kills)
	for i, want := range []int{n, few} {
		var r api.EventReport
		p := turns.now()[0]
		storetest.Eventually(t, 3*time.Minute, "the event is done", func() bool {
			p.must(200, &r, "GET", "/v1/events/"+ids[i], nil)
			return r.State == api.EventDone
		})
		dismissed := (want + 2) / 3
		if *r.Opened != int64(want) || *r.Dismissed != int64(dismissed) {
			t.Errorf("event %d: %d opened and %d dismissed it, want %d and %d", i, *r.Opened, *r.Dismissed, want, dismissed)
		}
		storetest.Eventually(t, time.Minute, "all are told", func() bool {
			f.read(t, p, 200*time.Millisecond)
			return f.openings(t, ids[i], api.FactNotificationOpened) >= want && f.openings(t, ids[i], api.FactNotificationDismissed) >= dismissed
		})
		f.read(t, p, time.Second)
		if opened, gone := f.openings(t, ids[i], api.FactNotificationOpened), f.openings(t, ids[i], api.FactNotificationDismissed); opened != want || gone != dismissed || f.gap != 0 {
			t.Errorf("event %d: %d are told to have opened and %d to have dismissed it, want %d and %d; a gap of %d", i, opened, gone, want, dismissed, f.gap)
		}
	}
}

// openings are the calls of users who open notifications: each of them twice, every third user dismisses them as well.
type openings struct {
	*killed
	ids  []string
	few  int // so many users have the second event as well
	pace <-chan time.Time
}

// make makes the calls of the i-th user. An app repeats a call without an answer, and one that came before the notification.
func (o *openings) make(i int) error {
	<-o.pace
	for at, id := range o.ids {
		if at == 1 && i >= o.few {
			continue
		}
		paths := []string{"/opened", "/opened"}
		if i%3 == 0 {
			paths = append(paths, "/dismissed")
		}
		for _, path := range paths {
			if err := o.insistOver(http.StatusNotFound, i, http.MethodPost, "/v1/events/"+id+path, map[string]any{"user": fmt.Sprintf("user-%d", i)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// openings counts the users who are told by facts of a type about an event. None of them is told twice.
func (f *told) openings(t testing.TB, event, typ string) int {
	t.Helper()
	users := map[string]bool{}
	for _, one := range f.facts[event] {
		var d struct{ Event, User, Type string }
		if one.Type != typ {
			continue
		}
		storetest.Must(t, json.Unmarshal(one.Data, &d))
		if users[d.User] || d.Event != event || d.Type != "seen" {
			t.Fatalf("the fact %s says %s", one.ID, one.Data)
		}
		users[d.User] = true
	}
	return len(users)
}
