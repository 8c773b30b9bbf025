package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/events/render"
	"fanfare/store/queue"
)

func TestA2_NotificationID(t *testing.T) {
	t.Parallel()
	// The expected value is written out, because another value would be another notification for
	// every phone that has not got it yet.
	const want = "198d2db6-0082-5c60-8f7b-b9824a616f37"
	got := events.NotificationID("0seui1d6n75vqt9bavb81g8rjlm0kohe", strings.Repeat("ab", 32))
	if got != want {
		t.Errorf("id %s, want %s", got, want)
	}
	id, err := uuid.Parse(got)
	if err != nil || id.Version() != 5 || got != strings.ToLower(got) {
		t.Errorf("id %s is no lowercase UUIDv5: %v", got, err)
	}
	if events.NotificationID("a", "bc") == events.NotificationID("ab", "c") {
		t.Error("event and token run into each other")
	}
}

func TestEveryOutcomeHasAResult(t *testing.T) {
	t.Parallel()
	for o := transport.Delivered; o <= transport.NoApp; o++ {
		if resultOf[o] == nil {
			t.Errorf("no result for %s", o)
		}
	}
}

// workOf is the notification of an event to a device of bob.
func (d *Delivery) workOf(event string, job *events.Job, device *api.Device) *work {
	return d.works(&Event{Claim: &queue.Claimed{Job: queue.Job{ID: event}}, Job: job}, []Recipient{{User: "bob", Device: device}})[0]
}

func TestEncodeWritesWhatDecodeReads(t *testing.T) {
	t.Parallel()
	zero := int64(0)
	for _, event := range []string{"0qqgk90o3q97mu3iev50vl7a1q0g1qh3", ""} {
		for _, push := range []render.Push{
			{
				Payload: json.RawMessage(`{"aps":{"alert":"<&> \u2028 \u0001 ü"},"event_id":"` + event + `","again":["` + event + `"]}`), PushType: api.PushAlert, Priority: 5,
				CollapseID: "q\"\x1f\x01", Expiration: &zero, ExpiresAt: 7, NoRetryUnknown: true,
			},
			{Payload: json.RawMessage(`{}`), PushType: api.PushBackground, Priority: 10, CollapseID: event, ExpiresAt: 1 << 60, TTL: 86400},
			{Payload: json.RawMessage(`{}`), PushType: api.PushAlert, Priority: 10, CollapseID: event, Expiration: &zero},
			{Payload: json.RawMessage(`{}`), PushType: api.PushAlert, Priority: 10, CollapseID: event, TTL: 1},
			{Payload: json.RawMessage(`{}`), PushType: api.PushAlert, Priority: 10, CollapseID: event, ExpiresAt: 1},
			{Payload: json.RawMessage(`{}`), PushType: api.PushBackground, Priority: 10, CollapseID: event},
		} {
			d := &api.Device{Token: "abcd", Topic: "com.example", Environment: api.EnvSandbox, RegisteredAt: api.AtMillis(99), State: api.DeviceSuspect}
			m, err := decodeMessage(event, new(Delivery).workOf(event, &events.Job{AcceptedAt: 42, Push: push}, d).m.encode())
			want := &message{
				Token: "abcd", User: "bob", Topic: "com.example", Environment: api.EnvSandbox, RegisteredAt: 99,
				Event: event, AcceptedAt: 42, Push: push, Suspect: true,
			}
			if err != nil || !reflect.DeepEqual(m, want) {
				t.Errorf("message %+v, %v\nwant %+v", m, err, want)
			}
			again, err := decodeMessage(event, m.marked())
			want.Retrying = true
			if err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("marked %+v, %v", again, err)
			}
			want.Refused, want.RefusedSaid, want.Suspect, want.Environment = "TopicDisallowed", "no\x00, \x1f \x01 it is", false, api.EnvProduction
			again, err = decodeMessage(event, want.encode())
			if err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("refused %+v, %v", again, err)
			}
			n := m.notification("id", time.Now(), nil)
			if (n.Expiration == nil) != (push.Expiration == nil) || n.Expiration != nil && n.Expiration.Unix() != 0 || string(n.Payload) != string(push.Payload) {
				t.Errorf("notification %+v", n)
			}
		}
	}
}

