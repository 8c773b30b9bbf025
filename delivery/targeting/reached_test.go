package targeting_test

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestWhoWasReachedIsNotLeftOut: a process dies with one of an event's sends under way. Before
// another process takes the event over, users who got their notification opt out, mute, and remove
// their device. Each of them is counted once, as delivered.
func TestWhoWasReachedIsNotLeftOut(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, queue: func(o *queue.Options) { o.Lease = time.Second }})
	const users = 5
	var names []string
	for n := range users {
		p.mustDevice(user(n), n)
		names = append(names, user(n))
	}
	p.apns.Script(token(0), apnstest.Failing(apnstest.Hang), apnstest.OK())
	own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	p.processOn(own).start()
	event := hello(names...)
	event.Object = "album:1"
	id := p.mustPost(event)
	storetest.Eventually(t, soon, "all but one to be on record", func() bool { return p.mustReport(id).Delivered == users-1 })
	if err := own.Close(); err != nil { // from now on this process does not reach Redis
		t.Fatal(err)
	}
	devices := p.first.devices
	for _, err := range []error{
		devices.PutOptOut(t.Context(), user(1), event.Type), devices.PutMute(t.Context(), user(2), event.Object, nil),
		devices.DeleteDevice(t.Context(), user(3), token(3)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.process().start()
	r := p.mustEnd(id, api.EventDone)
	if p.mustCounts(r, counts{users, users, users, 0, 0}); r.Suppressed != (api.SuppressedCounts{}) {
		t.Errorf("report %+v", r)
	}
}
