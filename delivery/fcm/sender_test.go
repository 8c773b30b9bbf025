package fcm

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

const topic = "com.example.app"

// world is a stand-in and a sender to it, with one app.
type world struct {
	*fcmtest.Server
	t      testing.TB
	sender *Sender
	file   string // the apps file
}

// setup starts a stand-in, and a sender to it. Changes are made to the sender's options before it starts.
func setup(t testing.TB, o fcmtest.Options, changes ...func(*Options)) *world {
	t.Helper()
	s := fcmtest.Start(t, o)
	so := Options{Settings: exchange.Settings{Timeout: time.Minute}}
	for _, change := range changes {
		change(&so)
	}
	w := &world{Server: s, t: t, sender: New(so), file: filepath.Join(t.TempDir(), "apps.json")}
	t.Cleanup(func() { _ = w.sender.Close() })
	w.mustConfigure(entry(s, topic))
	return w
}

// entry is an app of the apps file.
func entry(s *fcmtest.Server, topic string) map[string]string {
	return map[string]string{"platform": "fcm", "topic": topic, "service_account_file": s.AccountFile(), "url": s.URL(), "ca_file": s.CAFile()}
}

// configure writes an apps file with these apps, and lets the sender read it.
func (w *world) configure(apps ...map[string]string) error {
	raw, err := json.Marshal(map[string]any{"apps": apps})
	storetest.Must(w.t, err)
	storetest.Must(w.t, os.WriteFile(w.file, raw, 0o600))
	return transport.Configure(w.sender, "FANFARE_APPS_FILE", w.file)
}

func (w *world) mustConfigure(apps ...map[string]string) {
	w.t.Helper()
	storetest.Must(w.t, w.configure(apps...))
}

// deviceToken is the registration token of the i-th device.
func deviceToken(i int) string {
	return fmt.Sprintf("fcm-token-%04d:APA91b-%s", i, strings.Repeat("x", 100))
}

const payload = `{"android":{"priority":"HIGH","notification":{"title":"hi","tag":"ev1"}},"data":{"event_id":"ev1","type":"t"}}`

// testNote is a valid notification for the i-th device.
func testNote(i int) *transport.Notification {
	return &transport.Notification{
		ID: fmt.Sprint("id-", i), Platform: api.PlatformFCM, Token: deviceToken(i), Topic: topic,
		PushType: api.PushAlert, Priority: 10, CollapseID: "ev1", Payload: []byte(payload),
	}
}

func (w *world) send(n *transport.Notification) transport.Answer {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return transport.Await(ctx, w.sender, n)
}

// mustDeliver sends a notification that must be delivered.
func (w *world) mustDeliver(n *transport.Notification) {
	w.t.Helper()
	if a := w.send(n); a.Outcome != transport.Delivered {
		w.t.Fatalf("got %s %d %s %s: %v; refused: %v", a.Outcome, a.Status, a.Reason, a.Said, a.Err, w.Refused())
	}
}

// sendMany sends to n devices at once, and counts the outcomes.
func (w *world) sendMany(n int) map[transport.Outcome]int {
	w.t.Helper()
	var mu sync.Mutex
	out := map[transport.Outcome]int{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a := w.send(testNote(i))
			mu.Lock()
			defer mu.Unlock()
			out[a.Outcome]++
		})
	}
	all.Wait()
	return out
}

// W8: one request for each device, with its token or its installation's id.
func TestW8_OneRequestForEachDevice(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	n := testNote(1)
	w.mustDeliver(n)
	const id = "cAAAA-AAAA_AAAAAAAAAA9"
	for _, token := range []string{id, "b" + id[1:], id + "x", id[:21], "c" + strings.Repeat(":", 21)} {
		n := testNote(1)
		n.Token = token
		w.mustDeliver(n)
		r := w.Of(token)
		if len(r) != 1 || (r[0].Message.FID != "") != (token == id) {
			t.Errorf("%s was sent as %+v", token, r)
		}
	}
	r := w.Of(n.Token)
	if len(r) != 1 {
		t.Fatalf("%d requests", len(r))
	}
	want := `{"message":{"token":"` + n.Token + `",` + payload[1:] + `}`
	if string(r[0].Raw) != want {
		t.Errorf("sent %s, want %s", r[0].Raw, want)
	}
	if a := w.send(n); a.Outcome != transport.Delivered || a.Status != 200 || a.Took <= 0 {
		t.Errorf("got %+v", a)
	}
}

// W8: a connection has as many requests under way as the peer allows, and a service account at most 16
// connections. Apps of one service account share them.
func TestW8_StreamsAndConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{MaxStreams: 5, Latency: 50 * time.Millisecond})
	w.mustConfigure(entry(w.Server, topic), entry(w.Server, "other"))
	w.sender.apps.Load().apps[topic].limiter.StartWith(0) // all at once
	if got := w.sendMany(1000); got[transport.Delivered] != 1000 {
		t.Fatalf("got %v, refused %v", got, w.Refused())
	}
	n := testNote(1000)
	n.Topic = "other"
	w.mustDeliver(n)
	conns := map[string]int{}
	for _, r := range w.Requests() {
		conns[r.Conn]++
	}
	if len(w.Requests()) != 1001 || len(conns) > maxConns || len(conns) < 2 {
		t.Errorf("%d requests on %d connections", len(w.Requests()), len(conns))
	}
	if w.TokensAsked() != 1 {
		t.Errorf("%d requests for a token", w.TokensAsked())
	}
}

