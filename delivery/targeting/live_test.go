package targeting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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

// liveTopic is the topic of the Live Activities of the default app.
const liveTopic = apnstest.DefaultTopic + ".push-type.liveactivity"

// mustActivity registers an activity of an object for a user.
func (p *pipeline) mustActivity(user string, n int, change func(*api.ActivityRequest)) {
	p.Helper()
	r := &api.ActivityRequest{Platform: "apns", Topic: apnstest.DefaultTopic, Environment: api.EnvProduction, Kind: api.ActivityUpdate, Object: "match:7"}
	if change != nil {
		change(r)
	}
	storetest.Eventually(p, time.Minute, "the activity is on record", func() bool {
		_, _, err := p.first.devices.PutActivity(p.Context(), user, token(n), r)
		if code := api.CodeOf(err); err != nil && code != api.CodeUnavailable && code != api.CodeUnknownOutcome {
			p.Fatal(err)
		}
		return err == nil
	})
}

// starting changes an activity to a start token of a type.
func starting(typ string) func(*api.ActivityRequest) {
	return func(r *api.ActivityRequest) { r.Kind, r.Object, r.AttributesType = api.ActivityStart, "", typ }
}

// score is an update of match:7.
func score(n int) *api.EventRequest {
	return &api.EventRequest{Type: "match", Audience: api.Audience{ActivitiesOf: "match:7"},
		Live: &api.Live{Action: api.LiveUpdate, ContentState: fmt.Appendf(nil, `{"home":%d}`, n)}}
}

// kickOff starts match:7 for an audience.
func kickOff(to api.Audience) *api.EventRequest {
	return &api.EventRequest{Type: "match", Object: "match:7", Audience: to, Alert: &api.Alert{Title: "Kick-off"},
		Live: &api.Live{Action: api.LiveStart, ContentState: json.RawMessage(`{"home":0}`), AttributesType: "Match", Attributes: json.RawMessage(`{}`)}}
}

// over ends match:7.
func over() *api.EventRequest {
	e := score(9)
	e.Live.Action = api.LiveEnd
	return e
}

// state is what a request says.
type state struct {
	Event     string `json:"event"`
	Timestamp int64  `json:"timestamp"`
	State     struct {
		Home int `json:"home"`
	} `json:"content-state"`
}

func mustState(t testing.TB, r apnstest.Request) (s state) {
	t.Helper()
	var doc struct{ APS *state }
	doc.APS = &s
	storetest.Must(t, json.Unmarshal(r.Payload, &doc))
	if r.PushType != "liveactivity" || r.Topic != liveTopic || r.CollapseID != "" || s.Timestamp < 1_700_000_000 || s.Timestamp > time.Now().Unix()+3 {
		t.Errorf("request %+v with %s", r, r.Payload)
	}
	return s
}

// sentToTokens are the tokens that an event went to, in order.
func (p *pipeline) sentToTokens(e *api.EventRequest) (tokens []string) {
	p.Helper()
	p.apns.Reset()
	r := p.mustEnd(p.mustPost(e), api.EventDone)
	for _, r := range p.apns.Requests() {
		tokens = append(tokens, r.Token)
	}
	slices.Sort(tokens)
	if n := int64(len(tokens)); r.Notifications != n || r.Delivered != n {
		p.Errorf("%d were sent, the report is %+v", n, r)
	}
	return tokens
}