// W1: a message goes to the sender of its token's platform, whether it waited in the queue or not.
func TestW1_AMessageGoesToItsPlatform(t *testing.T) {
	t.Parallel()
	const event = "0qqgk90o3q97mu3iev50vl7a1q0g1qh3"
	delivery := &Delivery{o: Options{PushOrigins: api.PushOrigins{"*.push.apple.com", "*"}}}
	for _, row := range []struct {
		token    string
		env      api.Environment
		platform api.Platform
		app      string
	}{
		{strings.Repeat("ab", 32), api.EnvProduction, api.PlatformAPNs, "com.example/production"},
		{strings.Repeat("ab", 32), api.EnvSandbox, api.PlatformAPNs, "com.example/sandbox"},
		{strings.Repeat("ab", 20), "", api.PlatformFCM, "com.example/fcm"},
		{"cA:" + strings.Repeat("x_-", 50), "", api.PlatformFCM, "com.example/fcm"},
		{"wp." + strings.Repeat("a", 43), "", api.PlatformWebPush, "com.example/webpush:*.push.apple.com"},
		{"wp." + strings.Repeat("b", 43), "", api.PlatformWebPush, "com.example/webpush:other"},
	} {
		d := &api.Device{Token: row.token, Topic: "com.example", Environment: row.env}
		if row.platform == api.PlatformWebPush {
			host := map[byte]string{'a': "web.push.apple.com", 'b': "push.example.com"}[row.token[3]]
			d.Target = (&api.Subscription{Endpoint: "https://" + host + "/x", Keys: api.SubscriptionKeys{P256dh: "p", Auth: "a"}}).Target()
		}
		job := &events.Job{Push: render.Push{PushType: api.PushAlert, Payload: json.RawMessage(`{"aps":{"alert":"hi"}}`)}}
		atOnce := delivery.workOf(event, job, d)
		waiting, err := decodeMessage(event, atOnce.m.encode())
		if err != nil {
			t.Fatal(err)
		}
		for way, m := range map[string]*message{"waiting": waiting, "at once": atOnce.m} {
			n := m.notification("id", time.Now(), nil)
			if n.Platform != row.platform || n.Token != row.token || n.Environment != row.env || n.Target != d.Target || delivery.app(m) != row.app {
				t.Errorf("%s, %s: %+v through %s", row.token, way, n, delivery.app(m))
			}
		}
		if atOnce.app != row.app {
			t.Errorf("%s waits for room of %s", row.token, atOnce.app)
		}
	}
}

// G4: what a channel gets as its expiration is known when it is sent, however long it waited, and whatever the channel was
// before.
func TestG4_ExpirationWhenItIsSent(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	in := func(d time.Duration) *int64 { return new(now.Add(d).Unix()) }
	for name, row := range map[string]struct {
		of     *int64 // of the event
		latest bool
		want   *int64
	}{
		"NothingIsKept":    {in(time.Hour), false, new(int64)},
		"Latest":           {nil, true, in(8 * time.Hour)},
		"LatestUntil":      {in(time.Hour), true, in(time.Hour)},
		"LatestUntilLater": {in(48 * time.Hour), true, in(8 * time.Hour)},
		"LatestOnce":       {new(int64), true, new(int64)},
	} {
		m := &message{Token: api.BroadcastToken("match:1"), Event: "0qqgk90o3q97mu3iev50vl7a1q0g1qh3", AcceptedAt: now.Add(-9 * time.Hour).UnixMilli(),
			Channel: "c", Latest: row.latest, Push: render.Push{Payload: json.RawMessage(`{}`), PushType: api.PushLiveActivity, Expiration: row.of}}
		waiting, err := decodeMessage(m.Event, m.encode())
		if err != nil {
			t.Fatal(err)
		}
		if n := waiting.notification("id", now, nil); n.Expiration == nil || n.Expiration.Unix() != *row.want {
			t.Errorf("%s: %v, want %d", name, n.Expiration, *row.want)
		}
	}
}

func TestARegistrationChangesTheApp(t *testing.T) {
	t.Parallel()
	d := New(Options{Sender: silentSender()})
	m := &message{Token: strings.Repeat("ab", 32), User: "bob", Topic: "com.example.app", Environment: api.EnvProduction}
	w := &work{m: m, app: d.app(m), charged: d.app(m)}
	d.update(w, devices.Guard{User: "bob", Topic: "com.example.new", Environment: api.EnvSandbox})
	if w.app != "com.example.new/sandbox" || w.charged != "com.example.app/production" {
		t.Errorf("goes through %s, charged to %s", w.app, w.charged)
	}
}

