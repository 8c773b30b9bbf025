package targeting_test

import (
	"context"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

const (
	erasedUser = "zoe-mallory"
	secretText = "a-secret-text"
)

// mustErase begins to erase a user.
func (p *pipeline) mustErase(user string) *record.Operation {
	p.Helper()
	id, err := p.rec.StartErasure(p.Context(), user, time.Now().UnixMilli())
	storetest.Must(p, err)
	o, err := p.rec.OpenOperation(p.Context(), id)
	storetest.Must(p, err)
	return o
}

// namesOf lists keys that have the name or the text of the erased user.
func (p *pipeline) namesOf(texts ...string) (keys []string) {
	p.Helper()
	for _, text := range texts {
		keys = append(keys, storetest.KeysWith(p, p.db, text)...)
	}
	return keys
}

// eraseLate erases the facts that name the user, and the failures that a late probe of a paused app has told. The steps of devices,
// events and notifications leave both; the operation's step of the keys comes after them.
func (p *pipeline) eraseLate(o *record.Operation) {
	p.Helper()
	p.erased = true
	storetest.Must(p, p.facts.Sweep(p.Context()))
	since, keys := time.UnixMilli(o.Since), p.namesOf(erasedUser)
	storetest.Must(p, second(p.first.events.EraseFailures(p.Context(), erasedUser, since, keys)))
	storetest.Must(p, second(p.facts.EraseLeft(p.Context(), o, time.Minute, keys)))
	storetest.Must(p, second(p.facts.Erase(p.Context(), o)))
}

func secret(actor string, users ...string) *api.EventRequest {
	r := hello(users...)
	r.Actor, r.Object, r.Data = actor, "", map[string]string{"text": secretText}
	return r
}

// E6: what waits for the devices of an erased user ends as device_gone, and what the user caused as
// expired, although their app is paused; neither keeps its text. Others' notifications stay, and each
// is counted once.
func TestE6_NotificationsThatWait(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(map[bool]string{false: "AtOnce", true: "Waits"}[waits], func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{waits: waits})
			p.mustDeviceOf(erasedUser, token(1), badTopic)
			p.mustDeviceOf("bob", token(2), badTopic)
			p.apns.ScriptTopic(badTopic, apnstest.Fail(403, "InvalidProviderToken"))
			toUser, both := p.mustPost(secret("carol", erasedUser)), p.mustPost(secret("carol", erasedUser, "bob"))
			byUser := p.mustPost(secret(erasedUser, "bob"))
			storetest.Eventually(t, soon, "all are parked", func() bool { return p.parked() == 4 })
			o := p.mustErase(erasedUser)
			storetest.Must(t, second(p.first.devices.Erase(t.Context(), o)))
			again := p.mustPost(&api.EventRequest{Type: "hello", Actor: "carol", Audience: api.Audience{Users: []string{"bob"}}, Alert: &api.Alert{Title: "stays"}})
			storetest.Eventually(t, soon, "nothing is left to erase", func() bool {
				n, dead, busy, err := p.first.delivery.Erase(t.Context(), o)
				storetest.Must(t, err)
				return n == 0 && dead == 0 && !busy
			})
			p.mustCounts(p.mustEnd(toUser, api.EventDone), counts{recipients: 1, notifications: 1, failed: 1})
			p.mustCounts(p.mustEnd(byUser, api.EventDone), counts{recipients: 1, notifications: 1, expired: 1})
			if why := p.mustReport(toUser).FailedBy; why["device_gone"] != 1 {
				t.Errorf("failed by %v", why)
			}
			storetest.Eventually(t, soon, "the others are parked", func() bool { return p.parked() == 2 })
			p.apns.ScriptTopic(badTopic)
			p.mustCounts(p.mustEnd(both, api.EventDone), counts{recipients: 2, notifications: 2, delivered: 1, failed: 1})
			p.mustCounts(p.mustEnd(again, api.EventDone), counts{recipients: 1, notifications: 1, delivered: 1})
			storetest.Must(t, p.first.devices.Forget(t.Context(), erasedUser))
			p.eraseLate(o)
			if keys := p.namesOf(erasedUser, secretText); len(keys) > 0 {
				t.Errorf("keys %v", keys)
			}
		})
	}
}

// second returns the last of two results.
func second[T any](_ T, err error) error { return err }

// E6: notifications to a user's new device, and of events that the user caused since, stay.
func TestE6_NewNotificationsStay(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDeviceOf("bob", token(2), badTopic)
	p.apns.ScriptTopic(badTopic, apnstest.Fail(403, "InvalidProviderToken"))
	o := p.mustErase(erasedUser)
	storetest.Eventually(t, soon, "the second of the beginning is over", func() bool { return time.Now().UnixMilli() > o.CreatedAt+50 })
	p.mustDeviceOf(erasedUser, token(1), badTopic)
	p.mustPost(secret("carol", erasedUser))
	p.mustPost(secret(erasedUser, "bob"))
	storetest.Eventually(t, soon, "both are parked", func() bool { return p.parked() == 2 })
	n, _, busy, err := p.first.delivery.Erase(t.Context(), o)
	if err != nil || n != 0 || busy {
		t.Errorf("%d erased, busy %t, %v", n, busy, err)
	}
	if n, dead, busy, err := p.first.events.Erase(t.Context(), o); err != nil || n+dead != 0 || busy {
		t.Errorf("%d events erased, %d dead, busy %t, %v", n, dead, busy, err)
	}
}

