package targeting_test

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustUserEvent asks what became of an event for a user.
func (p *pipeline) mustUserEvent(id, user string) *api.UserEvent {
	p.Helper()
	settings, err := p.first.devices.Settings(p.Context(), user)
	storetest.Must(p, err)
	paused := func(d *api.Device) string {
		if d.Topic == badTopic {
			return p.pausedApp().Reason
		}
		return ""
	}
	e, err := p.first.events.UserEvent(p.Context(), id, &events.UserNow{User: user, Settings: settings, Aside: paused})
	storetest.Must(p, err)
	return e
}

// mustBeAlone returns the only notification of an answer.
func mustBeAlone(t testing.TB, e *api.UserEvent) api.UserNotification {
	t.Helper()
	if len(e.Notifications) != 1 {
		t.Fatalf("%+v, want one notification", e)
	}
	return e.Notifications[0]
}

// mustBeAt fails unless a notification ended between two times, to the second. Redis' clock counts, which is that
// of this machine.
func mustBeAt(t testing.TB, n api.UserNotification, from, to time.Time) {
	t.Helper()
	if n.At == nil || n.At.Before(from.Truncate(time.Second)) || n.At.After(to) {
		t.Errorf("%+v, want a time from %v to %v", n, from, to)
	}
}

// eachHop runs a test with notifications that are sent with their event, and with such that wait in the queue.
func eachHop(t *testing.T, f func(t *testing.T, o options)) {
	t.Helper()
	for name, two := range map[string]bool{"AtOnce": false, "Waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, options{waits: two})
		})
	}
}

func TestN10_Delivered(t *testing.T) {
	t.Parallel()
	eachHop(t, func(t *testing.T, o options) {
		p := setup(t, o)
		p.mustDevice("bob", 1)
		p.mustDevice("eve", 2)
		p.mustDevice("amy", 3)
		storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "eve", "hello"))
		storetest.Must(t, p.first.devices.PutMute(t.Context(), "amy", "o:1", nil))
		before := time.Now()
		r := hello("bob", "eve", "amy", "actor")
		r.Actor, r.Object = "actor", "o:1"
		id := p.mustPost(r)
		p.mustEnd(id, api.EventDone)
		e := p.mustUserEvent(id, "bob")
		n := mustBeAlone(t, e)
		if e.State != api.EventDone || !e.OutcomesKept || n.Token != token(1) || n.Platform != api.PlatformAPNs || n.State != api.NotificationDelivered || n.Reason != "" {
			t.Errorf("delivered: %+v", e)
		}
		mustBeAt(t, n, before, time.Now())
		for user, want := range map[string][3]bool{"bob": {}, "eve": {1: true}, "amy": {2: true}, "actor": {true}} {
			e := p.mustUserEvent(id, user)
			if e.Now.IsActor == nil || e.Now.Muted == nil {
				t.Fatalf("%s: %+v", user, e.Now)
			}
			if got := [3]bool{*e.Now.IsActor, e.Now.OptedOut, *e.Now.Muted}; got != want || !e.OutcomesKept || len(e.Notifications) > 0 != (user == "bob") {
				t.Errorf("%s: actor, opted out and muted %v, want %v: %+v", user, got, want, e)
			}
		}
	})
}