// A waiting message is short, because millions may wait.
func TestTheBytesOfAWaitingMessage(t *testing.T) {
	t.Parallel()
	const event = "0qqgk90o3q97mu3iev50vl7a1q0g1qh3"
	m := &message{
		Token: strings.Repeat("ab", 32), User: "bob", Topic: "com.example.app", Environment: api.EnvProduction, RegisteredAt: 99, Event: event, AcceptedAt: 42,
		Push: render.Push{PushType: api.PushAlert, Priority: 10, CollapseID: event, Payload: json.RawMessage(
			`{"aps":{"alert":{"title":"Hello","body":"world"},"sound":"default"},"event_id":"` + event + `","type":"t"}`)},
	}
	for _, c := range []struct {
		token  string
		env    api.Environment
		target string
		most   int
	}{
		{m.Token, api.EnvProduction, "", 102},
		{"an-fcm-token-of-30-characters-", "", "", 102},
		{"wp." + strings.Repeat("a", 43), "", "https://a.b/x p a", 138},
	} {
		m.Token, m.Environment, m.Target = c.token, c.env, c.target
		text := m.encode()
		if len(text) > c.most {
			t.Errorf("%s: %d bytes, more than %d: %q", c.token, len(text), c.most, text)
		}
		if again, err := decodeMessage(event, text); err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%+v is read as %+v, %v", m, again, err)
		}
	}
}

// W2: a dead letter shows the origin of a browser's endpoint, and nothing else of its target.
func TestW2_DeadLettersHideTargets(t *testing.T) {
	t.Parallel()
	s := api.Subscription{Endpoint: "https://web.push.apple.com/secret", Keys: api.SubscriptionKeys{P256dh: "point", Auth: "auth"}}
	m := &message{Token: api.TokenOfEndpoint(s.Endpoint), Target: s.Target(), User: "bob", Topic: "shop", Event: "e1", Refused: "BadRequest",
		Push: render.Push{PushType: api.PushAlert, Priority: 10, CollapseID: "e1", Payload: json.RawMessage(`{"title":"x"}`)}}
	shown := string(ShowMessage("e1", m.encode()))
	if !strings.Contains(shown, `"origin":"https://web.push.apple.com"`) || !strings.Contains(shown, `"token":"wp.`) {
		t.Errorf("shown as %s", shown)
	}
	for _, secret := range []string{"secret", "point", `"auth"`} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is shown: %s", secret, shown)
		}
	}
}

// W2: nor does what cannot be read show a target.
func TestW2_WhatCannotBeReadIsNotShown(t *testing.T) {
	t.Parallel()
	m := &message{Token: "wp.abc", Target: "https://web.push.apple.com/secret point auth", User: "bob", Topic: "shop", Event: "e1", Push: render.Push{Payload: json.RawMessage("{}")}}
	for n := range m.encode() {
		if shown := ShowMessage("e1", m.encode()[:n]); shown != nil {
			t.Fatalf("%d bytes are shown as %s", n, shown)
		}
	}
}

// W6: a notification that is too large for its service, and has no payload for that, can wait as others do.
func TestW6_TooLargeCanWait(t *testing.T) {
	t.Parallel()
	m := &message{Token: "wp.abc", Target: "https://web.push.apple.com/x", User: "bob", Topic: "shop", Event: "e1"}
	if got, err := decodeMessage("e1", m.encode()); err != nil || len(got.Push.Payload) > 0 || got.User != "bob" {
		t.Errorf("%+v, %v", got, err)
	}
}

// G7: a dead letter names an iPhone's activity as the app registered it, and not its registration token.
func TestG7_DeadLettersNameTheActivity(t *testing.T) {
	t.Parallel()
	own := strings.Repeat("ab", 40)
	r := &api.ActivityRequest{Platform: "fcm", Kind: api.ActivityUpdate, Object: "match:7", Registration: "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-iphone"}
	token, target := r.Stored(own)
	m := &message{Token: token, Target: target, User: "bob", Topic: "shop", Event: "e1", Push: render.Push{PushType: api.PushLiveActivity, Priority: 10, Payload: json.RawMessage(`{"android":{}}`)}}
	if shown := string(ShowMessage("e1", m.encode())); !strings.Contains(shown, `"token":"`+own+`"`) || strings.Contains(shown, token) || strings.Contains(shown, "APA91bF") {
		t.Errorf("shown as %s", shown)
	}
}

