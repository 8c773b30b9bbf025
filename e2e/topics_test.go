package e2e

import (
	"fmt"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// mustFillTopic puts the followers of mustFollow into a topic, straight in SQL.
func mustFillTopic(t testing.TB, database, topic string, n int) {
	t.Helper()
	mustInsert(t, database, "topic_members (topic, user_id, joined_at)", n, func(i int) string { return fmt.Sprintf("('%s','fan-%07d',1)", topic, i) })
}

// P12: one of two processes is killed while they send an event to a topic, or to all users. The
// other one goes on: everybody gets the event and counts once, and what is sent again had been
// written when the process died.
func TestP12_KilledDuringAFanOut(t *testing.T) {
	t.Parallel()
	for name, audience := range map[string]map[string]any{
		"Topic": {"topic": "star"}, "All": {"all": true}, "ContactsOf": {"contacts_of": "star"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := storetest.Sized(50_000, 10_000)
			apns, database := startAPNs(t, 100*time.Millisecond), storetest.MySQL(t)
			servers := mustServeMany(t, 2, quick(append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database,
				"FANFARE_MAX_IN_FLIGHT=200")...)...) // so that the fan-out takes seconds
			mustFollow(t, database, "star", n)
			mustFillTopic(t, database, "star", n)
			event := greeting("")
			event["audience"] = audience
			var posted struct{ ID string }
			servers[0].must(202, &posted, "POST", "/v1/events", event)
			apns.awaitIDs(n/5, time.Minute)
			kill := now("kill -9")
			servers[0].kill()
			if got := mustReport(t, servers[1], posted.ID); got.State == "done" {
				t.Fatal("the fan-out was over before the kill: nothing was tested")
			}
			var got report
			storetest.Eventually(t, 2*time.Minute, "the event to end", func() bool {
				got = mustReport(t, servers[1], posted.ID)
				if got.Recipients > n || got.Notifications > n || got.Delivered > n {
					t.Fatalf("a report shows more than there is: %+v", got)
				}
				return got.State == "done"
			})
			if got.Recipients != n || got.Notifications != n || got.Delivered != n {
				t.Errorf("report %+v", got)
			}
			apns.awaitIDs(n, time.Minute)
			t.Logf("%d users, 1 kill, %d repeats, all in the unknown window", n, checkRepeats(t, apns, kill))
		})
	}
}
