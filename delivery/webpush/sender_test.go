package webpush

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

const (
	topic  = "com.example.app"
	chrome = "fcm.googleapis.com"
)

// world is a stand-in and a sender to it, with one app and one browser.
type world struct {
	*webpushtest.Server
	t       testing.TB
	sender  *Sender
	file    string // the apps file
	browser *webpushtest.Browser
}

// setup starts a stand-in, and a sender to it. Changes are made to the sender's options before it starts.
func setup(t testing.TB, o webpushtest.Options, changes ...func(*Options)) *world {
	t.Helper()
	return setupWith(t, webpushtest.Start(t, o), changes...)
}

func setupWith(t testing.TB, s *webpushtest.Server, changes ...func(*Options)) *world {
	t.Helper()
	o := Options{Settings: settings(time.Now), Origins: api.KnownPushOrigins, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, change := range changes {
		change(&o)
	}
	w := &world{Server: s, t: t, sender: New(o), file: filepath.Join(t.TempDir(), "apps.json"), browser: s.MustSubscribe(t, chrome)}
	t.Cleanup(func() { _ = w.sender.Close() })
	if o.addresses().Allows(netip.MustParseAddrPort(s.Addr()).Addr()) {
		w.mustConfigure(s.App(topic))
	}
	return w
}

func settings(now func() time.Time) exchange.Settings {
	return exchange.Settings{Timeout: time.Minute, Now: now}
}

// noResolver knows no name.
func noResolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no DNS")
	}}
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

const payload = `{"title":"hi","body":"there","event_id":"ev1","type":"t","tag":"ev1"}`

// note is a valid notification for the browser.
func (w *world) note() *transport.Notification { return w.noteTo(w.browser) }