// TestG1_LiveEventsGoToActivities: an update goes to the activities of its object alone, a start to start tokens of its type
// of the audience's users, and an alert to devices alone, from SQL and from the cache, sent at once and claimed.
func TestG1_LiveEventsGoToActivities(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("Waits=", waits), func(t *testing.T) {
			t.Parallel()
			storetest.EachSQL(t, func(t *testing.T, url string) {
				p := setup(t, options{waits: waits, sql: url})
				p.mustDevice("amy", 1)
				p.mustDeviceOf("amy", token(2), liveTopic) // registered as a device: it gets no live event
				p.mustActivity("amy", 3, nil)
				p.mustActivity("amy", 4, func(r *api.ActivityRequest) { r.Object = "match:8" })
				p.mustActivity("amy", 5, starting("Match"))
				p.mustActivity("bob", 6, nil)
				p.mustActivity("bob", 7, starting("Parcel"))
				p.mustActivity("carl", 8, func(r *api.ActivityRequest) { r.Topic = liveTopic })
				p.mustDevice("carl", 9)
				for range 2 {
					if got, want := p.sentToTokens(score(1)), []string{token(3), token(6), token(8)}; !slices.Equal(got, want) {
						t.Errorf("an update went to %v, want %v", got, want)
					}
					if got, want := p.sentToTokens(kickOff(api.Audience{Users: []string{"amy", "bob", "carl"}})), []string{token(5)}; !slices.Equal(got, want) {
						t.Errorf("a start went to %v, want %v", got, want)
					}
					if got, want := p.sentToTokens(hello("amy", "bob", "carl")), []string{token(1), token(9)}; !slices.Equal(got, want) {
						t.Errorf("an alert went to %v, want %v", got, want)
					}
					all := hello()
					all.Audience = api.Audience{All: true}
					if got, want := p.sentToTokens(all), []string{token(1), token(9)}; !slices.Equal(got, want) {
						t.Errorf("an alert to all went to %v, want %v", got, want)
					}
				}
				r := p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
				if r.Suppressed.NoDevice != 1 || *r.Recipients != 1 {
					t.Errorf("a user with activities alone: %+v", r)
				}
				p.mustDevice("bob", 6) // the token is a device now
				if got, want := p.sentToTokens(score(2)), []string{token(3), token(8)}; !slices.Equal(got, want) {
					t.Errorf("then an update went to %v, want %v", got, want)
				}
				p.mustActivity("bob", 6, nil)
				if got, want := p.sentToTokens(hello("bob")), []string(nil); !slices.Equal(got, want) {
					t.Errorf("and an alert to %v", got)
				}
			})
		})
	}
}

// TestG1_EndsReachWhoMuted: a user who has muted the object, or opted out of the type, gets no update, and the end, so that no old
// state stays on the phone. A start to all reaches users without a device.
func TestG1_EndsReachWhoMuted(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustActivity("amy", 1, nil)
	p.mustActivity("bob", 2, nil)
	p.mustActivity("carl", 3, nil)
	storetest.Must(t, p.first.devices.PutOptOut(t.Context(), "amy", "match"))
	storetest.Must(t, p.first.devices.PutMute(t.Context(), "bob", "match:7", &api.MuteRequest{}))
	if r := p.mustEnd(p.mustPost(score(1)), api.EventDone); r.Delivered != 1 || r.Suppressed.OptedOut != 1 || r.Suppressed.Muted != 1 {
		t.Errorf("an update: %+v", r)
	}
	if got, want := p.sentToTokens(over()), []string{token(1), token(2), token(3)}; !slices.Equal(got, want) {
		t.Errorf("an end went to %v, want %v", got, want)
	}
	p.mustActivity("dan", 4, starting("Match"))
	if got, want := p.sentToTokens(kickOff(api.Audience{All: true})), []string{token(4)}; !slices.Equal(got, want) {
		t.Errorf("a start to all went to %v, want %v", got, want)
	}
}

// TestG1_ActivitiesEnd: nothing goes to an activity behind its end, which it says itself, or APNs, or its user.
func TestG1_ActivitiesEnd(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	soon := api.At(time.Now().Add(2 * time.Second))
	p.mustActivity("amy", 1, func(r *api.ActivityRequest) { r.EndsAt = &soon })
	p.mustActivity("bob", 2, nil)
	p.mustActivity("carl", 3, nil)
	p.mustActivity("dan", 4, nil)
	p.apns.Script(token(2), apnstest.Fail(410, "Unregistered"))
	storetest.Must(t, p.first.devices.DeleteActivity(t.Context(), "carl", token(3), ""))
	storetest.Must(t, p.first.devices.DeleteActivity(t.Context(), "eve", token(4), "")) // not hers
	r := p.mustEnd(p.mustPost(score(1)), api.EventDone)
	if r.FailedBy["Unregistered"] != 1 || len(p.apns.Of(token(3))) > 0 || len(p.apns.Of(token(4))) != 1 {
		t.Errorf("%+v", r)
	}
	storetest.Eventually(t, time.Minute, "APNs' word to be on record, and the first to have ended", func() bool {
		list, err := p.first.devices.Activities(t.Context(), "bob")
		storetest.Must(t, err)
		return len(list) == 0 && time.Now().After(soon.Add(time.Second))
	})
	if got, want := p.sentToTokens(score(2)), []string{token(4)}; !slices.Equal(got, want) {
		t.Errorf("then an update went to %v, want %v", got, want)
	}
}