// A damaged message is refused and never misread, except within the payload.
func TestDamagedMessagesAreRefused(t *testing.T) {
	t.Parallel()
	m := &message{Token: "abcd", User: "bob", Topic: "com.example", Environment: api.EnvProduction, Event: "event", Push: render.Push{CollapseID: "c", Payload: json.RawMessage(`{}`)}}
	text := m.encode()
	for n := range text {
		if got, err := decodeMessage("event", text[:n]); err == nil {
			t.Errorf("%d bytes of %d make %+v", n, len(text), got)
		}
	}
	for n := range text {
		for _, b := range []byte{0, 0x7f, 0x80, 0xff} {
			damaged := bytes.Clone(text)
			damaged[n] = b
			_, _ = decodeMessage("event", damaged) // it may be readable, but it must not panic
		}
	}
	for _, other := range []string{`{"token":"abcd"}`, "\xa0\xa0", strings.Replace(string(text), "\x01\x42\xab\xcd", "\x0e\x42\xab\xcd", 1), strings.Replace(string(text), "\x09\x42{}", "\x0e\x42{}", 1)} {
		if other == string(text) {
			t.Fatal("this is the same form")
		}
		if m, err := decodeMessage("event", []byte(other)); err == nil {
			t.Errorf("another form is read as %+v", m)
		}
	}
}

func TestMessageExpires(t *testing.T) {
	t.Parallel()
	m := &message{}
	if m.expired(time.Now()) {
		t.Error("a message without a time expired")
	}
	m.Push.ExpiresAt = 1000
	if m.expired(time.UnixMilli(999)) || !m.expired(time.UnixMilli(1000)) {
		t.Error("a message expires at its time, neither before nor after")
	}
}

func TestAcceptsProvesTheConfiguration(t *testing.T) {
	t.Parallel()
	for o, want := range map[transport.Outcome]bool{
		transport.Delivered: true, transport.FailMessage: true, transport.DropDevice: true, transport.OurBug: true, transport.BackoffDevice: true, transport.SuspectDevice: true,
		transport.PauseApp: false, transport.Retry: false, transport.RetryUncounted: false, transport.NotSent: false, transport.UnknownOutcome: false, transport.NoApp: false, transport.Again: false,
	} {
		if accepts(transport.Answer{Outcome: o}, "Forbidden") {
			t.Errorf("%s without an answer proves something", o)
		}
		if got := accepts(transport.Answer{Outcome: o, Status: 400}, "Forbidden"); got != want {
			t.Errorf("%s: %v, want %v", o, got, want)
		}
	}
	if accepts(transport.Answer{Outcome: transport.SuspectDevice, Status: 400}, stormReason) {
		t.Error("a bad token ended the pause that bad tokens made")
	}
}

func TestBackoffsGrowAndForget(t *testing.T) {
	t.Parallel()
	b, now := newBackoffs(100*time.Millisecond, time.Second), time.Now()
	for n, limit := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if d := b.next("a", 0, now); d <= 0 || d > limit*time.Millisecond+time.Millisecond {
			t.Errorf("backoff %d is %v, want at most %v ms", n, d, int64(limit))
		}
	}
	if d := b.next("b", time.Minute, now); d != time.Minute {
		t.Errorf("backoff %v, APNs asked for a minute", d)
	}
	if d := b.wait("b", now.Add(50*time.Second)); d != 10*time.Second {
		t.Errorf("wait %v, want 10s", d)
	}
	if b.wait("c", now) != 0 {
		t.Error("a stranger waits")
	}
	b.forget("b")
	if b.wait("b", now) != 0 {
		t.Error("a forgotten device waits")
	}
	b.sweep(now.Add(time.Hour))
	if len(b.devices) != 0 {
		t.Errorf("%d devices after the sweep", len(b.devices))
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	var r rate
	start := time.Unix(1_000_000, 0)
	for s := range 10 {
		for range 5 {
			r.add(start.Add(time.Duration(s) * time.Second))
		}
	}
	if got := r.mean(start.Add(9 * time.Second)); got != 5 {
		t.Errorf("mean of 10 s is %v, want 5", got)
	}
	if got := r.mean(start.Add(59 * time.Second)); got != 50.0/60 {
		t.Errorf("mean of a minute is %v", got)
	}
	if got := r.mean(start.Add(10 * time.Minute)); got != 0 {
		t.Errorf("mean long after is %v", got)
	}
	for back := range 3 { // a clock that is put back: JSON has no infinite numbers
		var r rate
		r.add(start)
		if got := r.mean(start.Add(-time.Duration(back) * time.Second)); got != 1 {
			t.Errorf("mean %d s before the first is %v", back, got)
		}
	}
}