func (w *world) noteTo(b *webpushtest.Browser) *transport.Notification {
	return &transport.Notification{
		ID: "id-1", Platform: api.PlatformWebPush, Token: b.Token(), Target: b.Target(), Topic: topic,
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

// last is the newest request.
func (w *world) last() webpushtest.Request {
	w.t.Helper()
	all := w.Requests()
	if len(all) == 0 {
		w.t.Fatalf("there was no request; refused: %v", w.Refused())
	}
	return all[len(all)-1]
}

// failure is why the topic's app cannot be reached at a place, nil if it can.
func (w *world) failure(place string) error {
	w.t.Helper()
	err, ok := w.sender.Apps()[topic+"/"+place]
	if !ok {
		w.t.Fatalf("there is no app at %s: %+v", place, w.sender.Apps())
	}
	return err
}

// W13: the browser gets the payload. The headers have the time to live, the urgency, and a topic made of
// the collapse id.
func TestW13_WhatIsSent(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(time.Hour) // by Redis' clock, behind which the server's is
	w := setup(t, webpushtest.Options{})
	w.mustDeliver(w.note())
	r := w.last()
	const first = "b0c82a3ade3497964cb8034be915da17" // the beginning of the SHA-256 of ev1
	if string(r.Payload) != payload || r.Urgency != "high" || r.Topic != first || r.TTL != 2419200 || r.Host != chrome {
		t.Errorf("sent %+v", r)
	}
	at := func(after time.Duration) *time.Time { end := now.Add(after); return &end }
	epoch := time.Unix(0, 0)
	for _, row := range []struct {
		priority   int
		collapse   string
		expiration *time.Time
		urgency    string
		ttl        int
	}{
		{5, "", at(90 * time.Second), "normal", 90}, {1, "", at(-time.Second), "low", 0}, {0, "ev1", &epoch, "", 0},
		{10, "ev2", at(29 * 24 * time.Hour), "high", 2419200},
	} {
		n := w.note()
		n.Priority, n.CollapseID, n.Expiration, n.At = row.priority, row.collapse, row.expiration, now
		w.mustDeliver(n)
		r := w.last()
		if r.Urgency != row.urgency || r.TTL != row.ttl || (r.Topic == "") != (row.collapse == "") || (r.Topic == first) != (row.collapse == "ev1") {
			t.Errorf("%+v was sent as %+v", row, r)
		}
	}
}

// W13: no key and no salt is used twice, which the stand-in checks, and a browser that has unsubscribed is
// gone.
func TestW13_ManyToOneBrowser(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	for range 50 {
		w.mustDeliver(w.note())
	}
	w.Unsubscribe(w.browser)
	if a := w.send(w.note()); a.Outcome != transport.DropDevice || a.Reason != "gone" {
		t.Errorf("got %+v", a)
	}
}

// W13: each try has a key and a salt of its own.
func TestW13_EachTryIsEncryptedAnew(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	to, err := recipientOf(w.browser.Target())
	storetest.Must(t, err)
	bodies := map[string]bool{}
	for range 10 {
		body, err := encrypt([]byte(payload), to)
		storetest.Must(t, err)
		bodies[string(body[:saltSize])], bodies[string(body[headerSize-pointLen:headerSize])] = true, true
	}
	if len(bodies) != 20 {
		t.Errorf("%d salts and keys of 20", len(bodies))
	}
}

// W4: everything that is wrong is told, with its entry and field, and the apps before stay.
func TestW4_EveryMistakeIsTold(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	dir := t.TempDir()
	key := func(name string, key any) string {
		file, err := exchangetest.WriteKey(dir, name, key)
		storetest.Must(t, err)
		return file
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 1024)
	storetest.Must(t, err)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	storetest.Must(t, err)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	storetest.Must(t, err)
	notPEM := filepath.Join(dir, "not.pem")
	storetest.Must(t, os.WriteFile(notPEM, []byte("secret"), 0o600))
	with := func(changes ...string) map[string]string {
		e := w.App(topic)
		for i := 0; i < len(changes); i += 2 {
			e[changes[i]] = changes[i+1]
		}
		return e
	}
	err = w.configure(
		with("topic", "a b", "public_key", "", "private_key_file", "", "subject", "", "ca_file", notPEM, "connect_to", "10.0.0.1:443"),
		with("private_key_file", key("rsa.pem", rsaKey)), with("private_key_file", key("p384.pem", p384)), with("private_key_file", key("other.pem", other)),
		with("private_key_file", notPEM), with("private_key_file", "gone.pem"), with("environment", "production"))
	if err == nil {
		t.Fatal("the file was taken")
	}
	for _, want := range []string{
		`apps[0]: topic: "a b" is no topic`, "apps[0]: public_key: must be set", "apps[0]: private_key_file: must be set", `apps[0]: subject: "" is neither`,
		"apps[0]: ca_file: no PEM certificate", "apps[0]: connect_to: 10.0.0.1 is in no network",
		"apps[1]: private_key_file: " + dir + "/rsa.pem has no key on P-256", "apps[2]: private_key_file: " + dir + "/p384.pem has no key on P-256",
		"apps[3]: public_key: is not the public key of private_key_file", "apps[4]: private_key_file: " + notPEM + " has neither a private key in PEM",
		"apps[5]: private_key_file: read key: open " + filepath.Join(filepath.Dir(w.file), "gone.pem"), `apps[6]: json: unknown field "environment"`,
		"apps[2]: the topic " + topic + " of webpush is there twice",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Errorf("shows a secret: %v", err)
	}
	w.mustDeliver(w.note())
	if err := w.failure("webpush:" + chrome); err != nil || w.Open() != 1 || len(w.sender.Apps()) != 5 {
		t.Errorf("%d connections, %v, apps %v", w.Open(), err, w.sender.Apps())
	}
}

// W13: the subject is a way to reach the operator.
func TestW13_Subjects(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]bool{
		"mailto:ops@example.com": true, "https://example.com/contact": true, "https://example.com": true,
		"": false, "mailto:": false, "mailto:ops": false, "mailto:Ops <ops@example.com>": false, "mailto:ops@localhost": false, "ops@example.com": false,
		"http://example.com": false, "https://": false, "https://localhost": false, "https://localhost:8080/x": false, "https://a.localhost": false, "https://LOCALHOST.": false,
		"https://u:p@example.com": false, "tel:1": false,
		// RFC 6761 and RFC 6762 reserve these, and Apple's service refuses them, as names without a dot.
		"mailto:ops@box.local": false, "mailto:ops@LOCAL.": false, "https://box.local/x": false, "mailto:ops@push.invalid": false, "https://shop.test": false,
		"mailto:ops@a.test.": false, "mailto:ops@box": false, "https://box": false, "https://box:8443/x": false, "mailto:ops@[127.0.0.1]": false, "https://127.0.0.1": false,
		"https://[::1]/": false, "https://10.0.0.1:8443": false, "mailto:ops@local.example.com": true, "mailto:ops@test.example": true, "https://localhost.example.com": true,
	} {
		if err := checkSubject(subject); (err == nil) != want {
			t.Errorf("%q: %v", subject, err)
		}
	}
}

// W4: an app that did not change keeps its connection and its tokens. One that is gone takes nothing. Pages
// get the key of the app that there is.
func TestW4_ReloadKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	w.mustDeliver(w.note())
	token := w.last().Token
	w.mustConfigure(w.App(topic), w.App("more"))
	w.mustDeliver(w.note())
	if w.Accepted() != 1 || w.last().Token != token {
		t.Errorf("%d connections, and the token is the same: %v", w.Accepted(), w.last().Token == token)
	}
	if key, ok := w.sender.PublicKey("more"); !ok || key != w.PublicKey() || !w.sender.Takes(&api.DeviceRequest{Topic: "more"}) || !w.sender.HasApps() {
		t.Errorf("the new app is not taken: %q %v", key, ok)
	}
	changed := w.App("more")
	changed["ca_file"] = ""
	w.mustConfigure(changed)
	storetest.Eventually(t, time.Minute, "the connection that no app uses is closed", func() bool { return w.Open() == 0 })
	if a := w.send(w.note()); a.Outcome != transport.NoApp || w.sender.Takes(&api.DeviceRequest{Topic: topic}) {
		t.Errorf("the app is still there: %+v", a)
	}
	if key, ok := w.sender.PublicKey(topic); ok {
		t.Errorf("its key is still there: %s", key)
	}
}

