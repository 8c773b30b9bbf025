package e2e

import (
	"fmt"
	"testing"
	"time"

	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/store/storetest"
)

// P5, W17: FCM takes requests and answers none while a burst of events to many phones of both kinds comes. The iPhones get
// theirs, the rest of each event takes little of Redis, and waits through a kill -9. When FCM answers again, each of its phones gets each event
// once, and no iPhone gets one again.
func TestP5_ABurstWaitsForFCMThroughAKill(t *testing.T) {
	t.Parallel()
	const users, batches, batch = 30, 3, 100
	const eachEvent, eachJob, window, timeout = 6 << 10, 3 << 9, 1000, 20 * time.Second
	redis, dir := storetest.Redis(t), t.TempDir()
	a := androidFiles(t)
	vars := append(a.vars(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_LOG_LEVEL=error", "FANFARE_NOTIFICATION_LEASE=4s")
	a.program = mustServe(t, dir, vars...)
	var to []string
	for n := range users {
		to = append(to, fmt.Sprintf("user-%d", n))
		a.mustRegisterFor(to[n], "com.example.app", n)
		a.mustRegisterFCM(to[n], n, "")
	}
	a.mustEnd(a.mustPost(greeting(to...)))
	a.fcm.Script(func(*fcmtest.Request) fcmtest.Answer { return fcmtest.Answer{Fault: exchangetest.Hang} })
	a.mustFillFCM(t, to)
	before, already, began := usedMemory(t, redis), a.apns.Total(), time.Now()
	var ids []string
	for range batches {
		var events []map[string]any
		for range batch {
			events = append(events, greeting(to...))
		}
		var accepted struct{ Items []struct{ ID string } }
		a.must(202, &accepted, "POST", "/v1/events/batch", map[string]any{"events": events})
		for _, e := range accepted.Items {
			ids = append(ids, e.ID)
		}
	}
	// On a busy machine APNs may seem to hang, too: then events wait for a quarter of their age.
	storetest.Eventually(t, 3*time.Minute, "all iPhones have all events, on record", func() bool {
		delivered := 0
		for _, id := range ids {
			delivered += mustReport(t, a.program, id).Platforms["apns"].Delivered
		}
		return delivered == len(ids)*users
	})
	// Requests that FCM does not answer are jobs of their own after their time: those of a window at a time.
	most := int64(len(ids)*eachEvent) + int64(1+time.Since(began)/timeout)*window*eachJob
	if grown := usedMemory(t, redis) - before; grown > most {
		t.Errorf("%d events take %d bytes of Redis while FCM hangs, at most %d", len(ids), grown, most)
	} else {
		t.Logf("%d bytes for each event", grown/int64(len(ids)))
	}
	a.kill()
	a.fcm.Script(nil)
	a.program = mustServe(t, dir, vars...)
	// What waited for long on a busy machine looks for room again after a quarter of that.
	storetest.Eventually(t, 3*time.Minute, "the first event to be over", func() bool { return mustReport(t, a.program, ids[0]).State == "done" })
	for _, id := range ids {
		if r := a.mustEnd(id); r.Delivered != 2*users || r.Notifications != 2*users {
			t.Errorf("event %s: %+v", id, r)
		}
	}
	if n := a.apns.Total() - already; n != len(ids)*users {
		t.Errorf("%d requests to iPhones for %d notifications", n, len(ids)*users)
	}
	got := map[string]int{}
	for _, r := range a.fcm.Requests() {
		if !r.Answered.IsZero() {
			got[r.Message.Data["event_id"]+r.Message.Token]++
		}
	}
	for _, id := range ids {
		for n := range users {
			if times := got[id+fcmDevice(n)]; times != 1 {
				t.Errorf("device %d got event %s %d times", n, id, times)
			}
		}
	}
}

// mustFillFCM posts events until FCM, which hangs, has all under way that it may have.
func (a *android) mustFillFCM(t *testing.T, to []string) {
	t.Helper()
	last, since := -1, time.Now()
	storetest.Eventually(t, time.Minute, "FCM has no room", func() bool {
		if n := len(a.fcm.Requests()); n != last {
			last, since = n, time.Now()
			a.mustPost(greeting(to...))
		}
		return time.Since(since) > 3*time.Second
	})
}

// P8: FCM hangs, and an event to all users waits for it until it is older than FANFARE_MAX_AGE. SQL, which has its audience, is away
// then. When SQL is back the notifications expire, and there is no dead letter.
func TestP8_AnEventThatIsTooOldWaitsForSQL(t *testing.T) {
	t.Parallel()
	const users, age = 10, 10 * time.Second
	proxy, database := storetest.ProxyTo(t, storetest.MySQL(t))
	a := androidFiles(t)
	a.program = mustServe(t, t.TempDir(), append(a.vars(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+database,
		"FANFARE_LOG_LEVEL=error", "FANFARE_MAX_AGE="+age.String())...)
	var to []string
	for n := range users {
		to = append(to, fmt.Sprintf("user-%d", n))
		a.mustRegisterFCM(to[n], n, "")
	}
	a.mustEnd(a.mustPost(greeting(to...)))
	a.fcm.Script(func(*fcmtest.Request) fcmtest.Answer { return fcmtest.Answer{Fault: exchangetest.Hang} })
	a.mustFillFCM(t, to)
	all, posted := greeting("all"), time.Now()
	all["audience"] = map[string]any{"all": true}
	id := a.mustPost(all)
	storetest.Eventually(t, time.Minute, "the event to have found no room", func() bool { return time.Since(posted) > age/4 })
	proxy.Cut()
	storetest.Eventually(t, time.Minute, "the event to be too old", func() bool { return time.Since(posted) > age*5/4 })
	proxy.Mend()
	if r := a.mustEnd(id); r.Notifications != users || r.Expired != users {
		t.Errorf("%+v", r)
	}
	var dead struct{ Items []any }
	a.must(200, &dead, "GET", "/v1/dead-letters", nil)
	if len(dead.Items) > 0 {
		t.Errorf("%+v", dead.Items)
	}
}
