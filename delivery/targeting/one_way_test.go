package targeting_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/events"
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

// storedOf is how many notifications of an event became jobs of their own.
func (p *pipeline) storedOf(id string) int64 {
	p.Helper()
	counts, err := p.first.queueOfNotes.Groups(p.Context(), id)
	storetest.Must(p, err)
	return counts[events.CountCreated]
}

// mostRounds is how often a test posts an event until the machine is not so busy that what was read of the devices
// becomes too old before they are sent to.
const mostRounds = 5

// TestP5_ManyDevicesAreSentWithTheirEvent: nothing is stored of an event between targeting and sending, however many
// devices its users have.
func TestP5_ManyDevicesAreSentWithTheirEvent(t *testing.T) {
	t.Parallel()
	eachMany(t, func(t *testing.T, users int) {
		p := setup(t, options{apns: apnstest.Options{TrackIDs: true}})
		p.mustFourEach(users)
		n, stored := int64(users*fourEach), int64(1)
		for round := 1; round <= mostRounds && stored > 0; round++ {
			id := p.mustPost(hello(fans(users)...))
			p.mustCounts(p.mustEnd(id, api.EventDone), counts{int64(users), n, n, 0, 0})
			if distinct, repeats := p.apns.IDs(); distinct != round*int(n) || repeats > 0 {
				t.Errorf("%d devices were reached, %d repeats", distinct, repeats)
			}
			stored = p.storedOf(id)
		}
		if stored > 0 {
			t.Errorf("%d notifications were stored between targeting and sending", stored)
		}
	})
}

// TestP9_ManyDevicesAreTakenOver: a process dies while one of many devices of an event hangs. The process that takes
// the event over sends only to that device, and the report counts each once.
func TestP9_ManyDevicesAreTakenOver(t *testing.T) {
	t.Parallel()
	const users, n = 100, 100 * fourEach
	server := storetest.Redis(t)
	p := setup(t, options{db: storetest.Open(t, server.URL()), idle: true, apns: apnstest.Options{TrackIDs: true},
		queue: func(o *queue.Options) { o.Lease = 6 * time.Second }})
	p.mustFourEach(users)
	p.apns.Script(token(1_000_003), apnstest.Failing(apnstest.Hang), apnstest.OK())
	own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
	storetest.Must(t, err)
	p.processOn(own).start()
	id := p.mustPost(hello(fans(users)...))
	storetest.Eventually(t, soon, "all ends but one to be on record", func() bool { return p.mustReport(id).Delivered == n-1 })
	storetest.Must(t, own.Close()) // from now on this process does not reach Redis
	p.process().start()
	want := counts{users, n, n, 0, 0}
	p.mustCounts(p.mustEndTrue(id, want), want)
	if distinct, repeats := p.apns.IDs(); distinct != n || p.apns.Total() != n+1 {
		t.Errorf("%d devices were reached, %d repeats, %d requests", distinct, repeats, p.apns.Total())
	}
}

// TestP5_OnlyWhatHasNoRoomWaits: an app has room for some of the devices of an event. The others wait as one job, and none
// becomes a job of its own. Each device gets the event once.
func TestP5_OnlyWhatHasNoRoomWaits(t *testing.T) {
	t.Parallel()
	eachMany(t, func(t *testing.T, users int) {
		var gate atomic.Pointer[chan bool] // closed: the app answers
		s := &scripted{answer: func(*transport.Notification) transport.Answer {
			<-*gate.Load()
			return transport.Answer{Outcome: transport.Delivered, Status: 200}
		}}
		p := setup(t, options{sender: func(*pipeline) transport.Sender { return s }, delivery: func(o *delivery.Options) { o.InFlight = 300 }})
		p.mustFourEach(users)
		n := users * fourEach
		try := func() (stored int64) {
			closed := make(chan bool)
			open := sync.OnceFunc(func() { close(closed) })
			defer open()
			gate.Store(&closed)
			id, before := p.mustPost(hello(fans(users)...)), len(s.sent())
			storetest.Eventually(t, soon, "some to be under way", func() bool { return len(s.sent())-before >= 200 })
			began := time.Now()
			storetest.Eventually(t, soon, "the others to have waited", func() bool { return time.Since(began) > 3*time.Second })
			if got := len(s.sent()) - before; got > 300 {
				t.Errorf("%d requests are under way", got)
			}
			open()
			all := counts{int64(users), int64(n), int64(n), 0, 0}
			p.mustCounts(p.mustEndTrue(id, all), all)
			if got := len(s.sent()) - before; got != n {
				t.Errorf("%d notifications were sent to %d devices", got, n)
			}
			return p.storedOf(id)
		}
		stored := try()
		for round := 1; round < mostRounds && stored > 0; round++ {
			stored = try()
		}
		if stored > 0 {
			t.Errorf("%d notifications were stored", stored)
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
		return r.State == api.EventTargeting && *r.Recipients == 1 && r.Delivered == 2
	})
	cut.stop()
	p.process().start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{2, 2, 2, 0, 0})
	if n := p.apns.Total(); n != 2 {
		t.Errorf("%d requests to 2 devices", n)
	}
}

// TestP5_WhatWaitedForSQLIsSentAtOnce: an event waits while SQL is away, and nothing of it is begun. When SQL is back it
// is sent like a new one, and nothing is stored.
func TestP5_WhatWaitedForSQLIsSentAtOnce(t *testing.T) {
	t.Parallel()
	p, proxy := hangingSQL(t, 1, 0)
	id := p.mustPost(hello("user0"))
	proxy.Cut()
	p.first.start()
	storetest.Eventually(t, soon, "the event to wait", func() bool {
		stats, err := p.first.queueOfEvents.Stats(t.Context())
		storetest.Must(t, err)
		return stats.Scheduled == 1
	})
	proxy.Mend()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
	if n := p.storedOf(id); n > 0 {
		t.Errorf("%d notifications were stored between targeting and sending", n)
	}
}

// TestP9_StoredBeforeTheEventWentOn: an event goes on with users who could not be read, after notifications to others
// had become jobs and were delivered. It is not done while a notification of the second step is under way.
func TestP9_StoredBeforeTheEventWentOn(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true})
	for i, user := range []string{"cached", "cached", "cold", "cold"} {
		p.mustDevice(user, i+1)
	}
	for i := 1; i <= 2; i++ {
		p.apns.Script(token(i), apnstest.Fail(503, "ServiceUnavailable"), apnstest.OK())
	}
	p.apns.Script(token(4), apnstest.Failing(apnstest.Hang), apnstest.OK())
	id := p.mustPost(hello("cached", "cold"))
	p.mustCache("cached")
	storetest.Must(t, p.db.Client().Del(t.Context(), "ff:{u:cold}:settings").Err())
	cut := p.mustProcessWithoutSQL()
	cut.start()
	storetest.Eventually(t, soon, "the jobs of the first user to be delivered", func() bool {
		r := p.mustReport(id)
		return r.State == api.EventTargeting && r.Delivered == 2
	})
	cut.stop()
	p.process().start()
	storetest.Eventually(t, soon, "one of the second user's to be delivered", func() bool { return p.mustReport(id).Delivered == 3 })
	if r := p.mustReport(id); r.State == api.EventDone || r.Notifications != 4 {
		t.Errorf("while one is under way: %s, %d notifications", r.State, r.Notifications)
	}
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{2, 4, 4, 0, 0})
}