// W6: a notification that was accepted and is too large has no payload. It fails, and nothing is sent.
func TestW6_TooLargeIsNotSent(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	for _, size := range []int{0, maxPlain + 1} {
		n := w.note()
		n.Payload = []byte(strings.Repeat("x", size))
		if a := w.send(n); a.Outcome != transport.FailMessage || a.Reason != "payload_too_large" || w.Accepted() != 0 {
			t.Errorf("got %+v", a)
		}
	}
}

// MaySend is asked before each request, and withholds it.
func TestMaySendIsAskedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	n := w.note()
	n.MaySend = func() bool { return false }
	if a := w.send(n); a.Outcome != transport.NotSent || a.Err != transport.ErrMayNotSend || len(w.Requests()) != 0 {
		t.Errorf("got %+v", a)
	}
}

// A15 holds for Web Push: many at once to several hosts, each is sent once, over GOAWAY too.
func TestSendMany(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{MaxStreams: 20})
	var mu sync.Mutex
	n := 0
	w.Script(func(*webpushtest.Request) (a webpushtest.Answer) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n%200 == 0 {
			a.Fault = exchangetest.GoAway
		}
		return a
	})
	var browsers []*webpushtest.Browser
	for i := range 1000 {
		browsers = append(browsers, w.MustSubscribe(t, []string{chrome, "updates.push.services.mozilla.com", "web.push.apple.com"}[i%3]))
	}
	answers := make(chan transport.Answer, len(browsers))
	for _, b := range browsers {
		w.sender.Start(t.Context(), w.noteTo(b), func(a transport.Answer) { answers <- a })
	}
	for range browsers {
		if a := <-answers; a.Outcome != transport.Delivered {
			t.Fatalf("got %+v, refused %v", a, w.Refused())
		}
	}
	for _, b := range browsers {
		if n := len(w.Of(b)); n != 1 {
			t.Fatalf("a browser got %d", n)
		}
	}
	conns := map[string]map[string]bool{}
	for _, r := range w.Requests() {
		if conns[r.Host] == nil {
			conns[r.Host] = map[string]bool{}
		}
		conns[r.Host][r.Conn] = true
	}
	mu.Lock()
	defer mu.Unlock()
	for host, of := range conns {
		if len(of) > maxConns+n/200 {
			t.Errorf("%d connections to %s", len(of), host)
		}
	}
}

// W14: an answer that is cut off behind its status may lack what its service says beside that. The notification is sent again.
func TestW14_AnAnswerThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	for _, status := range []int{400, 403, 410} {
		w.Answers(webpushtest.Answer{Status: status, Fault: exchangetest.CutOff})
		if got := w.send(w.note()); got.Outcome != transport.Retry || got.Status != status {
			t.Errorf("%d: %+v", status, got)
		}
		w.mustDeliver(w.note())
	}
}

// A lost connection leaves the outcome unknown, and so does the end of the time.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]exchangetest.Fault{"Reset": exchangetest.Reset, "Drop": exchangetest.Drop, "Hang": exchangetest.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, webpushtest.Options{}, func(o *Options) { o.Timeout = 15 * time.Second })
			w.mustDeliver(w.note())
			w.Answers(webpushtest.Answer{Fault: fault})
			if a := w.send(w.note()); a.Outcome != transport.UnknownOutcome || len(w.Requests()) != 2 {
				t.Errorf("got %s %v", a.Outcome, a.Err)
			}
			w.mustDeliver(w.note())
		})
	}
}

// After Close nothing is sent.
func TestClosed(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	w.mustDeliver(w.note())
	storetest.Must(t, w.sender.Close())
	if a := w.send(w.note()); a.Outcome != transport.NotSent || len(w.Requests()) != 1 {
		t.Errorf("got %+v", a)
	}
}
