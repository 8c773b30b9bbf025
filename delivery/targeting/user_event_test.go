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

func TestN10_Delivered(t *testing.T) {
	t.Parallel()
	p := setup(t, options{twoHops: true})
	p.mustDevice("bob", 1)
	p.mustDevice("eve", 2)
	storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "eve", "hello"))
	id := p.mustPost(hello("bob", "eve"))
	p.mustEnd(id, api.EventDone)
	e := p.mustUserEvent(id, "bob")
	n := mustBeAlone(t, e)
	if e.State != api.EventDone || !e.OutcomesKept || n.Token != token(1) || n.Platform != api.PlatformAPNs || n.State != api.NotificationDelivered || n.Reason != "" {
		t.Errorf("delivered: %+v", e)
	}
	if e = p.mustUserEvent(id, "eve"); len(e.Notifications) > 0 || !e.OutcomesKept || !e.Now.OptedOut {
		t.Errorf("opted out: %+v", e)
	}
}

// N10: what fanfare no longer knows is not told as if nothing had been sent.
func TestN10_OutcomesThatAreNotKept(t *testing.T) {
	t.Parallel()
	p := setup(t, options{twoHops: true, queue: func(o *queue.Options) { o.Retention = 500 * time.Millisecond }})
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
