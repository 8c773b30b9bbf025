package targeting_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// mustBroadcast gives an object a channel.
func (p *pipeline) mustBroadcast(object string, keep api.BroadcastKeep) *api.Broadcast {
	p.Helper()
	b, _, err := p.first.broadcasts.Put(p.Context(), object, &api.BroadcastRequest{
		Topic: apnstest.DefaultTopic, Environment: api.EnvProduction, Keep: keep, EndsAt: new(api.At(time.Now().Add(time.Hour))),
	})
	storetest.Must(p, err)
	return b
}

// goal is an update of the broadcast of an object.
func goal(object, state string, change ...func(*api.EventRequest)) *api.EventRequest {
	e := &api.EventRequest{Type: "match", Audience: api.Audience{Broadcast: object}, Live: &api.Live{Action: api.LiveUpdate, ContentState: json.RawMessage(`{"s":"` + state + `"}`)}}
	for _, f := range change {
		f(e)
	}
	return e
}

// stampOf is the timestamp in a payload.
func stampOf(t testing.TB, payload []byte) int64 {
	t.Helper()
	var doc struct{ APS struct{ Timestamp int64 } }
	storetest.Must(t, json.Unmarshal(payload, &doc))
	return doc.APS.Timestamp
}

func (p *pipeline) mustBeBroadcast(r *api.EventReport, sent int64) {
	p.Helper()
	if r.Recipients != nil || r.Broadcast == nil || r.Broadcast.Sent != sent || r.Notifications != 1 || r.Suppressed != (api.SuppressedCounts{}) {
		p.Errorf("the report is %+v", r)
	}
}

func TestG4_Broadcast(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	b := p.mustBroadcast("match:1", api.KeepNone)
	id := p.mustPost(goal("match:1", "1:0", func(e *api.EventRequest) { e.Actor = "referee" }))
	p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
	got := p.apns.Of(b.Channel)
	if len(got) != 1 || p.apns.Total() != 1 || got[0].ID != events.NotificationID(id, api.BroadcastToken("match:1")) || !strings.Contains(string(got[0].Payload), `"content-state":{"s":"1:0"}`) ||
		time.Since(time.Unix(stampOf(t, got[0].Payload), 0)).Abs() > time.Minute {
		t.Errorf("APNs got %+v", got)
	}
	list, _, err := p.first.events.List(t.Context(), events.ListQuery{Limit: 10})
	if err != nil || len(list.Items) != 1 || list.Items[0].Recipients != nil || list.Items[0].Delivered != 1 {
		t.Errorf("the list is %+v %v", list, err)
	}
}

// A channel that keeps nothing takes no expiration. One that keeps the latest update gets the event's, 8 hours at most.
func TestG4_Expiration(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	none, latest := p.mustBroadcast("none", api.KeepNone), p.mustBroadcast("latest", api.KeepLatest)
	soon := time.Now().Add(time.Hour).Truncate(time.Second)
	expires := func(at time.Time) func(*api.EventRequest) {
		return func(e *api.EventRequest) { e.ExpiresAt = new(api.At(at)) }
	}
	p.mustEnd(p.mustPost(goal("none", "x", expires(soon))), api.EventDone)
	if got := p.apns.Of(none.Channel)[0].Expiration; got != "0" {
		t.Errorf("a channel that keeps nothing got %s", got)
	}
	for i, row := range []struct {
		change []func(*api.EventRequest)
		want   time.Time
	}{{nil, time.Now().Add(8 * time.Hour)}, {[]func(*api.EventRequest){expires(soon)}, soon}, {[]func(*api.EventRequest){expires(time.Now().Add(48 * time.Hour))}, time.Now().Add(8 * time.Hour)}} {
		p.mustEnd(p.mustPost(goal("latest", "x", row.change...)), api.EventDone)
		seconds := json.Number(p.apns.Of(latest.Channel)[i].Expiration)
		at, err := seconds.Int64()
		if err != nil || time.Unix(at, 0).Sub(row.want).Abs() > time.Minute {
			t.Errorf("event %d got %s, want %v", i, seconds, row.want)
		}
	}
}