// TestG1_NothingGoesToTheNextOwner: APNs is slow, and updates wait when the activity becomes another user's.
func TestG1_NothingGoesToTheNextOwner(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("Waits=", waits), func(t *testing.T) {
			t.Parallel()
			s, sender := watching()
			p := setup(t, options{sender: sender, waits: waits})
			p.apns.SetLatency(3*time.Second, 0)
			p.mustActivity("alice", 1, nil)
			var ids []string
			for range 3 { // ends are not superseded
				ids = append(ids, p.mustPost(over()))
			}
			storetest.Must(t, p.apns.WaitTotal(1, soon))
			p.mustActivity("bob", 1, func(r *api.ActivityRequest) { r.Object = "match:8" })
			gone := time.Now()
			p.apns.SetLatency(0, 0)
			for _, id := range ids {
				if r := p.mustEnd(id, api.EventDone); r.Delivered+r.Failed != r.Notifications || r.Failed != r.FailedBy["device_gone"] {
					t.Errorf("%+v", r)
				}
				s.mu.Lock()
				if late := s.written[events.NotificationID(id, token(1))].Sub(gone); late > 2*time.Second {
					t.Errorf("an update of alice's was written %v after the activity was bob's", late)
				}
				s.mu.Unlock()
			}
			of8 := score(1)
			of8.Audience.ActivitiesOf = "match:8"
			p.mustCounts(p.mustEnd(p.mustPost(of8), api.EventDone), counts{1, 1, 1, 0, 0})
		})
	}
}

// TestG3_UpdatesInOrder: updates of one object, as fast as they come, by several processes. Each activity gets the newest at
// last, timestamps rise, and what was not sent is superseded and counted.
func TestG3_UpdatesInOrder(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		const activities, updates = 150, 8 // more than a part
		p := setup(t, options{db: db, idle: true})
		for i := range activities {
			p.mustActivity(fmt.Sprintf("fan%03d", i), i, nil)
		}
		var ids []string
		for i := range updates {
			ids = append(ids, p.mustPost(score(i)))
		}
		ids = append(ids, p.mustPost(over()))
		p.first.start()
		p.process().start()
		sent, superseded := int64(0), 0
		for _, id := range ids {
			var r *api.EventReport
			storetest.Eventually(t, soon, "the event to end", func() bool {
				r = p.mustReport(id)
				return r.State == api.EventDone || r.State == api.EventSuperseded
			})
			if r.Notifications != r.Delivered+r.Superseded || r.State == api.EventDone && *r.Recipients != activities {
				t.Errorf("%+v", r)
			}
			if sent += r.Delivered; r.State == api.EventSuperseded {
				superseded++
			}
		}
		total := 0
		for i := range activities {
			last := state{}
			got := p.apns.Of(token(i))
			for _, r := range got {
				s := mustState(t, r)
				if s.Timestamp <= last.Timestamp || s.State.Home < last.State.Home {
					t.Errorf("activity %d got %+v behind %+v", i, s, last)
				}
				last = s
			}
			if last.Event != "end" || last.State.Home != 9 {
				t.Errorf("activity %d shows %+v", i, last)
			}
			total += len(got)
		}
		if int64(total) != sent || superseded == 0 {
			t.Errorf("%d requests, %d are counted, %d events are superseded", total, sent, superseded)
		}
	})
}

