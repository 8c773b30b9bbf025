package targeting_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// delivered is the answer of a push service that took a notification.
var delivered = transport.Answer{Outcome: transport.Delivered, Status: 201}

// mustBrowser registers a browser of this endpoint with new keys, and returns its target.
func (p *pipeline) mustBrowser(user, endpoint, replaces string) string {
	p.Helper()
	target, err := p.browser(p.Context(), user, endpoint, replaces)
	storetest.Must(p, err)
	return target
}

func (p *pipeline) browser(ctx context.Context, user, endpoint, replaces string) (string, error) {
	r := &api.BrowserRequest{Platform: "webpush", Topic: "shop", Subscription: storetest.Subscription(p, endpoint), Replaces: replaces}
	_, err := p.first.devices.PutBrowser(ctx, user, r, api.Idempotency{})
	return r.Subscription.Target(), err
}

// W2: a waiting notification to a browser is sent without SQL, with the keys of the newest registration. If
// the browser was removed, or is another user's by now, the notification is not sent.
func TestW2_WhatWaitsIsSentWithTheNewestKeys(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		p, s := answering(t, options{db: db, idle: true, waits: true}, delivered)
		want := map[string]string{}
		users := []string{"stays", "again", "removed", "moved", "replaced"}
		at := func(user string) string { return "https://fcm.googleapis.com/" + user }
		for _, user := range users {
			want[user] = p.mustBrowser(user, at(user), "")
		}
		id := p.mustPost(hello(users...))
		p.mustTargetAll(id, 5)
		want["again"] = p.mustBrowser("again", at("again"), "")
		storetest.Must(t, p.first.devices.DeleteDevice(t.Context(), "removed", api.TokenOfEndpoint(at("removed"))))
		p.mustBrowser("another", at("moved"), "")
		p.mustBrowser("replaced", at("new"), api.TokenOfEndpoint(at("replaced")))
		storetest.Must(t, p.rec.Close())
		p.first.start()
		r := p.mustEnd(id, api.EventDone)
		p.mustCounts(r, counts{5, 5, 2, 3, 0})
		if r.FailedBy["device_gone"] != 3 {
			t.Errorf("failed %v", r.FailedBy)
		}
		for _, n := range s.sent() {
			user := strings.TrimPrefix(strings.Fields(n.Target)[0], at(""))
			if n.Target != want[user] || n.Platform != api.PlatformWebPush || n.Token != api.TokenOfEndpoint(at(user)) || n.ID != events.NotificationID(id, n.Token) {
				t.Errorf("sent %+v, want the target %s", n, want[user])
			}
		}
	})
}

// W17, P9: the notifications of an event to devices of FCM were stored before it grew large. It goes on as it
// began, so that no device gets it again by a part.
func TestW17_AnEventWithStoredNotificationsIsNotSplit(t *testing.T) {
	t.Parallel()
	eachFanOut(t, func(t *testing.T, f fanOut) {
		const android = "cToken-of-an-android:APA91b"
		p, s := answering(t, options{idle: true}, delivered)
		p.mustManyDevices(120)
		_, _, err := p.first.devices.PutDevice(t.Context(), "fan000007", android, &api.DeviceRequest{Platform: "fcm", Topic: "shop"})
		storetest.Must(t, err)
		id := p.mustPost(f.event())
		release := p.mustHold() // by a process that stores one of its notifications and dies
		_, err = p.first.queueOfNotes.Enqueue(t.Context(), p.stored(id, "fan000007", &api.Device{Token: android, Topic: "shop"}))
		storetest.Must(t, err)
		release()
		p.first.start()
		users := int64(120)
		if f.audience.All {
			users++ // bob
		}
		want := counts{users, users + 1, users + 1, 0, 0}
		p.mustCounts(p.mustEndTrue(id, want), want)
		ids := map[string]int{}
		for _, n := range s.sent() {
			ids[n.ID]++
		}
		if n := ids[events.NotificationID(id, android)]; n != 1 || len(ids) != len(s.sent()) {
			t.Errorf("%d notifications to the Android device, %d in all of %d devices", n, len(s.sent()), len(ids))
		}
	})
}