func TestG4_UnknownObject(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	post := func(object string) error {
		_, _, err := p.first.events.Accept(t.Context(), goal(object, "x"), api.Idempotency{})
		return err
	}
	wants := func(err error, says string) {
		t.Helper()
		e, ok := err.(*api.Error)
		if !ok || e.Code != api.CodeValidation || len(e.Fields) != 1 || e.Fields[0].Field != "audience.broadcast" || !strings.Contains(e.Detail, says) {
			t.Errorf("got %v", err)
		}
	}
	wants(post("nobody"), "there is none of nobody")
	p.apns.ScriptManagement(apnstest.Failing(apnstest.Drop))
	_, _, err := p.first.broadcasts.Put(t.Context(), "lost", &api.BroadcastRequest{Topic: apnstest.DefaultTopic, Environment: api.EnvProduction, Keep: api.KeepNone, EndsAt: new(api.At(time.Now().Add(time.Hour)))})
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	wants(post("lost"), "its state is making")
	if p.apns.Total() != 0 {
		t.Errorf("%d requests", p.apns.Total())
	}
}

// What goes wrong is treated as with a notification: it is tried again, with the same id and timestamp.
func TestG4_TriedAgain(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]options{"WithItsEvent": {}, "AsAJob": {waits: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, o)
			b := p.mustBroadcast("match:1", api.KeepNone)
			p.apns.Script(b.Channel, apnstest.Fail(500, "InternalServerError"), apnstest.Failing(apnstest.Drop), apnstest.Fail(429, "TooManyRequests"),
				apnstest.Fail(503, "ServiceUnavailable"), apnstest.OK())
			p.mustBeBroadcast(p.mustEnd(p.mustPost(goal("match:1", "x")), api.EventDone), 1)
			got := p.apns.Of(b.Channel)
			if len(got) != 5 {
				t.Fatalf("%d requests", len(got))
			}
			for _, r := range got {
				if r.ID != got[0].ID || string(r.Payload) != string(got[0].Payload) {
					t.Errorf("one is %s %s, the first %s %s", r.ID, r.Payload, got[0].ID, got[0].Payload)
				}
			}
		})
	}
}

// A channel that APNs no longer knows makes its broadcast lost, and the event fails.
func TestG6_ChannelIsLost(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustBroadcast("match:1", api.KeepNone)
	p.apns.DropChannels(apnstest.DefaultTopic)
	r := p.mustEnd(p.mustPost(goal("match:1", "x")), api.EventDone)
	p.mustBeBroadcast(r, 0)
	if r.Failed != 1 || r.FailedBy["ChannelNotRegistered"] != 1 {
		t.Errorf("the report is %+v", r)
	}
	storetest.Eventually(t, soon, "the broadcast is lost", func() bool {
		b, err := p.first.broadcasts.Get(t.Context(), "match:1")
		return err == nil && b.State == api.BroadcastLost
	})
	failed, err := p.first.events.FailedNotifications(t.Context(), r.ID, "", 10)
	if err != nil || len(failed.Items) != 1 || failed.Items[0].Token != api.BroadcastToken("match:1") {
		t.Errorf("failed are %+v %v", failed, err)
	}
	again := p.mustBroadcast("match:1", api.KeepNone)
	p.mustBeBroadcast(p.mustEnd(p.mustPost(goal("match:1", "y")), api.EventDone), 1)
	if len(p.apns.Of(again.Channel)) != 1 {
		t.Error("the new channel got nothing")
	}
}