// TestG3_WhatWaitsIsSuperseded: an update whose activity backs off is not sent any more when a newer one has begun. An end is.
func TestG3_WhatWaitsIsSuperseded(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	later := apnstest.Answer{Status: 500, Reason: "InternalServerError", RetryAfter: "10"}
	p.mustActivity("amy", 1, nil)
	p.mustActivity("bob", 2, nil)
	p.apns.Script(token(1), later, apnstest.OK())
	first := p.mustPost(score(1))
	storetest.Eventually(t, soon, "the first to be tried again", func() bool { return p.mustReport(first).Retrying == 1 })
	second := p.mustPost(score(2))
	p.mustCounts(p.mustEnd(second, api.EventDone), counts{2, 2, 2, 0, 0})
	r := p.mustEnd(first, api.EventDone)
	if r.Superseded != 1 || r.Delivered != 1 || r.Retrying != 0 || r.Platforms[api.PlatformAPNs].Superseded != 1 {
		t.Errorf("%+v", r)
	}
	settings, err := p.first.devices.Settings(t.Context(), "amy")
	storetest.Must(t, err)
	activities, err := p.first.devices.Activities(t.Context(), "amy")
	storetest.Must(t, err)
	why, err := p.first.events.UserEvent(t.Context(), first, &events.UserNow{User: "amy", Settings: settings, Activities: activities, Aside: func(*api.Device) string { return "" }})
	storetest.Must(t, err)
	if n := why.Notifications; len(n) != 1 || n[0].Token != token(1) || n[0].State != api.NotificationSuperseded || n[0].At == nil || len(why.Now.Devices) != 0 {
		t.Errorf("why, or why not: %+v", why)
	}
	var states []string
	for _, r := range p.apns.Of(token(1)) {
		states = append(states, strconv.Itoa(mustState(t, r).State.Home))
	}
	if !slices.Equal(states, []string{"1", "2"}) {
		t.Errorf("the activity got %v", states)
	}
	p.apns.Script(token(1), later, apnstest.OK())
	end := p.mustPost(over())
	storetest.Eventually(t, soon, "the end to be tried again", func() bool { return p.mustReport(end).Retrying == 1 })
	stamp := mustState(t, p.apns.Of(token(1))[2]).Timestamp
	p.mustEnd(p.mustPost(score(3)), api.EventDone)
	p.mustCounts(p.mustEnd(end, api.EventDone), counts{2, 2, 2, 0, 0})
	again := p.apns.Of(token(1))
	if last := mustState(t, again[len(again)-1]); last.Event != "end" || last.Timestamp != stamp {
		t.Errorf("the end came as %+v, first with %d", last, stamp)
	}
}

// TestG2_ARedoHasTheSameTimestamp: a process dies with an event, and another sends it with the same timestamp, even if other
// events of the object have begun meanwhile.
func TestG2_ARedoHasTheSameTimestamp(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*api.EventRequest{"update": score(1), "start": kickOff(api.Audience{Users: []string{"amy", "bob"}}), "end": over()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			db := storetest.Open(t, server.URL())
			p := setup(t, options{db: db, idle: true, apns: apnstest.Options{TrackIDs: true},
				queue: func(o *queue.Options) { o.Lease = time.Second }})
			var change func(*api.ActivityRequest)
			if name == "start" {
				change = starting("Match")
			}
			p.mustActivity("amy", 1, change)
			p.mustActivity("bob", 2, change)
			p.apns.Script(token(1), apnstest.Failing(apnstest.Hang), apnstest.OK())
			own, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL()})
			storetest.Must(t, err)
			p.processOn(own).start()
			id := p.mustPost(e)
			storetest.Must(t, p.apns.WaitTotal(2, soon))
			storetest.Must(t, own.Close())
			later := time.Now().Unix() + 100
			storetest.Must(t, db.Client().HSet(t.Context(), "ff:{live:match:7}:order", "event activities_of", "another", "stamp activities_of", later, "highest", later).Err())
			p.process().start()
			p.mustEnd(id, api.EventDone)
			got := p.apns.Of(token(1))
			if len(got) != 2 || mustState(t, got[0]).Timestamp != mustState(t, got[1]).Timestamp || got[0].ID != got[1].ID {
				t.Errorf("%+v", got)
			}
		})
	}
}

// phones is a Sender that takes everything, and keeps it.
type phones struct {
	transport.Sender
	got chan *transport.Notification
}

func (s *phones) Start(_ context.Context, n *transport.Notification, done func(transport.Answer)) {
	s.got <- n
	go done(transport.Answer{Outcome: transport.Delivered, Status: 200})
}