func TestDeferOrRetry(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want queue.Outcome
	}{
		{api.Errorf(api.CodeUnavailable, "x"), queue.Defer},
		{api.Errorf(api.CodeUnknownOutcome, "x"), queue.Defer},
		{api.Errorf(api.CodeOverloaded, "x"), queue.Defer},
		{errors.New("our own fault"), queue.Retry},
		{fmt.Errorf("read: %w", context.DeadlineExceeded), queue.Defer},
	} {
		if got := DeferOrRetry("r", tt.err).Outcome; got != tt.want {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.want)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	m.Accepted(3)
	for _, platform := range []api.Platform{api.PlatformAPNs, api.PlatformFCM} {
		m.of(platform).targeted.Inc()
	}
	m.suppressed.WithLabelValues("muted").Inc()
	m.answered(api.PlatformAPNs, transport.Answer{Outcome: transport.Delivered, Status: 200}, time.Now().UnixMilli())
	m.answered(api.PlatformFCM, transport.Answer{Outcome: transport.FailMessage, Status: 400, Reason: "WhateverAStrangerWrites"}, time.Now().UnixMilli())
	m.breaker.WithLabelValues("a/production").Set(1)
	m.paused.WithLabelValues("a/production").Set(1)
	m.alarm("storm")
	m.end(api.PlatformFCM, failed("device_gone"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range families {
		text += f.String() + "\n"
	}
	for _, want := range []string{
		"fanfare_events_accepted_total", "fanfare_notifications_targeted_total", "fanfare_recipients_suppressed_total",
		"fanfare_apns_answers_total", "fanfare_event_to_answer_seconds", "fanfare_apns_breaker_open", "fanfare_apns_app_paused",
		"fanfare_alarms_total", "fanfare_notifications_ended_total", `"other"`, `"device_gone"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing", want)
		}
	}
	if strings.Contains(text, "Whatever") {
		t.Error("a stranger's reason became a label")
	}
	if m.DeliveredPerSecond() <= 0 {
		t.Error("nothing delivered per second")
	}
}

// TestAWaitingMessageIsShort: millions may wait. Texts that most messages share take one byte, and
// every message is read unchanged, even if it contains these bytes.
func TestAWaitingMessageIsShort(t *testing.T) {
	t.Parallel()
	const event = "0seui1d6n75vqt9bavb81g8rjlm0kohe"
	for _, c := range []struct {
		name, token, payload string
		most                 int
	}{
		{"Usual", strings.Repeat("ab", 32), `{"aps":{"alert":{"title":"Hello","body":"world"},"sound":"default"},"event_id":"` + event + `","type":"t"}`, 105},
		{"OtherToken", strings.Repeat("AB", 32), `{"aps":{"alert":{"body":"x","title":"y"},"badge":1},"type":"` + event + `"}`, 150},
		{"OddToken", "abc", `{"aps":{"content-available":1},"event_id":"","x":"\u0001\u0002\\x02"}`, 100},
	} {
		m := &message{Token: c.token, User: "bob", Topic: "com.example.app", Environment: api.EnvProduction, Event: event,
			AcceptedAt: 1_790_000_000_000, Push: render.Push{PushType: api.PushAlert, Priority: 10, Payload: json.RawMessage(c.payload)}}
		text := m.encode()
		if len(text) > c.most {
			t.Errorf("%s: %d bytes, more than %d", c.name, len(text), c.most)
		}
		if again, err := decodeMessage(event, text); err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%s: %+v is read as %+v, %v", c.name, m, again, err)
		}
	}
}
