package targeting_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// fourEach is how many devices each fan has in a world of mustFourEach.
const fourEach = 4

// mustFourEach is mustManyDevices with four devices for each of the fans.
func (p *pipeline) mustFourEach(fans int) {
	p.Helper()
	p.mustManyDevices(fans)
	db, err := sql.Open("sqlite", strings.TrimPrefix(p.o.sql, "sqlite:"))
	storetest.Must(p, err)
	defer db.Close()
	tx, err := db.BeginTx(p.Context(), nil)
	storetest.Must(p, err)
	for i := range fans * (fourEach - 1) {
		_, err := tx.ExecContext(p.Context(), `INSERT INTO devices (token, user_id, platform, topic, environment, state, reason, registered_at, dropped_at)
			VALUES (?, ?, 'apns', ?, 'production', 'active', '', 1, NULL)`, token(2_000_000+i), fmt.Sprintf("fan%06d", i%fans), apnstest.DefaultTopic)
		storetest.Must(p, err)
	}
	storetest.Must(p, tx.Commit())
}

// eachMany runs a test with an event to many devices of few users, and with one whose parts have as many devices.
func eachMany(t *testing.T, fn func(t *testing.T, users int)) {
	t.Helper()
	for name, users := range map[string]int{"Event": 100, "Parts": 150} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(t, users)
		})
	}
}

// TestP5_ManyDevicesAreSentWithTheirEvent: nothing is stored of an event between targeting and sending, however many
// devices its users have.
func TestP5_ManyDevicesAreSentWithTheirEvent(t *testing.T) {
	t.Parallel()
	eachMany(t, func(t *testing.T, users int) {
		p := setup(t, options{apns: apnstest.Options{TrackIDs: true}})
		p.mustFourEach(users)
		n := int64(users * fourEach)
		p.mustCounts(p.mustEnd(p.mustPost(hello(fans(users)...)), api.EventDone), counts{int64(users), n, n, 0, 0})
		for _, kind := range []string{"group:", "done:", "jobs"} {
			if keys := p.mustKeysOf(kind); len(keys) > 0 {
				t.Errorf("stored between targeting and sending: %v", keys)
			}
		}
		if distinct, repeats := p.apns.IDs(); distinct != int(n) || repeats > 0 {
			t.Errorf("%d devices were reached, %d repeats", distinct, repeats)
		}
	})
}

// TestP9_ManyDevicesAreTakenOver: a process dies while one of many devices of an event hangs. The process that takes
// the event over sends only to that device, and the report counts each once.
func TestP9_ManyDevicesAreTakenOver(t *testing.T) {
	t.Parallel()
	eachMany(t, func(t *testing.T, users int) {
		server := storetest.Redis(t)
		p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, apns: apnstest.Options{TrackIDs: true},
			queue: func(o *queue.Options) { o.Lease = 6 * time.Second }})
		p.mustFourEach(users)
		p.apns.Script(token(1_000_003), apnstest.Failing(apnstest.Hang), apnstest.OK())
		own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
		storetest.Must(t, err)
		p.processOn(own).start()
		id, n := p.mustPost(hello(fans(users)...)), users*fourEach
		storetest.Eventually(t, soon, "all ends but one to be on record", func() bool {
			marks := p.mustKeys("ff:{q:events:*}:marks:*")
			return len(marks) == 1 && p.db.Client().HLen(t.Context(), marks[0]).Val() == 100*fourEach-1 && p.mustReport(id).Delivered >= int64(n-100*fourEach)
		})
		storetest.Must(t, own.Close()) // from now on this process does not reach Redis
		p.process().start()
		want := counts{int64(users), int64(n), int64(n), 0, 0}
		p.mustCounts(p.mustEndTrue(id, want), want)
		if distinct, repeats := p.apns.IDs(); distinct != n || p.apns.Total() != n+1 {
			t.Errorf("%d devices were reached, %d repeats, %d requests", distinct, repeats, p.apns.Total())
		}
	})
}

// TestP5_OnlyWhatHasNoRoomWaits: an app has room for some of the devices of an event. The others of an event to few
// users become jobs of their own, and those of a part wait as one job. Each device gets the event once.
func TestP5_OnlyWhatHasNoRoomWaits(t *testing.T) {
	t.Parallel()
	eachMany(t, func(t *testing.T, users int) {
		release := make(chan bool)
		open := sync.OnceFunc(func() { close(release) })
		defer open()
		s := &scripted{answer: func(*transport.Notification) transport.Answer {
			<-release
			return transport.Answer{Outcome: transport.Delivered, Status: 200}
		}}
		p := setup(t, options{idle: true, sender: func(*pipeline) transport.Sender { return s }, delivery: func(o *delivery.Options) { o.InFlight = 300 }})
		p.mustFourEach(users)
		n := users * fourEach
		id := p.mustPost(hello(fans(users)...))
		p.first.start()
		storetest.Eventually(t, soon, "some to be under way", func() bool { return len(s.sent()) >= 200 })
		began := time.Now()
		storetest.Eventually(t, soon, "the others to have waited", func() bool {
			stats, err := p.first.queueOfNotes.Stats(t.Context())
			storetest.Must(t, err)
			stored := stats.Depth + stats.Scheduled + stats.InFlight
			if users > 100 && stored > 0 {
				t.Fatalf("%d notifications of a part are stored", stored)
			}
			return time.Since(began) > 3*time.Second || users == 100 && stored == int64(n-250)
		})
		if got := len(s.sent()); got > 300 {
			t.Errorf("%d requests are under way", got)
		}
		open()
		want := counts{int64(users), int64(n), int64(n), 0, 0}
		p.mustCounts(p.mustEndTrue(id, want), want)
		if got := len(s.sent()); got != n {
			t.Errorf("%d notifications were sent to %d devices", got, n)
		}
	})
}

// TestA15_WhatWasStoredBeforeSQLWasAway: a process stored a notification of an event, and died before that was on
// record. While SQL is away another process sends to the users that it knows, and goes on with the others when SQL is
// back. Nobody gets the event twice.
func TestA15_WhatWasStoredBeforeSQLWasAway(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	p.mustDevice("cached", 1)
	p.mustDevice("cold", 2)
	id := p.mustPost(hello("cached", "cold"))
	release := p.mustHold()
	_, err := p.first.queueOfNotes.Enqueue(t.Context(), p.stored(id, "cold", p.device("cold", 2)))
	storetest.Must(t, err)
	release()
	p.mustCache("cached")
	storetest.Must(t, p.db.Client().Del(t.Context(), "ff:{u:cold}:settings").Err())
	cut := p.mustProcessWithoutSQL()
	cut.start()
	p.apns.MustWait(t, 2, soon)
	storetest.Eventually(t, soon, "the event to wait for the other user", func() bool {
		r := p.mustReport(id)
		return r.State == api.EventTargeting && r.Recipients == 1 && r.Delivered == 2
	})
	cut.stop()
	p.process().start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{2, 2, 2, 0, 0})
	if n := p.apns.Total(); n != 2 {
		t.Errorf("%d requests to 2 devices", n)
	}
}