// TestG7_AndroidPhones: an update goes to the phone while it is a device of the same user, and through FCM to an iPhone's
// activity.
func TestG7_AndroidPhones(t *testing.T) {
	t.Parallel()
	sent := make(chan *transport.Notification, 100)
	p := setup(t, options{sender: func(*pipeline) transport.Sender { return &phones{silentSender(), sent} }})
	const phone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-android"
	android := func(r *api.ActivityRequest) { r.Platform, r.Environment = "fcm", "" }
	put := func(user, tok string, change func(*api.ActivityRequest)) error {
		r := &api.ActivityRequest{Platform: "fcm", Topic: apnstest.DefaultTopic, Kind: api.ActivityUpdate, Object: "match:7"}
		change(r)
		_, _, err := p.first.devices.PutActivity(t.Context(), user, tok, r)
		return err
	}
	storetest.WantCode(t, put("amy", phone, android), api.CodeValidation) // no device yet
	device := &api.DeviceRequest{Platform: "fcm", Topic: apnstest.DefaultTopic}
	_, _, err := p.first.devices.PutDevice(t.Context(), "amy", phone, device)
	storetest.Must(t, err)
	storetest.Must(t, put("amy", phone, android))
	storetest.Must(t, put("amy", phone, func(r *api.ActivityRequest) { r.Object = "match:8" }))
	iphone := func(r *api.ActivityRequest) { r.Registration = phone + "2" }
	storetest.WantCode(t, put("bob", token(1), iphone), api.CodeValidation) // no device yet
	_, _, err = p.first.devices.PutDevice(t.Context(), "bob", phone+"2", device)
	storetest.Must(t, err)
	storetest.Must(t, put("bob", token(1), iphone))
	p.mustCounts(p.mustEnd(p.mustPost(score(1)), api.EventDone), counts{2, 2, 2, 0, 0})
	to := map[string]string{}
	for range 2 {
		n := <-sent
		to[n.Token] = n.Target
		if n.Platform != api.PlatformFCM || !json.Valid(n.Payload) {
			t.Errorf("%+v", n)
		}
	}
	if to[phone] != "" || len(to) != 2 || len(slices.DeleteFunc([]string{to[phone], phone + "2 " + token(1)}, func(s string) bool { return s == "" })) != 1 {
		t.Errorf("it went to %v", to)
	}
	_, _, err = p.first.devices.PutDevice(t.Context(), "carl", phone, device)
	storetest.Must(t, err)
	r := p.mustEnd(p.mustPost(score(2)), api.EventDone)
	if p.mustCounts(r, counts{2, 1, 1, 0, 0}); r.Suppressed.NoDevice != 1 {
		t.Errorf("when the phone is another user's: %+v", r)
	}
	_, _, err = p.first.devices.PutDevice(t.Context(), "carl", phone+"2", device)
	storetest.Must(t, err)
	r = p.mustEnd(p.mustPost(score(3)), api.EventDone)
	if p.mustCounts(r, counts{2, 0, 0, 0, 0}); r.Suppressed.NoDevice != 2 {
		t.Errorf("when the iPhone is another user's, too: %+v", r)
	}
}

// TestG1_ADroppedPhone: nothing is sent to an activity on a phone that is dropped, be it an Android phone's or an iPhone's, until the
// phone is registered again.
func TestG1_ADroppedPhone(t *testing.T) {
	t.Parallel()
	sent := make(chan *transport.Notification, 100)
	p := setup(t, options{sender: func(*pipeline) transport.Sender { return &phones{silentSender(), sent} }})
	const android, iphone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-android", "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-iphone"
	p.mustPhone("amy", android)
	p.mustFollow("amy", android, "")
	p.mustPhone("bob", iphone)
	p.mustFollow("bob", token(1), iphone)
	p.mustCounts(p.mustEnd(p.mustPost(score(1)), api.EventDone), counts{2, 2, 2, 0, 0})
	for n, drop := range []func(){func() { p.mustDrop("amy", android) }, func() { p.mustDrop("bob", iphone) }} {
		drop()
		before := len(sent)
		r := p.mustEnd(p.mustPost(score(2+n)), api.EventDone)
		left := int64(1 - n)
		if p.mustCounts(r, counts{2, left, left, 0, 0}); r.Suppressed.NoDevice != int64(n)+1 || int64(len(sent)-before) != left {
			t.Errorf("with %d dropped phones %d are sent, and the report is %+v", n+1, len(sent)-before, r)
		}
	}
	p.mustPhone("amy", android)
	p.mustPhone("bob", iphone)
	p.mustCounts(p.mustEnd(p.mustPost(score(4)), api.EventDone), counts{2, 2, 2, 0, 0})
}

