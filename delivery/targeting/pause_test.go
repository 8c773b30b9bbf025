package targeting_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const (
	badTopic  = "com.example.refused"
	goodTopic = apnstest.DefaultTopic
)

// refusing is a set-up in which APNs refuses the configuration of one topic.
func refusing(t *testing.T, o options) *pipeline {
	t.Helper()
	p := setup(t, o)
	p.mustDeviceOf("bob", token(1), badTopic)
	p.mustDeviceOf("eve", token(2), goodTopic)
	p.apns.ScriptTopic(badTopic, apnstest.Fail(403, "InvalidProviderToken"))
	return p
}

func (p *pipeline) pausedApp() apps.App {
	p.Helper()
	all, err := apps.New(p.db, apps.Options{}).Apps(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return all[transport.AppOf(api.PlatformAPNs, badTopic, "production")]
}

func (p *pipeline) parked() int64 {
	p.Helper()
	stats, err := p.first.queueOfNotes.Stats(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return stats.Parked
}

// requests counts what arrived for a topic.
func (p *pipeline) requests(topic string) (n int) {
	for _, r := range p.apns.Requests() {
		if r.Topic == topic {
			n++
		}
	}
	return n
}

func TestPausedAppKeepsItsMessagesAndOthersGoOn(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := refusing(t, options{db: db, delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
		first := p.mustPost(hello("bob"))
		storetest.Eventually(t, soon, "the app to be paused", func() bool { return p.pausedApp().State == apps.Paused })
		if a := p.pausedApp(); a.Reason != "InvalidProviderToken" {
			t.Errorf("paused %+v", a)
		}
		// While the app is paused, one notification per interval is sent as a probe: this one.
		var ids []string
		for range 20 {
			ids = append(ids, p.mustPost(hello("bob", "eve")))
		}
		storetest.Eventually(t, soon, "all to be parked", func() bool { return p.parked() == 21 })
		if n := p.requests(badTopic); n > 2 {
			t.Errorf("%d requests of a paused app", n)
		}
		// Notifications of the other app may still be under way when the last one is parked.
		storetest.Eventually(t, soon, "the other app's to arrive", func() bool { return p.requests(goodTopic) >= 20 })
		storetest.Eventually(t, soon, "the first to be counted", func() bool { return p.mustReport(ids[0]).Delivered == 1 })
		if n := p.requests(goodTopic); n != 20 {
			t.Errorf("%d requests of the other app, want 20", n)
		}
		if r := p.mustReport(ids[0]); r.Delivered != 1 || r.Retrying != 1 || r.State != api.EventSending {
			t.Errorf("report %+v", r)
		}
		// The configuration is corrected and read again.
		p.apns.ScriptTopic(badTopic, apnstest.OK())
		p.first.delivery.ProbeNow()
		for _, id := range ids {
			p.mustCounts(p.mustEnd(id, api.EventDone), counts{2, 2, 2, 0, 0})
		}
		p.mustCounts(p.mustEnd(first, api.EventDone), counts{1, 1, 1, 0, 0})
		storetest.Eventually(t, soon, "the app to be simply running", func() bool { return p.pausedApp() == apps.App{} })
	})
}

func TestPausedAppIsProbedOncePerIntervalInTheCluster(t *testing.T) {
	t.Parallel()
	every := 700 * time.Millisecond
	p := refusing(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = every }})
	for range 3 {
		p.process().start()
	}
	for range 10 {
		p.mustPost(hello("bob"))
	}
	storetest.Eventually(t, soon, "all to be parked", func() bool { return p.parked() >= 9 })
	parked := time.Now() // the view that a process has of the pause may be a second old
	storetest.Eventually(t, soon, "every process to know", func() bool { return time.Since(parked) > time.Second })
	before, began := p.requests(badTopic), time.Now()
	storetest.Eventually(t, soon, "four probes", func() bool { return p.requests(badTopic) >= before+4 })
	took := time.Since(began)
	if n := p.requests(badTopic) - before; took < 3*every-100*time.Millisecond {
		t.Errorf("%d probes in %v, want at most one every %v", n, took, every)
	}
	p.apns.ScriptTopic(badTopic, apnstest.OK())
	storetest.Eventually(t, soon, "all to be delivered", func() bool { return p.apns.Taken() == 10 })
}

