package targeting_test

import (
	"cmp"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/transport"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// slowApp is the topic of an app whose push service does not answer as it should.
const slowApp = "com.example.slow"

// everySecond and firstHalf choose which of the fans have the topic slowApp, in SQL.
const (
	everySecond = "substr(user_id, -1) IN ('1', '3', '5', '7', '9')"
	firstHalf   = "2 * substr(user_id, 4) < (SELECT COUNT(*) FROM devices WHERE user_id LIKE 'fan%')"
)

// mustTwoApps gives the devices of some fans the topic slowApp.
func (p *pipeline) mustTwoApps(of string) {
	p.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(p.o.sql, "sqlite:"))
	storetest.Must(p, err)
	defer db.Close()
	_, err = db.ExecContext(p.Context(), "UPDATE devices SET topic = ? WHERE user_id LIKE 'fan%' AND "+of, slowApp)
	storetest.Must(p, err)
}

// twoApps is a world with fans of two apps. The answers of slowApp, also for its activities, are those of slow, which tells its own
// tries of a token apart.
func twoApps(t *testing.T, fans int, o options, slow func(n *transport.Notification) transport.Answer) (*pipeline, *scripted) {
	t.Helper()
	s := &scripted{answer: func(n *transport.Notification) transport.Answer {
		if strings.HasPrefix(n.Topic, slowApp) {
			return slow(n)
		}
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
	}}
	o.sender = func(*pipeline) transport.Sender { return s }
	p := setup(t, o)
	if fans > 0 { // in SQLite
		p.mustManyDevices(fans)
		p.mustTwoApps(cmp.Or(o.slowFans, everySecond))
	}
	return p, s
}

// mustReach waits until so many devices of the well app were sent to, and returns how long that took from the post.
func (p *pipeline) mustReach(s *scripted, began time.Time, fast int) time.Duration {
	p.Helper()
	got, seen := map[string]bool{}, 0
	storetest.Eventually(p, soon, "all devices of the app that is well to get the event", func() bool {
		for _, n := range s.sentAfter(seen) {
			if seen++; n.Topic != slowApp {
				got[n.Token] = true
			}
		}
		return len(got) == fast
	})
	return time.Since(began)
}

// W17: while one app of a large audience does not answer, the devices of the other app get the event, also if the parts
// that come first have no other devices than those of the app that hangs. Notifications of that app wait as parts. When
// it answers again its devices get the event, each once.
func TestW17_AnAppThatHangsKeepsNoOthersDevices(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]string{"InEachPart": everySecond, "InPartsOfItsOwn": firstHalf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustKeepApart(t, slow, 12_000, 1000, true)
		})
	}
}

// W17: if the parts that come first have no other devices than those of the app that hangs, the devices of the other app
// get the event in about the time that they need without the fault. The mixed audience of e2e has both apps in each part.
//
// Not parallel: it measures (make capacity).
func TestW17_AnAppThatHangsDelaysNoOther(t *testing.T) {
	const fans, inFlight = 36_000, 1000
	control := mustKeepApart(t, firstHalf, fans, inFlight, false)
	if took := mustKeepApart(t, firstHalf, fans, inFlight, true); took > 5*control {
		t.Errorf("the other app's devices took %v while one app hung, and %v without", took, control)
	} else {
		t.Logf("%v while one app hung, %v without", took, control)
	}
}

// mustKeepApart sends an event to fans of two apps, one of which hangs until all devices of the other have it, and returns
// how long these took.
func mustKeepApart(t *testing.T, slowFans string, fans, inFlight int, hang bool) time.Duration {
	t.Helper()
	release := make(chan bool)
	open := sync.OnceFunc(func() { close(release) })
	defer open()
	p, s := twoApps(t, fans, options{sqlTime: time.Minute, slowFans: slowFans, delivery: func(o *delivery.Options) { o.InFlight = inFlight }}, func(*transport.Notification) transport.Answer {
		if hang {
			<-release
		}
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
	})
	began, n := time.Now(), int64(fans)
	id := p.mustPost(fanOuts[1].event())
	took := p.mustReach(s, began, fans/2)
	if stats, err := p.first.queueOfNotes.Stats(t.Context()); hang && (err != nil || stats.Scheduled+stats.Depth > n/20) {
		t.Errorf("%+v, %v: too many notifications of the app that hangs are stored", stats, err)
	}
	open()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{n, n, n, 0, 0})
	if sent := len(s.sent()); sent != fans {
		t.Errorf("%d notifications were sent to %d devices", sent, fans)
	}
	return took
}

// W17: thousands of notifications of one app back off, and events wait for their time. The fan-out of another app
// goes on as without them.
func TestW17_WhatWaitsForItsTimeHoldsUpNoFanOut(t *testing.T) {
	t.Parallel()
	p := setup(t, options{sqlTime: time.Minute})
	const fans = 3000
	p.mustManyDevices(fans)
	run := func() time.Duration {
		began := time.Now()
		p.mustCounts(p.mustEnd(p.mustPost(fanOuts[1].event()), api.EventDone), counts{fans, fans, fans, 0, 0})
		return time.Since(began)
	}
	run()
	control := run()
	var jobs []queue.Job
	for range 2000 {
		jobs = append(jobs, queue.Job{Payload: []byte("{}"), Delay: time.Hour})
	}
	for range 2 {
		_, err := p.first.queueOfNotes.Enqueue(t.Context(), jobs...)
		storetest.Must(t, err)
	}
	_, err := p.first.queueOfEvents.Enqueue(t.Context(), jobs[:200]...)
	storetest.Must(t, err)
	if took := run(); took > 8*control {
		t.Errorf("%v beside jobs that wait for their time, %v without", took, control)
	}
}