// busy is a Sender that gives the same answer until it is free.
type busy struct {
	phones
	free   chan struct{}
	answer transport.Answer
}

// mustBusy sets up a pipeline whose notifications wait until its sender is free.
func mustBusy(t *testing.T, answer transport.Answer) (*pipeline, *busy) {
	t.Helper()
	s := &busy{phones{silentSender(), make(chan *transport.Notification, 100)}, make(chan struct{}), answer}
	return setup(t, options{sender: func(*pipeline) transport.Sender { return s },
		queue:    func(o *queue.Options) { o.RetryBase, o.RetryMax = 3*time.Second, 4*time.Second },
		delivery: func(o *delivery.Options) { o.RetryBase, o.RetryMax = 3*time.Second, 4*time.Second }}), s
}

// fails is an answer after which a notification is tried again, and not before a test has changed what it looks at.
var fails = transport.Answer{Outcome: transport.Retry, Status: 500, RetryAfter: 2 * time.Second}

// mustPhone registers a phone of FCM.
func (p *pipeline) mustPhone(user, phone string) {
	p.Helper()
	_, _, err := p.first.devices.PutDevice(p.Context(), user, phone, &api.DeviceRequest{Platform: "fcm", Topic: apnstest.DefaultTopic})
	storetest.Must(p, err)
}

// mustDrop drops a user's phone, as a device is whose token FCM no longer knows.
func (p *pipeline) mustDrop(user, phone string) {
	p.Helper()
	list, err := p.first.devices.Devices(p.Context(), user)
	storetest.Must(p, err)
	at := slices.IndexFunc(list.Items, func(d api.Device) bool { return d.Token == phone })
	if at < 0 {
		p.Fatalf("%s has no device %s", user, phone)
	}
	storetest.Must(p, p.first.devices.Drop(p.Context(), phone, "UNREGISTERED", api.Time{}, list.Items[at].RegisteredAt))
}

// mustFollow registers an activity of match:7 on FCM, on an iPhone with this registration token, if there is one.
func (p *pipeline) mustFollow(user, token, registration string, change ...func(*api.ActivityRequest)) {
	p.Helper()
	r := &api.ActivityRequest{Platform: "fcm", Topic: apnstest.DefaultTopic, Kind: api.ActivityUpdate, Object: "match:7", Registration: registration}
	for _, f := range change {
		f(r)
	}
	_, _, err := p.first.devices.PutActivity(p.Context(), user, token, r)
	storetest.Must(p, err)
}

func (s *busy) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	select {
	case <-s.free:
		s.phones.Start(ctx, n, done)
	default:
		s.got <- n
		go done(s.answer)
	}
}

// TestP4_ARemovedLiveUpdate: what waits for the activity of an Android phone is not sent when the activity is removed, although
// the phone stays a device of the user. What waits for another one is.
func TestP4_ARemovedLiveUpdate(t *testing.T) {
	t.Parallel()
	const phone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-android"
	p, s := mustBusy(t, fails)
	p.mustPhone("amy", phone)
	ids := map[string]string{}
	for _, object := range []string{"match:7", "match:8"} {
		p.mustFollow("amy", phone, "", func(r *api.ActivityRequest) { r.Object = object })
		e := over() // nothing supersedes it
		e.Audience.ActivitiesOf = object
		ids[object] = p.mustPost(e)
		storetest.Eventually(t, soon, "it to wait", func() bool { return p.mustReport(ids[object]).Retrying == 1 })
	}
	storetest.Must(t, p.first.devices.DeleteActivity(t.Context(), "amy", phone, "match:7"))
	close(s.free)
	if r := p.mustEnd(ids["match:7"], api.EventDone); r.FailedBy["device_gone"] != 1 || r.Delivered != 0 {
		t.Errorf("of the removed one: %+v", r)
	}
	p.mustCounts(p.mustEnd(ids["match:8"], api.EventDone), counts{1, 1, 1, 0, 0})
}