// E6: events that wait lose the user: in an audience the user becomes one without a device, and what
// the user caused is not sent.
func TestE6_EventsThatWait(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p := setup(t, options{db: db, idle: true})
		p.mustDevice(erasedUser, 1)
		p.mustDevice("bob", 2)
		many := []string{erasedUser, "bob"}
		for i := range 150 {
			many = append(many, "nobody-"+token(i)[60:])
		}
		byUser, toContacts := p.mustPost(secret(erasedUser, "bob")), &api.EventRequest{
			Type: "hello", Actor: "carol", Audience: api.Audience{ContactsOf: erasedUser}, Alert: &api.Alert{Title: "t"}, Data: map[string]string{"text": secretText},
		}
		ofContacts := p.mustPost(toContacts)
		toBoth := p.mustPost(hello(erasedUser, "bob"))
		toUser := p.mustPost(hello(erasedUser))
		toMany := p.mustPost(hello(many...))
		other := p.mustPost(hello("bob", erasedUser+"2"))
		test := p.mustTest(erasedUser, token(1))
		o := p.mustErase(erasedUser)
		storetest.Must(t, second(p.first.devices.Erase(t.Context(), o)))
		n, _, busy, err := p.first.events.Erase(t.Context(), o)
		if err != nil || n != 6 || busy {
			t.Errorf("%d events, busy %t, %v; want 6", n, busy, err)
		}
		if n, _, _, err := p.first.events.Erase(t.Context(), o); err != nil || n != 0 {
			t.Errorf("%d events again, %v", n, err)
		}
		for _, key := range p.namesOf(secretText, `"`+erasedUser+`"`, " "+erasedUser+" ") {
			t.Errorf("key %s", key)
		}
		p.first.start()
		for _, id := range []string{byUser, ofContacts} {
			if r := p.mustEnd(id, api.EventExpired); r.Notifications != 0 {
				t.Errorf("%+v", r)
			}
		}
		p.mustCounts(p.mustEnd(toBoth, api.EventDone), counts{recipients: 2, notifications: 1, delivered: 1})
		p.mustCounts(p.mustEnd(toUser, api.EventDone), counts{recipients: 1})
		p.mustCounts(p.mustEnd(test, api.EventDone), counts{recipients: 1})
		p.mustCounts(p.mustEnd(toMany, api.EventDone), counts{recipients: 152, notifications: 1, delivered: 1})
		p.mustCounts(p.mustEnd(other, api.EventDone), counts{recipients: 2, notifications: 1, delivered: 1})
		if why := p.mustReport(toUser).Suppressed; why.NoDevice != 1 {
			t.Errorf("suppressed %+v", why)
		}
	})
}

// E6: dead letters for the user, or caused by the user, are deleted, of events and of notifications;
// others stay.
func TestE6_DeadLetters(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustDevice(erasedUser, 1)
	p.mustDevice("bob", 2)
	p.apns.ScriptAll(apnstest.Fail(400, "BadPriority")) // a bug of fanfare: dead letter
	ids := []string{p.mustPost(secret("carol", erasedUser)), p.mustPost(secret(erasedUser, "bob")), p.mustPost(hello("bob"))}
	for _, id := range ids {
		p.mustEnd(id, api.EventDone)
	}
	p.first.stop()
	broken := &events.Job{Type: "hello", Audience: events.Audience{Users: []string{"bob", erasedUser}}}
	stopped := &events.Job{Type: "hello", Audience: events.Audience{Chat: "team"}, Cursor: erasedUser} // after a page that ended with the user
	_, err := p.first.queueOfEvents.Enqueue(t.Context(), queue.Job{Payload: broken.Encode()}, queue.Job{Payload: stopped.Encode()}, queue.Job{Payload: []byte(`{}`), Attachment: []string{"a " + erasedUser}}, queue.Job{Payload: []byte(`{}`)})
	storetest.Must(t, err)
	buried := p.process()
	go func() {
		_ = buried.queueOfEvents.Run(t.Context(), queue.Each(func(context.Context, *queue.Claimed) queue.Result {
			return queue.Result{Outcome: queue.Dead, Reason: "r"}
		}))
	}()
	storetest.Eventually(t, soon, "the letters are there", func() bool {
		events, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 100, buried.queueOfEvents)
		notes, err2 := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 100, buried.queueOfNotes)
		return err == nil && err2 == nil && len(events.Items) == 4 && len(notes.Items) == 3
	})
	o := p.mustErase(erasedUser)
	storetest.Must(t, second(p.first.devices.Erase(t.Context(), o)))
	_, dead, _, err := p.first.events.Erase(t.Context(), o)
	if err != nil || dead != 3 {
		t.Errorf("%d dead events, %v", dead, err)
	}
	_, dead, _, err = p.first.delivery.Erase(t.Context(), o)
	if err != nil || dead != 2 {
		t.Errorf("%d dead notifications, %v", dead, err)
	}
	for _, q := range []*queue.Queue{buried.queueOfEvents, buried.queueOfNotes} {
		if left, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 100, q); err != nil || len(left.Items) != 1 {
			t.Errorf("left of %s: %+v, %v", q.Name(), left, err)
		}
	}
	p.eraseLate(o)
	storetest.Must(t, p.first.devices.Forget(t.Context(), erasedUser))
	if keys := p.namesOf(erasedUser, secretText); len(keys) > 0 {
		t.Errorf("keys %v", keys)
	}
}