// An app that may not broadcast is not paused, because its other notifications are sent. The dead letter is sent when it
// is tried again, to the channel that the object has by then.
func TestG6_FeatureNotEnabled(t *testing.T) {
	t.Parallel()
	p, alarms := setupAlarms(t)
	b := p.mustBroadcast("match:1", api.KeepNone)
	p.mustDevice("bob", 1)
	p.apns.Script(b.Channel, apnstest.Fail(400, "FeatureNotEnabled"))
	id := p.mustPost(goal("match:1", "x"))
	var letters []api.DeadLetter
	storetest.Eventually(t, soon, "a dead letter", func() bool {
		list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
		storetest.Must(t, err)
		letters = list.Items
		return len(letters) == 1
	})
	if bugs, paused := alarms("our_bug"), alarms("app_paused"); bugs == 0 || paused != 0 || letters[0].Reason != "FeatureNotEnabled" {
		t.Errorf("%v alarms of a bug and %v of a paused app, the letter is %+v", bugs, paused, letters[0])
	}
	p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
	storetest.Must(t, p.first.broadcasts.Delete(t.Context(), "match:1"))
	next := p.mustBroadcast("match:1", api.KeepNone)
	_, _, err := p.first.queueOfNotes.RetryDead(t.Context(), letters[0].ID, queue.Once{})
	storetest.Must(t, err)
	p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
	if got := p.apns.Of(next.Channel); len(got) != 1 {
		t.Errorf("the new channel got %d requests", len(got))
	}
}

// setupAlarms is a set-up that counts alarms by their kind.
func setupAlarms(t *testing.T) (p *pipeline, alarms func(kind string) float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics := delivery.NewMetrics(registry, nil)
	p = setup(t, options{delivery: func(o *delivery.Options) { o.Metrics = metrics }})
	return p, func(kind string) float64 { return counted(t, registry, "fanfare_alarms_total", kind) }
}

// An answer that only a bug of fanfare can cause makes a dead letter and an alarm, and pauses nothing.
func TestG6_BugsOfFanfare(t *testing.T) {
	t.Parallel()
	p, alarms := setupAlarms(t)
	reasons := []string{"MissingChannelId", "BadRequestParams", "BadRequestPayload", "MissingPushType", "CannotCreateChannelConfig"}
	for _, reason := range reasons {
		before, b := alarms("our_bug"), p.mustBroadcast(reason, api.KeepNone)
		p.apns.Script(b.Channel, apnstest.Fail(400, reason))
		r := p.mustEnd(p.mustPost(goal(reason, "x")), api.EventDone)
		if p.mustBeBroadcast(r, 0); r.Failed != 1 || r.FailedBy[reason] != 1 || len(p.apns.Of(b.Channel)) != 1 {
			t.Errorf("%d requests, the report is %+v", len(p.apns.Of(b.Channel)), r)
		}
		if bugs, paused := alarms("our_bug"), alarms("app_paused"); bugs <= before || paused != 0 {
			t.Errorf("after %s: %v alarms of a bug, before it %v, and %v of a paused app", reason, bugs, before, paused)
		}
	}
	list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, p.first.queueOfNotes)
	storetest.Must(t, err)
	var dead []string
	for _, l := range list.Items {
		dead = append(dead, l.Reason)
	}
	slices.Sort(dead)
	if slices.Sort(reasons); !slices.Equal(dead, reasons) {
		t.Errorf("dead letters of %v, want %v", dead, reasons)
	}
}

// An answer that only the configuration can cure pauses the app, with an alarm, also for a topic that has delivered nothing. When it
// is cured, the broadcast is sent.
func TestG6_WrongConfiguration(t *testing.T) {
	t.Parallel()
	for reason, status := range map[string]int{"TopicDisallowed": 400, "TopicMismatch": 403} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			p, alarms := setupAlarms(t)
			b := p.mustBroadcast("match:1", api.KeepNone)
			p.apns.Script(b.Channel, apnstest.Fail(status, reason))
			id := p.mustPost(goal("match:1", "x"))
			storetest.Eventually(t, soon, "the app is paused", func() bool {
				n, err := p.first.queueOfNotes.ParkedCounts(t.Context())
				return err == nil && n[liveTopic+"/production"] == 1
			})
			if bugs, paused := alarms("our_bug"), alarms("app_paused"); bugs != 0 || paused == 0 {
				t.Errorf("%v alarms of a bug and %v of a paused app", bugs, paused)
			}
			p.apns.Script(b.Channel, apnstest.OK())
			p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
		})
	}
}

