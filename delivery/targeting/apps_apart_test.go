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

// everySecond and firstHalf choose which of the 36,000 fans have the topic slowApp, in SQL.
const (
	everySecond = "substr(user_id, -1) IN ('1', '3', '5', '7', '9')"
	firstHalf   = "user_id < 'fan018000'"
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

// twoApps is a world with fans of two apps. The answers of slowApp are those of slow, which tells its own
// tries of a token apart.
func twoApps(t *testing.T, fans int, o options, slow func(n *transport.Notification) transport.Answer) (*pipeline, *scripted) {
	t.Helper()
	s := &scripted{answer: func(n *transport.Notification) transport.Answer {
		if n.Topic == slowApp {
			return slow(n)
		}
		return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
	}}
	o.sender = func(*pipeline) transport.Sender { return s }
	p := setup(t, o)
	p.mustManyDevices(fans)
	p.mustTwoApps(cmp.Or(o.slowFans, everySecond))
	return p, s
}

// mustReach waits until so many devices of the well app were sent to, and returns how long that took from the post.
func (p *pipeline) mustReach(s *scripted, began time.Time, fast int) time.Duration {
	p.Helper()
	storetest.Eventually(p, soon, "all devices of the app that is well to get the event", func() bool {
		got := map[string]bool{}
		for _, n := range s.sent() {
			if n.Topic != slowApp {
				got[n.Token] = true
			}
		}
		return len(got) == fast
	})
	return time.Since(began)
}

// W17: while one app of a large audience does not answer, the devices of the other app get the event in about the
// time that they need without the fault, also if the parts that come first have no other devices than those of the app
// that hangs. Notifications of that app wait as parts. When it answers again its devices get the event, each once.
func TestW17_AnAppThatHangsKeepsNoOthersDevices(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]string{"InEachPart": everySecond, "InPartsOfItsOwn": firstHalf} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustKeepApart(t, slow)
		})
	}
}

func mustKeepApart(t *testing.T, slowFans string) {
	const fans = 36_000
	run := func(hang bool) time.Duration {
		release := make(chan bool)
		open := sync.OnceFunc(func() { close(release) })
		defer open()
		p, s := twoApps(t, fans, options{sqlTime: time.Minute, slowFans: slowFans, delivery: func(o *delivery.Options) { o.InFlight = 1000 }}, func(*transport.Notification) transport.Answer {
			if hang {
				<-release
			}
			return transport.Answer{Outcome: transport.Delivered, Status: 200, Took: time.Millisecond}
		})
		began := time.Now()
		id := p.mustPost(fanOuts[1].event())
		took := p.mustReach(s, began, fans/2)
		if stats, err := p.first.queueOfNotes.Stats(t.Context()); hang && (err != nil || stats.Scheduled+stats.Depth > fans/20) {
			t.Errorf("%+v, %v: too many notifications of the app that hangs are stored", stats, err)
		}
		open()
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{fans, fans, fans, 0, 0})
		if n := len(s.sent()); n != fans {
			t.Errorf("%d notifications were sent to %d devices", n, fans)
		}
		return took
	}
	control := run(false)
	if took := run(true); took > 5*control {
		t.Errorf("the other app's devices took %v while one app hung, and %v without", took, control)
	} else {
		t.Logf("%v while one app hung, %v without", took, control)
	}
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