// TestP4_APhoneThatLeavesItsUser: what waits for the activity of an iPhone on FCM is not sent when the phone is no device of the
// user any more, or is dropped, although the activity is on record. When the activity stands on another phone of the user, it goes there.
func TestP4_APhoneThatLeavesItsUser(t *testing.T) {
	t.Parallel()
	const phone, other = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-iphone", "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-other"
	for name, row := range map[string]struct {
		leave func(p *pipeline)
		to    string // where it goes; "": nowhere
	}{
		"Stays":     {func(*pipeline) {}, phone},
		"Removed":   {func(p *pipeline) { storetest.Must(p, p.first.devices.DeleteDevice(p.Context(), "amy", phone)) }, ""},
		"Another's": {func(p *pipeline) { p.mustPhone("bob", phone) }, ""},
		"Dropped":   {func(p *pipeline) { p.mustDrop("amy", phone) }, ""},
		"Moves": {func(p *pipeline) {
			p.mustPhone("amy", other)
			p.mustFollow("amy", token(1), other)
			storetest.Must(p, p.first.devices.DeleteDevice(p.Context(), "amy", phone))
		}, other},
	} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/Dead=%v", name, dead), func(t *testing.T) {
				t.Parallel()
				answer := fails
				if dead {
					answer = transport.Answer{Outcome: transport.OurBug, Status: 400, Reason: "Bug"}
				}
				p, s := mustBusy(t, answer)
				p.mustPhone("amy", phone)
				p.mustFollow("amy", token(1), phone)
				id := p.mustPost(over()) // nothing supersedes it
				var letters []api.DeadLetter
				storetest.Eventually(t, soon, "it to wait, or to be a dead letter", func() bool {
					list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
					storetest.Must(t, err)
					letters = list.Items
					return dead && len(letters) == 1 || !dead && p.mustReport(id).Retrying == 1
				})
				row.leave(p)
				before := len(s.got)
				close(s.free)
				for _, l := range letters {
					_, _, err := p.first.queueOfNotes.RetryDead(t.Context(), l.ID, queue.Once{})
					storetest.Must(t, err)
				}
				storetest.Eventually(t, soon, "it to end", func() bool {
					r := p.mustReport(id)
					return r.State == api.EventDone && r.Delivered+r.FailedBy["device_gone"] == 1
				})
				if r := p.mustReport(id); (r.Delivered == 1) != (row.to != "") {
					t.Errorf("%+v", r)
				}
				for ; len(s.got) > 0; before-- {
					if n := <-s.got; before <= 0 && (row.to == "" || n.Target != row.to+" "+token(1)) {
						t.Errorf("then it was sent to %s", n.Target)
					}
				}
			})
		}
	}
}

// TestG1_APhoneShowsAnObjectOnce: an Android phone that says of an object that it is of another type, or of none, shows it once
// and gets each event once.
func TestG1_APhoneShowsAnObjectOnce(t *testing.T) {
	t.Parallel()
	const phone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-android"
	p, s := mustBusy(t, fails)
	p.mustPhone("amy", phone)
	for _, typ := range []string{"A", "", "B"} {
		p.mustFollow("amy", phone, "", func(r *api.ActivityRequest) { r.AttributesType = typ })
		p.mustFollow("amy", phone, "", func(r *api.ActivityRequest) {
			r.Kind, r.Object, r.AttributesType = api.ActivityStart, "", "type-"+typ // of these there is one for each type
		})
	}
	list, err := p.first.devices.Activities(t.Context(), "amy")
	if storetest.Must(t, err); len(list) != 4 {
		t.Errorf("there are %d activities", len(list))
	}
	id := p.mustPost(score(1))
	storetest.Eventually(t, soon, "it to wait", func() bool { return p.mustReport(id).Retrying == 1 })
	close(s.free)
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 1, 0, 0})
}