// A paused app keeps its broadcasts as it keeps its notifications.
func TestG4_PausedApp(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	b := p.mustBroadcast("match:1", api.KeepNone)
	p.apns.Script(b.Channel, apnstest.Fail(403, "InvalidProviderToken"))
	id := p.mustPost(goal("match:1", "x"))
	storetest.Eventually(t, soon, "the app is paused", func() bool {
		n, err := p.first.queueOfNotes.ParkedCounts(t.Context())
		return err == nil && n[apnstest.DefaultTopic+api.PushLiveActivity.TopicSuffix()+"/production"] == 1
	})
	p.apns.Script(b.Channel, apnstest.OK())
	p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
}

// What waited while its app was paused goes to the channel that the object has by then, with the expiration that this takes.
func TestG4_WaitsForAnotherChannel(t *testing.T) {
	t.Parallel()
	for _, keep := range []api.BroadcastKeep{api.KeepNone, api.KeepLatest} {
		t.Run(string(keep), func(t *testing.T) {
			t.Parallel()
			waitForAnotherChannel(t, keep)
		})
	}
}

func waitForAnotherChannel(t *testing.T, keep api.BroadcastKeep) {
	p := setup(t, options{})
	before, want := api.KeepLatest, "0"
	at := time.Now().Add(time.Hour)
	if keep == api.KeepLatest {
		before, want = api.KeepNone, fmt.Sprint(at.Unix())
	}
	old := p.mustBroadcast("match:1", before)
	p.apns.ScriptAll(apnstest.Fail(403, "InvalidProviderToken"))
	id := p.mustPost(goal("match:1", "x", func(e *api.EventRequest) { e.ExpiresAt = new(api.At(at)) }))
	storetest.Eventually(t, soon, "the app is paused", func() bool {
		n, err := p.first.queueOfNotes.ParkedCounts(t.Context())
		return err == nil && n[apnstest.DefaultTopic+api.PushLiveActivity.TopicSuffix()+"/production"] == 1
	})
	storetest.Must(t, p.first.broadcasts.Lose(t.Context(), "match:1", old.Channel)) // it is there, so that no probe fails for good
	b := p.mustBroadcast("match:1", keep)
	p.apns.ScriptAll(apnstest.OK())
	p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
	for channel, times := range map[string]int{old.Channel: 0, b.Channel: 1} {
		delivered := 0
		for _, r := range p.apns.Of(channel) {
			if r.Status == 200 {
				delivered++
			}
			if channel == b.Channel && r.Expiration != want {
				t.Errorf("the new channel got the expiration %s, want %s", r.Expiration, want)
			}
		}
		if delivered != times {
			t.Errorf("channel %s took %d, want %d", channel, delivered, times)
		}
	}
}

// A broadcast that is cancelled before it is targeted, whether it is scheduled or waits, is not sent, and its event ends without a
// notification, as others do (N11).
func TestG4_CancelledBeforeTargeting(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Duration{"Waiting": 0, "Scheduled": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{idle: true})
			p.mustBroadcast("match:1", api.KeepNone)
			other := p.mustBroadcast("match:2", api.KeepNone)
			id := p.mustPost(goal("match:1", "x", func(e *api.EventRequest) {
				if later > 0 {
					e.SendAt = new(api.At(time.Now().Add(later)))
				}
			}))
			goesOn := p.mustPost(goal("match:2", "y"))
			at := p.mustCancel(id)
			if later == 0 {
				p.mustBeOld(at)
			}
			p.first.start()
			p.mustBeBroadcast(p.mustEnd(goesOn, api.EventDone), 1)
			r := p.mustSettle(id)
			if p.mustCounts(r, counts{}); r.Recipients != nil || r.Broadcast == nil || r.Broadcast.Sent != 0 || r.Cancelled != 0 {
				t.Errorf("the report is %+v", r)
			}
			if n := p.apns.Total(); n != 1 || len(p.apns.Of(other.Channel)) != 1 {
				t.Errorf("%d requests, want that of the other broadcast", n)
			}
		})
	}
}