// E6: a waiting notification to a browser of an erased user keeps neither the endpoint nor the keys.
func TestE6_WaitingNotificationsToBrowsers(t *testing.T) {
	t.Parallel()
	p, s := answering(t, options{idle: true, waits: true}, delivered)
	const endpoint = "https://fcm.googleapis.com/secret-endpoint"
	p.mustBrowser(erasedUser, endpoint, "")
	id := p.mustPost(secret("carol", erasedUser))
	p.mustTargetAll(id, 1)
	o := p.mustErase(erasedUser)
	storetest.Must(t, second(p.first.devices.Erase(t.Context(), o)))
	if n, dead, _, err := p.first.delivery.Erase(t.Context(), o); n != 1 || dead != 0 || err != nil {
		t.Fatalf("%d notifications, %d dead letters, %v", n, dead, err)
	}
	storetest.Must(t, p.first.devices.Forget(t.Context(), erasedUser))
	if keys := p.namesOf(erasedUser, secretText, endpoint); len(keys) > 0 {
		t.Errorf("keys %v", keys)
	}
	p.first.start()
	if r := p.mustEnd(id, api.EventDone); r.FailedBy["device_gone"] != 1 || len(s.sent()) > 0 {
		t.Errorf("%+v, sent %v", r, s.sent())
	}
}

// P4, P10: browsers register, are replaced and are removed while events are on their way. An event that is
// posted after a change was answered goes to nothing older than the change, and to nothing twice.
func TestP10_BrowsersChangeWhileEventsAreSent(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"AtOnce": false, "Waits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s := answering(t, options{waits: waits}, delivered)
			const users, rounds = 4, 12
			type posted struct {
				user, event string
				since       int // it may go to what was registered in this round or later
			}
			var mu sync.Mutex
			var all []posted
			round := map[string]int{}       // by target: when it was registered
			tokens := map[string][]string{} // by user
			storetest.AtOnce(t, users, func(ctx context.Context, n int) error {
				user := fmt.Sprint("user", n)
				at := func(i int) string { return fmt.Sprint("https://fcm.googleapis.com/", n, "/", i) }
				register := func(i int, endpoint, replaces string) error {
					target, err := p.browser(ctx, user, endpoint, replaces)
					mu.Lock()
					defer mu.Unlock()
					round[target], tokens[user] = i, append(tokens[user], api.TokenOfEndpoint(endpoint))
					return err
				}
				endpoint := at(0)
				for i := range rounds {
					var err error
					switch i % 4 {
					case 0, 1: // again, with other keys
						err = register(i, endpoint, "")
					case 2:
						former := api.TokenOfEndpoint(endpoint)
						endpoint = at(i)
						err = register(i, endpoint, former)
					default:
						err = p.first.devices.DeleteDevice(ctx, user, api.TokenOfEndpoint(endpoint))
					}
					if err != nil {
						return err
					}
					id := p.mustPost(hello(user))
					mu.Lock()
					all = append(all, posted{user, id, i})
					mu.Unlock()
				}
				return nil
			})
			for _, e := range all {
				p.mustEnd(e.event, api.EventDone)
			}
			sent := map[string][]transport.Notification{}
			for _, n := range s.sent() {
				sent[n.ID] = append(sent[n.ID], n)
			}
			for _, e := range all {
				slices.Sort(tokens[e.user])
				for _, token := range slices.Compact(tokens[e.user]) {
					got := sent[events.NotificationID(e.event, token)]
					if len(got) > 1 {
						t.Errorf("%d notifications of %+v to %s", len(got), e, token)
					}
					for _, n := range got {
						if registered, known := round[n.Target]; !known || registered < e.since {
							t.Errorf("%+v was sent with the keys of round %d", e, registered)
						}
					}
				}
			}
			if len(sent) == 0 {
				t.Error("nothing was sent")
			}
		})
	}
}