// W10, W12: the time to live is what is left of it, at most 28 days, and 0 after its end, in the form of each kind
// of device. A message that waits since an earlier version has no part for iPhones.
func TestW10_TimeToLive(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Hour) // by Redis' clock, behind which the server's is
	w := setup(t, fcmtest.Options{})
	at := func(after time.Duration) *time.Time { end := now.Add(after); return &end }
	epoch := time.Unix(0, 0)
	unix := func(after time.Duration) string { return fmt.Sprint(now.Add(after).Unix()) }
	for i, row := range []struct {
		expiration     *time.Time
		web, onIPhones string
	}{{nil, "", ""}, {at(90 * time.Second), "90", unix(90 * time.Second)}, {at(-time.Second), "0", "0"}, {at(900 * time.Millisecond), "0", "0"}, {&epoch, "0", "0"},
		{at(29 * 24 * time.Hour), "2419200", unix(28 * 24 * time.Hour)}} {
		n, earlier := testNote(i), testNote(100+i)
		n.Payload = []byte(strings.Replace(payload, `,"data":`, `,"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":{"alert":"<hi>"}}},"notification":{"title":"hi"},"data":`, 1))
		for _, n := range []*transport.Notification{n, earlier} {
			n.Expiration, n.At = row.expiration, now
			w.mustDeliver(n)
			m := w.Of(n.Token)[0].Message
			if android := strings.TrimSuffix(m.Android.TTL, "s"); android != row.web || m.WebPush.Headers["TTL"] != row.web || m.Data["type"] != "t" || m.Android.Priority != "HIGH" {
				t.Errorf("%v was sent as %+v", row.expiration, m)
			}
		}
		m := w.Of(n.Token)[0].Message
		var alert struct{ Alert string }
		_ = json.Unmarshal(m.APNs.Payload.APS, &alert)
		if m.APNs.Headers["apns-expiration"] != row.onIPhones || m.APNs.Headers["apns-priority"] != "10" || alert.Alert != "<hi>" || m.Notification.Title != "hi" {
			t.Errorf("%v was sent to iPhones as %+v", row.expiration, m)
		}
	}
}

// W12: an app begins with 100 requests under way after a minute without one, at first too.
func TestW12_AColdAppBeginsSlowly(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	w := setup(t, fcmtest.Options{}, func(o *Options) { o.Now = clock })
	limiter := w.sender.apps.Load().apps[topic].limiter
	for _, pause := range []time.Duration{0, time.Minute} {
		mu.Lock()
		now = now.Add(pause)
		mu.Unlock()
		held := make(chan struct{})
		w.Script(func(*fcmtest.Request) fcmtest.Answer { <-held; return fcmtest.Answer{} })
		var all sync.WaitGroup
		for i := range 150 {
			all.Go(func() { w.send(testNote(i)) })
		}
		storetest.Eventually(t, time.Minute, "100 requests are under way", func() bool {
			in, limit := limiter.State()
			return in == 100 && limit == 100
		})
		close(held)
		all.Wait()
		w.Script(nil)
		mu.Lock()
		now = now.Add(time.Second)
		mu.Unlock()
		w.mustDeliver(testNote(0))
		if _, limit := limiter.State(); limit != 110 {
			t.Errorf("a second later the limit is %d", limit)
		}
	}
}

// W4: everything that is wrong is told, with its entry and field, and the apps before stay.
func TestW4_EveryMistakeIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	dir := t.TempDir()
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	ec, err := exchangetest.PEM(elliptic)
	storetest.Must(t, err)
	account := func(name string, change func(*fcmtest.Account)) string {
		file, err := w.WriteAccount(dir, name, change)
		storetest.Must(t, err)
		return file
	}
	bare := account("bare.json", func(a *fcmtest.Account) { *a = fcmtest.Account{} })
	odd := account("odd.json", func(a *fcmtest.Account) { a.ProjectID, a.TokenURI, a.PrivateKey = "a/b", "http://x", string(ec) })
	notJSON := filepath.Join(dir, "not.json")
	storetest.Must(t, os.WriteFile(notJSON, []byte("secret"), 0o600))
	with := func(changes ...string) map[string]string {
		e := entry(w.Server, topic)
		for i := 0; i < len(changes); i += 2 {
			e[changes[i]] = changes[i+1]
		}
		return e
	}
	err = w.configure(
		with("topic", "a b", "url", "http://x", "token_url", "x", "ca_file", notJSON, "service_account_file", ""),
		with("service_account_file", bare), with("service_account_file", odd), with("service_account_file", notJSON),
		with("environment", "production"), with("service_account_file", "gone.json"))
	if err == nil {
		t.Fatal("the file was taken")
	}
	for _, want := range []string{
		`apps[0]: topic: "a b" is no topic`, `apps[0]: url: "http://x" is no base URL`, `apps[0]: token_url: "x" is no URL`, "apps[0]: ca_file: no PEM certificate",
		"apps[0]: service_account_file: must be set", "project_id is missing", "private_key_id is missing", "private_key is missing", "client_email is missing", "token_uri is missing",
		"project_id is no project", "token_uri is no URL", "RS256 needs RSA", "apps[3]: service_account_file: " + notJSON + " is not the JSON file of a service account",
		`apps[4]: json: unknown field "environment"`, "apps[5]: service_account_file: read service account: open " + filepath.Join(filepath.Dir(w.file), "gone.json"),
		"apps[2]: " + topic + "/fcm is there twice",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("shows a secret: %v", err)
	}
	w.mustDeliver(testNote(1))
	if a := w.sender.Apps(); !maps.Equal(a, map[string]error{topic + "/fcm": nil}) || w.Open() != 1 {
		t.Errorf("%d connections, apps: %+v", w.Open(), a)
	}
}