// N10: a device that is gone says why and when, and so does the notification that found it gone.
func TestN10_DeviceGone(t *testing.T) {
	t.Parallel()
	eachHop(t, func(t *testing.T, o options) {
		p := setup(t, o)
		p.mustDevice("bob", 1)
		p.apns.Script(token(1), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
		before := time.Now()
		id := p.mustPost(hello("bob"))
		p.mustEnd(id, api.EventDone)
		storetest.Eventually(t, soon, "the device to be dropped", func() bool { return p.device("bob", 1).State == api.DeviceDropped })
		e := p.mustUserEvent(id, "bob")
		n := mustBeAlone(t, e)
		if n.State != api.NotificationFailed || n.Reason != "Unregistered" || !e.OutcomesKept {
			t.Errorf("%+v", e)
		}
		mustBeAt(t, n, before, time.Now())
		if d := e.Now.Devices[0]; d.State != api.DeviceDropped || d.Reason != "Unregistered" || d.DroppedAt == nil {
			t.Errorf("%+v", d)
		}
	})
}

// N10: while a notification is tried again, the push service's answer and the time of the next try are told.
func TestN10_Retrying(t *testing.T) {
	t.Parallel()
	eachHop(t, func(t *testing.T, o options) {
		// Waits have full jitter: one that is over during the test is one in a million.
		o.delivery = func(o *delivery.Options) { o.RetryBase, o.RetryMax = 10_000*time.Hour, 10_000*time.Hour }
		o.queue = func(o *queue.Options) { o.RetryBase, o.RetryMax = 10_000*time.Hour, 10_000*time.Hour }
		p := setup(t, o)
		p.mustDevice("bob", 1)
		p.apns.Script(token(1), apnstest.Fail(429, "TooManyRequests"))
		id := p.mustPost(hello("bob"))
		var e *api.UserEvent
		storetest.Eventually(t, soon, "the notification to be tried again", func() bool {
			e = p.mustUserEvent(id, "bob")
			return len(e.Notifications) == 1 && e.Notifications[0].State == api.NotificationRetrying
		})
		if n := e.Notifications[0]; n.Reason != "TooManyRequests" || n.Until == nil || n.Until.Before(time.Now().Add(-soon)) || n.At != nil || e.State == api.EventDone {
			t.Errorf("%+v", e)
		}
		second := p.mustPost(hello("bob"))
		storetest.Eventually(t, soon, "the next one to wait for the device", func() bool {
			e = p.mustUserEvent(second, "bob")
			return len(e.Notifications) == 1 && e.Notifications[0].Reason == "the device backs off"
		})
		if n := e.Notifications[0]; n.State != api.NotificationWaiting || n.Until == nil {
			t.Errorf("%+v", n)
		}
	})
}

func TestN10_Expired(t *testing.T) {
	t.Parallel()
	p := setup(t, options{waits: true, delivery: func(o *delivery.Options) { o.MaxAge = time.Nanosecond }})
	p.mustDevice("bob", 1)
	before := time.Now()
	id := p.mustPost(hello("bob"))
	p.mustEnd(id, api.EventDone)
	n := mustBeAlone(t, p.mustUserEvent(id, "bob"))
	if n.State != api.NotificationExpired {
		t.Errorf("%+v", n)
	}
	mustBeAt(t, n, before, time.Now())
}

// N10: what fanfare no longer knows is not told as if nothing had been sent.
func TestN10_OutcomesThatAreNotKept(t *testing.T) {
	t.Parallel()
	p := setup(t, options{waits: true, queue: func(o *queue.Options) { o.Retention = 500 * time.Millisecond }})
	p.mustDevice("bob", 1)
	id := p.mustPost(hello("bob"))
	p.mustEnd(id, api.EventDone)
	storetest.Eventually(t, soon, "the tombstone to go", func() bool { return len(p.mustUserEvent(id, "bob").Notifications) == 0 })
	if e := p.mustUserEvent(id, "bob"); e.OutcomesKept || e.State != api.EventDone {
		t.Errorf("%+v", e)
	}
}

func TestN10_Waits(t *testing.T) {
	t.Parallel()
	p := refusing(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = time.Hour }})
	id := p.mustPost(hello("bob"))
	storetest.Eventually(t, soon, "the notification to be set aside", func() bool { return p.parked() == 1 })
	e := p.mustUserEvent(id, "bob")
	if n := mustBeAlone(t, e); n.State != api.NotificationWaiting || n.Reason != "InvalidProviderToken" || e.State != api.EventSending || !e.OutcomesKept {
		t.Errorf("%+v", e)
	}
}

// N10: a dead letter is a notification that failed, and so is one that was deleted.
func TestN10_DeadLetter(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice("bob", 1)
	p.apns.Script(token(1), apnstest.Fail(400, "BadPriority"))
	before := time.Now()
	id := p.mustPost(hello("bob"))
	p.mustEnd(id, api.EventDone)
	n := mustBeAlone(t, p.mustUserEvent(id, "bob"))
	if n.State != api.NotificationFailed || n.Reason != "BadPriority" || n.At == nil || n.At.Before(before.Add(-time.Minute)) || n.At.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v", n)
	}
	q := p.first.queueOfNotes
	storetest.Must(t, q.DeleteDead(t.Context(), q.DeadID(q.Route(token(1)), events.NotificationJob(id, token(1)))))
	if n := mustBeAlone(t, p.mustUserEvent(id, "bob")); n.State != api.NotificationFailed {
		t.Errorf("deleted: %+v", n)
	}
}

// N10: of an event with several devices, and of one with a large audience, each user is told how the notification
// has ended.
func TestN10_Many(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int{"AtOnce": 12, "Parts": 3*events.PageSize + 250} { // on several shards
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{})
			p.mustManyDevices(many)
			gone := many - 3
			p.apns.Script(token(1_000_000+gone), apnstest.Gone("Unregistered", time.Now().Add(time.Hour)))
			before := time.Now()
			post := hello(append(fans(many), "nobody")...)
			if many > events.PageSize {
				post = fanOut{events.Audience{Topic: "star"}}.event()
			}
			id := p.mustPost(post)
			p.mustEnd(id, api.EventDone)
			for i, user := range fans(many) {
				if i != gone && many > 100 && i%40 > 0 {
					continue
				}
				e := p.mustUserEvent(id, user)
				want, why := api.NotificationDelivered, ""
				if i == gone {
					want, why = api.NotificationFailed, "Unregistered"
				}
				n := mustBeAlone(t, e)
				if n.Token != token(1_000_000+i) || n.State != want || n.Reason != why || !e.OutcomesKept {
					t.Errorf("%s: %+v", user, e)
				}
				mustBeAt(t, n, before, time.Now())
			}
			for _, user := range []string{"nobody", "stranger"} {
				if e := p.mustUserEvent(id, user); !e.OutcomesKept || len(e.Notifications) > 0 {
					t.Errorf("%s: %+v", user, e)
				}
			}
			if keys := p.mustKeys("ff:{q:events:*}:notes:*"); len(keys) == 0 {
				t.Error("no notes")
			} else if left := p.db.Client().PTTL(t.Context(), keys[0]).Val(); left <= 0 {
				t.Errorf("%s stays for %v", keys[0], left)
			}
		})
	}
}