// A broadcast that is cancelled while it waits for its app, for a channel that backs off, or for another try, is not tried again. It
// counts as one cancelled notification, and its event ends.
func TestG4_CancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]apnstest.Answer{
		"Paused":   apnstest.Fail(403, "InvalidProviderToken"),
		"Backoff":  {Status: 429, Reason: "TooManyRequests", RetryAfter: "2"},
		"Retrying": {Status: 500, Reason: "InternalServerError", RetryAfter: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{delivery: func(o *delivery.Options) { o.ProbeEvery = 2 * time.Second }})
			b := p.mustBroadcast("match:1", api.KeepNone)
			p.apns.Script(b.Channel, answer)
			id := p.mustPost(goal("match:1", "x"))
			storetest.Eventually(t, soon, "it waits", func() bool { return p.mustReport(id).Retrying == 1 })
			p.mustCancel(id)
			tried := p.apns.Total()
			r := p.mustSettle(id)
			if p.mustBeBroadcast(r, 0); r.Cancelled != 1 || r.Platforms[api.PlatformAPNs].Cancelled != 1 {
				t.Errorf("the report is %+v", r)
			}
			if n := p.apns.Total(); n > tried+1 { // one may have been written within the second
				t.Errorf("%d requests after the cancel", n-tried)
			}
		})
	}
}

// A process that takes over an event of a dead one sends it to the channel that the object has by then, under the same id.
func TestG4_TakenOver(t *testing.T) {
	t.Parallel()
	p := setup(t, options{idle: true, queue: func(o *queue.Options) { o.Lease = 2 * time.Second }})
	b := p.mustBroadcast("match:1", api.KeepNone)
	p.apns.Script(b.Channel, apnstest.Failing(apnstest.Hang), apnstest.OK())
	id := p.mustPost(goal("match:1", "x"))
	ended := p.first
	ended.start()
	storetest.Must(t, p.apns.WaitTotal(1, soon))
	go ended.stop() // it hands nothing back while its request hangs
	other := p.process()
	other.start()
	p.mustBeBroadcast(p.mustEnd(id, api.EventDone), 1)
	got := p.apns.Of(b.Channel)
	if len(got) < 2 || got[0].ID != got[len(got)-1].ID || stampOf(t, got[0].Payload) != stampOf(t, got[len(got)-1].Payload) {
		t.Errorf("APNs got %+v", got)
	}
}

// While SQL and the management host are away, updates of the broadcasts that a process knows are accepted and sent.
func TestG6_UpdatesGoOn(t *testing.T) {
	t.Parallel()
	proxy, through := storetest.ProxyTo(t, storetest.MySQL(t))
	p := setup(t, options{sql: through, sqlTime: time.Second})
	b := p.mustBroadcast("match:1", api.KeepNone)
	p.mustEnd(p.mustPost(goal("match:1", "1:0")), api.EventDone)
	p.apns.RefuseManagement(true)
	proxy.Cut()
	p.mustBeBroadcast(p.mustEnd(p.mustPost(goal("match:1", "2:0")), api.EventDone), 1)
	if got := p.apns.Of(b.Channel); len(got) != 2 || stampOf(t, got[1].Payload) <= stampOf(t, got[0].Payload) {
		t.Errorf("APNs got %+v", got)
	}
	_, _, err := p.first.events.Accept(t.Context(), goal("another", "x"), api.Idempotency{})
	storetest.WantCode(t, err, api.CodeUnavailable)
}