// W4: an app that did not change keeps its connection and its token, and one that is gone takes nothing.
func TestW4_ReloadKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	w.mustDeliver(testNote(1))
	before := w.Accepted()
	w.mustConfigure(entry(w.Server, topic), entry(w.Server, "more"))
	w.mustDeliver(testNote(2))
	if w.Accepted() != before || w.TokensAsked() != 1 {
		t.Errorf("%d new connections, %d tokens", w.Accepted()-before, w.TokensAsked())
	}
	if !w.sender.Takes(&api.DeviceRequest{Topic: "more"}) {
		t.Error("the new app is not taken")
	}
	w.mustConfigure(entry(w.Server, "more"))
	if a := w.send(testNote(3)); a.Outcome != transport.NoApp || w.sender.Takes(&api.DeviceRequest{Topic: topic}) {
		t.Errorf("the app is still there: %+v", a)
	}
}

// W6: a notification that was accepted and is too large has no payload. It fails, and nothing is sent.
func TestW6_TooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	n := testNote(1)
	n.Payload = nil
	if a := w.send(n); a.Outcome != transport.FailMessage || a.Reason != "payload_too_large" || len(w.Requests()) != 0 {
		t.Errorf("got %+v", a)
	}
	n.Payload = []byte(`{"aps":{}}`)
	if a := w.send(n); a.Outcome != transport.OurBug || a.Err == nil || len(w.Requests()) != 0 {
		t.Errorf("a payload of APNs: %+v", a)
	}
}

// MaySend is asked before each request, and withholds it.
func TestMaySendIsAskedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	n := testNote(1)
	n.MaySend = func() bool { return false }
	if a := w.send(n); a.Outcome != transport.NotSent || a.Err != transport.ErrMayNotSend || len(w.Requests()) != 0 {
		t.Errorf("got %+v", a)
	}
}

// A15 holds for FCM: many at once, each is sent once, over GOAWAY too.
func TestSendMany(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	w.sender.apps.Load().apps[topic].limiter.StartWith(0)
	var mu sync.Mutex
	n := 0
	w.Script(func(*fcmtest.Request) fcmtest.Answer {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%200 == 0 {
			return fcmtest.Answer{Fault: exchangetest.GoAway}
		}
		return fcmtest.Answer{}
	})
	if got := w.sendMany(2000); got[transport.Delivered] != 2000 {
		t.Fatalf("got %v, refused %v", got, w.Refused())
	}
	seen := map[string]bool{}
	for _, r := range w.Requests() {
		if seen[r.Message.Token] {
			t.Fatalf("%s was sent twice", r.Message.Token)
		}
		seen[r.Message.Token] = true
	}
}

// W11: an answer that is cut off behind its status does not say that the device or the app is at fault. The notification is sent again.
func TestW11_AnAnswerThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := setup(t, fcmtest.Options{})
	w.mustDeliver(testNote(0))
	for i, status := range []int{404, 400, 403, 401} {
		a := fcmtest.Refuse(status, "UNREGISTERED")
		a.Fault = exchangetest.CutOff
		w.Answers(a)
		if got := w.send(testNote(1 + i)); got.Outcome != transport.Retry || got.Status != status || got.Reason != "" {
			t.Errorf("%d: %+v", status, got)
		}
		w.mustDeliver(testNote(1 + i))
	}
}

// A lost connection leaves the outcome unknown, and so does the end of the time.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]exchangetest.Fault{"Reset": exchangetest.Reset, "Drop": exchangetest.Drop, "Hang": exchangetest.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, fcmtest.Options{}, func(o *Options) { o.Timeout = 15 * time.Second })
			w.mustDeliver(testNote(0))
			w.Answers(fcmtest.Answer{Fault: fault})
			if a := w.send(testNote(1)); a.Outcome != transport.UnknownOutcome || len(w.Of(deviceToken(1))) != 1 {
				t.Errorf("got %s %v", a.Outcome, a.Err)
			}
			w.mustDeliver(testNote(2))
		})
	}
}