// The probe of a paused app of Live Activities is a notification that can be sent. Those that a newer update has superseded, of which there may
// be very many, end without using the probe up.
func TestTheProbeIsNotSuperseded(t *testing.T) {
	t.Parallel()
	const users = 24
	p := setup(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	for n := range users {
		p.mustActivity(fmt.Sprint("fan", n), n, nil)
	}
	p.apns.ScriptTopic(liveTopic, apnstest.Fail(403, "InvalidProviderToken"))
	older := p.mustPost(score(1))
	storetest.Eventually(t, soon, "all to be parked", func() bool { return p.parked() == users })
	for n := 1; n < users; n++ { // they get no further update
		storetest.Must(t, p.first.devices.PutMute(t.Context(), fmt.Sprint("fan", n), "match:7", &api.MuteRequest{}))
	}
	newer := p.mustPost(score(2))
	storetest.Eventually(t, soon, "the newer one to be parked, too", func() bool { return p.parked() == users+1 })
	p.apns.ScriptTopic(liveTopic, apnstest.OK())
	p.first.delivery.ProbeNow()
	if r := p.mustEnd(newer, api.EventDone); r.Delivered != 1 {
		t.Errorf("the newer one: %+v", r)
	}
	if r := p.mustEnd(older, api.EventDone); r.Superseded != users {
		t.Errorf("the older one: %+v", r)
	}
}

func TestPausedAppIsProbedAtStart(t *testing.T) {
	t.Parallel()
	p := refusing(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	id := p.mustPost(hello("bob"))
	storetest.Eventually(t, soon, "the message to be parked", func() bool { return p.parked() == 1 })
	p.apns.ScriptTopic(badTopic, apnstest.OK())
	p.process().start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
}

// N16: when an operator asks for it, one waiting notification of the app is tried within 2 s, by whichever
// process, and none of another app. If the service takes it, everything that waits follows.
func TestN16_AProbeOnRequest(t *testing.T) {
	t.Parallel()
	const otherTopic, bad, other = "com.example.other", badTopic + "/production", "com.example.other/production"
	p := refusing(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	p.mustDeviceOf("dan", token(3), otherTopic)
	p.apns.ScriptTopic(otherTopic, apnstest.Fail(403, "InvalidProviderToken"))
	for range 2 {
		p.process().start()
	}
	for range 5 {
		p.mustPost(hello("bob", "dan"))
	}
	waiting := func(ofBad, ofOther int64) func() bool {
		return func() bool {
			counts, err := p.first.queueOfNotes.ParkedCounts(t.Context())
			storetest.Must(t, err)
			return counts[bad] == ofBad && counts[other] == ofOther
		}
	}
	storetest.Eventually(t, soon, "all to be parked", waiting(5, 5))
	store := apps.New(p.db, apps.Options{})
	// The probe of the pause itself may be under way until now.
	storetest.Eventually(t, soon, "the probes to be taken", func() bool {
		for _, app := range []string{bad, other} {
			if free, err := store.TakeProbe(t.Context(), app, time.Hour); err != nil || free {
				return false
			}
		}
		return true
	})
	ask := func() {
		t.Helper()
		_, err := store.AskProbe(t.Context(), api.Idempotency{}, bad)
		storetest.Must(t, err)
	}
	const starts = 3 // a process that starts tries each paused app, perhaps as late as now
	ofBad, ofOther, best, asked := p.requests(badTopic), p.requests(otherTopic), time.Hour, 0
	for ; asked < 5 || asked < 10 && best > 2*time.Second; asked++ { // the machine may be busy at times
		before, began := p.requests(badTopic), time.Now()
		ask()
		storetest.Eventually(t, soon, "a probe", func() bool { return p.requests(badTopic) > before })
		best = min(best, time.Since(began))
		storetest.Eventually(t, soon, "it to be parked again", waiting(5, 5))
	}
	if got := p.requests(badTopic) - ofBad; got > asked+starts {
		t.Errorf("%d notifications were tried on %d requests", got, asked)
	}
	if best > 2*time.Second {
		t.Errorf("the quickest of several probes came after %v", best)
	}
	p.apns.ScriptTopic(badTopic, apnstest.OK())
	ask()
	storetest.Eventually(t, soon, "all of the app to be sent", waiting(0, 5))
	storetest.Eventually(t, soon, "the app to run", func() bool { return p.pausedApp() == apps.App{} })
	if n := p.requests(otherTopic) - ofOther; n > starts {
		t.Errorf("%d notifications of another app were tried", n)
	}
}

func TestParkedMessagesExpire(t *testing.T) {
	t.Parallel()
	p := refusing(t, options{})
	var ids []string
	for range 5 {
		e, end := hello("bob"), api.At(time.Now().Add(6*time.Second))
		e.ExpiresAt = &end
		ids = append(ids, p.mustPost(e))
	}
	storetest.Eventually(t, soon, "all to be parked", func() bool { return p.parked() >= 4 })
	for _, id := range ids {
		p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 0, 1})
	}
}

func TestReportsOfWaitingNotificationsLiveLonger(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	p := refusing(t, options{db: storetest.Open(t, server.URL()), waits: true, delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	id := p.mustPost(hello("bob", "eve"))
	storetest.Eventually(t, soon, "the message to be parked", func() bool { return p.parked() == 1 })
	client := server.Client()
	storetest.Eventually(t, soon, "the records to live longer", func() bool {
		keys, err := client.Keys(t.Context(), "ff:*:group:*").Result()
		reports, err2 := client.Keys(t.Context(), "ff:*:report:*").Result()
		keys = append(keys, reports...)
		if err != nil || err2 != nil || len(keys) < 3 { // the keys of the event and of two shards of notifications
			return false
		}
		for _, key := range keys {
			if ttl, err := client.PTTL(t.Context(), key).Result(); err != nil || ttl < 47*time.Hour {
				return false
			}
		}
		return true
	})
	storetest.Eventually(t, soon, "the other notification to be delivered", func() bool { return p.mustReport(id).Delivered == 1 })
}

// APNs answers 503 to everything of one app. The notifications of the other app are as fast as
// before.
func TestFailingAppDoesNotSlowOthers(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.apns.ScriptTopic(badTopic, apnstest.Answer{Status: 503, Reason: "ServiceUnavailable", Delay: 200 * time.Millisecond})
	var failing []string
	for i := range 300 {
		p.mustDeviceOf("failing", token(100+i%40), badTopic)
		failing = append(failing, p.mustPost(hello("failing")))
		if i%40 == 39 {
			break
		}
	}
	for range 20 {
		failing = append(failing, p.mustPost(hello("failing")))
	}
	p.mustDeviceOf("eve", token(2), goodTopic)
	var took []time.Duration
	for range 20 {
		began := time.Now()
		p.mustEnd(p.mustPost(hello("eve")), api.EventDone)
		took = append(took, time.Since(began))
	}
	t.Logf("the healthy app: most within %v, worst %v", most(took), took[len(took)-1])
	if d := most(took); d > aSecond {
		t.Errorf("events of the healthy app took %v", d)
	}
	p.apns.ScriptTopic(badTopic)
	p.mustEnd(failing[0], api.EventDone)
}

// TestA15_AKilledProcessIsTakenOver: a process can no longer reach Redis, and its claimed work is taken over after
// the lease. Only notifications that it had under way, or whose end was not on record, are repeated.
func TestA15_AKilledProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	const fans, most = 3000, 750
	server := storetest.Redis(t)
	var passing atomic.Int64
	p := setup(t, options{
		db: storetest.Open(t, server.URL()), idle: true,
		apns: apnstest.Options{
			CountsOnly: true, TrackIDs: true, OnRequest: func(*apnstest.Request) { passing.Add(1) },
		},
		queue:    func(o *queue.Options) { o.Lease = 2 * time.Second },
		delivery: func(o *delivery.Options) { o.InFlight = most },
	})
	p.mustManyDevices(fans)
	far, url := storetest.ProxyTo(t, server.URL())
	far.Delay(40 * time.Millisecond) // so that much has ended that is not on record
	own, err := redisdb.Open(t.Context(), redisdb.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	victim := p.processOn(own)
	victim.start()
	id := p.mustPost(contactsOf("star"))
	storetest.Eventually(t, soon, "the victim to be at work", func() bool { return passing.Load() > 300 })
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	p.process().start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{fans, fans, fans, 0, 0})
	distinct, repeats := p.apns.IDs()
	t.Logf("%d requests, %d repeats", p.apns.Total(), repeats)
	if distinct != fans || repeats > most {
		t.Errorf("%d distinct, %d repeats; at most %d were under way or not on record", distinct, repeats, most)
	}
}

// processOn makes a process with its own connections to Redis.
func (p *pipeline) processOn(db *redisdb.DB) *process {
	p.Helper()
	shared := p.db
	p.db = db
	defer func() { p.db = shared }()
	return p.process()
}
