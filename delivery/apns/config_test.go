package apns

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// fileApp is one app of an apps file that sends to a stand-in by key.
func fileApp(s *apnstest.Server, topic string, env api.Environment) map[string]string {
	return map[string]string{
		"topic": topic, "environment": string(env), "url": s.URL(),
		"key_file": s.KeyFile(), "key_id": s.KeyID(), "team_id": s.TeamID(),
	}
}

// mustAppsFile writes an apps file.
func mustAppsFile(t testing.TB, file string, apps ...map[string]string) string {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"apps": apps})
	if err != nil {
		t.Fatal(err)
	}
	if file == "" {
		file = filepath.Join(t.TempDir(), "apps.json")
	}
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// noteFor is a notification for an app.
func noteFor(i int, topic string, env api.Environment) *transport.Notification {
	n := testNote(i)
	n.Topic, n.Environment = topic, env
	return n
}

// mustP12 writes a stand-in's client certificate as PKCS #12.
func mustP12(t testing.TB, s *apnstest.Server, password string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.CertFile(), s.CertFile())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := withLeaf(&pair)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pkcs12.Modern.Encode(cert.PrivateKey, cert.Leaf, nil, password)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "push.p12")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestA1_CertificateAuth(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	for name, app := range map[string]map[string]string{
		"PEM": {"cert_file": s.CertFile()},
		"p12": {"cert_file": mustP12(t, s, "secret"), "cert_password": "secret"},
	} {
		t.Run(name, func(t *testing.T) {
			app["topic"], app["environment"], app["url"] = "com.example."+name, "sandbox", s.URL()
			a := mustNew(t, Options{CAFile: s.CAFile()}, mustAppsFile(t, "", app))
			w := &world{Server: s, t: t, sender: a}
			w.Reset()
			w.mustDeliver(noteFor(1, app["topic"], api.EnvSandbox))
			if r := w.Requests()[0]; r.Bearer != "" {
				t.Fatalf("got %+v", r)
			}
			for i, answer := range w.sendManyTo(100, app["topic"], api.EnvSandbox) {
				if answer.Outcome != transport.Delivered {
					t.Fatalf("%d: %s %v", i, answer.Outcome, answer.Err)
				}
			}
		})
	}
}

func (w *world) sendManyTo(n int, topic string, env api.Environment) []transport.Answer {
	out := make([]transport.Answer, n)
	done := make(chan struct{})
	for i := range n {
		go func() {
			out[i] = w.send(noteFor(i, topic, env))
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	return out
}

func TestA1_URLs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		own, general string
		env          api.Environment
		want, addr   string
	}{
		{"", "", api.EnvProduction, "https://api.push.apple.com", "api.push.apple.com:443"},
		{"", "", api.EnvSandbox, "https://api.sandbox.push.apple.com", "api.sandbox.push.apple.com:443"},
		{"", "https://x:2197/", api.EnvSandbox, "https://x:2197", "x:2197"},
		{"https://[::1]:1", "https://x", api.EnvSandbox, "https://[::1]:1", "[::1]:1"},
	} {
		u, err := serverURL(row.own, row.general, row.env)
		if err != nil || u.String() != row.want || exchange.Address(u) != row.addr {
			t.Errorf("%v: got %v %v", row, u, err)
		}
	}
	for _, bad := range []string{"http://x", "x", "https://", "https://x/3/device", "https://u:p@x", "https://x?y", "://"} {
		if u, err := serverURL(bad, "", api.EnvProduction); err == nil {
			t.Errorf("%q became %v", bad, u)
		}
	}
}

// A server whose certificate is not signed by the trusted roots gets nothing.
func TestA1_ServerIsVerified(t *testing.T) {
	t.Parallel()
	s, other := apnstest.Start(t, apnstest.Options{}), apnstest.Start(t, apnstest.Options{})
	o := optionsFor(s)
	o.CAFile = other.CAFile()
	w := &world{Server: s, t: t, sender: mustNew(t, o)}
	if a := w.send(testNote(0)); a.Outcome != transport.NotSent || !strings.Contains(a.Err.Error(), "certificate") {
		t.Fatalf("got %s %v", a.Outcome, a.Err)
	}
}

// Two environments with one key at one address never share a connection.
func TestA7_EnvironmentsDoNotShareConnections(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	for i := range 200 {
		env := []api.Environment{api.EnvProduction, api.EnvSandbox}[i%2]
		w.mustDeliver(noteFor(i, "com.example."+string(env), env))
	}
	topic := make(map[int]string)
	for _, r := range w.Requests() {
		if was, ok := topic[r.Connection]; ok && was != r.Topic {
			t.Fatalf("connection %d carried %s and %s", r.Connection, was, r.Topic)
		}
		topic[r.Connection] = r.Topic
	}
	if len(topic) != 2 {
		t.Fatalf("%d connections", len(topic))
	}
}

// Two servers and three apps at the same time: each request goes to the server of its app.
func TestA7_NoRequestChangesAnothersHost(t *testing.T) {
	t.Parallel()
	one, two := apnstest.Start(t, apnstest.Options{}), apnstest.Start(t, apnstest.Options{})
	roots := filepath.Join(t.TempDir(), "roots.pem")
	var both []byte
	for _, s := range []*apnstest.Server{one, two} {
		raw, err := os.ReadFile(s.CAFile())
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, raw...)
	}
	if err := os.WriteFile(roots, both, 0o600); err != nil {
		t.Fatal(err)
	}
	file := mustAppsFile(t, "", fileApp(one, "one", api.EnvProduction), fileApp(two, "two", api.EnvProduction),
		fileApp(two, "one", api.EnvSandbox))
	w := &world{Server: one, t: t, sender: mustNew(t, Options{CAFile: roots}, file)}
	done := make(chan []transport.Answer)
	for _, app := range []struct {
		topic string
		env   api.Environment
	}{{"one", api.EnvProduction}, {"two", api.EnvProduction}, {"one", api.EnvSandbox}} {
		go func() { done <- w.sendManyTo(300, app.topic, app.env) }()
	}
	for range 3 {
		if got := outcomesOf(<-done); got[transport.Delivered] != 300 {
			t.Fatalf("got %v", got)
		}
	}
	for _, r := range one.Requests() {
		if r.Topic != "one" {
			t.Fatalf("the first server got %s", r.Topic)
		}
	}
	if one.Total() != 300 || two.Total() != 600 {
		t.Fatalf("the servers got %d and %d", one.Total(), two.Total())
	}
}

func TestA13_NoApp(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	a := mustNew(t, Options{CAFile: s.CAFile()}, mustAppsFile(t, "", fileApp(s, "one", api.EnvProduction)))
	w := &world{Server: s, t: t, sender: a}
	w.mustDeliver(noteFor(0, "one", api.EnvProduction))
	for _, n := range []*transport.Notification{noteFor(1, "two", api.EnvProduction), noteFor(1, "one", api.EnvSandbox)} {
		if got := w.send(n); got.Outcome != transport.NoApp {
			t.Errorf("%s: got %s", transport.AppOf(api.PlatformAPNs, n.Topic, string(n.Environment)), got.Outcome)
		}
		if a.Takes(&api.DeviceRequest{Topic: n.Topic, Environment: n.Environment}) {
			t.Errorf("%s: devices may register", transport.AppOf(api.PlatformAPNs, n.Topic, string(n.Environment)))
		}
	}
	if w.Total() != 1 {
		t.Fatalf("%d requests", w.Total())
	}
	general := mustNew(t, Options{CAFile: s.CAFile(), KeyFile: s.KeyFile(), KeyID: s.KeyID(), TeamID: s.TeamID()})
	for topic, sender := range map[string]*Sender{"one": a, "two": general} {
		if !sender.Takes(&api.DeviceRequest{Topic: topic, Environment: api.EnvProduction}) {
			t.Errorf("%s: devices may not register", topic)
		}
	}
}

// G1: the key of an app sends to its Live Activities, unless the file names another app for their topic.
func TestG1_TheKeyOfTheAppSendsToActivities(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	const live, own = "one.push-type.liveactivity", "two.push-type.liveactivity"
	a := mustNew(t, Options{CAFile: s.CAFile()}, mustAppsFile(t, "", fileApp(s, "one", api.EnvProduction), fileApp(s, "two", api.EnvProduction), fileApp(s, own, api.EnvProduction)))
	w := &world{Server: s, t: t, sender: a}
	for i, topic := range []string{live, own} {
		n := noteFor(i, topic, api.EnvProduction)
		n.PushType = api.PushLiveActivity
		w.mustDeliver(n)
	}
	apps := a.apps.Load()
	find := func(topic string) *app { return apps.find(topic, api.EnvProduction) }
	if find(live) != find("one") || find(own) == find("two") {
		t.Error("the wrong app sends")
	}
	byCertificate := mustNew(t, Options{CAFile: s.CAFile()}, mustAppsFile(t, "", map[string]string{"topic": "one", "environment": "production", "cert_file": s.CertFile()},
		map[string]string{"topic": own, "environment": "production", "cert_file": s.CertFile()}))
	if got := (&world{Server: s, t: t, sender: byCertificate}).send(noteFor(3, live, api.EnvProduction)); got.Outcome != transport.NoApp {
		t.Errorf("an app with a certificate: %s", got.Outcome)
	}
	if got := (&world{Server: s, t: t, sender: byCertificate}).send(noteFor(3, own, api.EnvProduction)); got.Outcome != transport.NoApp {
		t.Errorf("G7: a certificate that the file names for the topic: %s", got.Outcome)
	}
	if byCertificate.Takes(&api.DeviceRequest{Topic: own, Environment: api.EnvProduction}) {
		t.Error("G7: it takes activities")
	}
	for sender, takes := range map[*Sender]bool{a: true, byCertificate: false} {
		if sender.Takes(&api.DeviceRequest{Topic: live, Environment: api.EnvProduction}) != takes {
			t.Errorf("activities may be registered: %v, want %v", !takes, takes)
		}
	}
	for _, n := range []*transport.Notification{noteFor(3, live, api.EnvSandbox), noteFor(3, "three.push-type.liveactivity", api.EnvProduction), noteFor(3, "one.voip", api.EnvProduction)} {
		if got := w.send(n); got.Outcome != transport.NoApp {
			t.Errorf("%s: got %s", n.Topic, got.Outcome)
		}
	}
}

// TestA13_TopicsOfClientsPauseNothing: if APNs refuses a topic that only clients have named, the devices are at
// fault. A topic that the file names or that has delivered is paused, and so is the app of a refused key. Until
// the key has delivered something, it may be at fault itself, and the devices are spared.
func TestA13_TopicsOfClientsPauseNothing(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{Topics: []string{"one"}})
	file := mustAppsFile(t, "", fileApp(s, "two", api.EnvProduction))
	w := &world{Server: s, t: t, sender: mustNew(t, Options{
		URL: s.URL(), CAFile: s.CAFile(), KeyFile: s.KeyFile(), KeyID: s.KeyID(), TeamID: s.TeamID(),
	}, file)}
	refused := transport.Answer{Outcome: transport.SuspectDevice, Status: 400, Reason: transport.ReasonTopic}
	spared := refused
	spared.Spare = true
	paused := transport.Answer{Outcome: transport.PauseApp, Status: 400, Reason: "TopicDisallowed"}
	check := func(topic string, want transport.Answer) {
		t.Helper()
		got := w.send(noteFor(1, topic, api.EnvProduction))
		if got.Took = 0; got != want {
			t.Errorf("%s: got %+v, want %+v", topic, got, want)
		}
	}
	check("three", spared)
	w.mustDeliver(noteFor(0, "one", api.EnvProduction))
	check("three", refused)
	check("two", paused)
	storetest.Must(t, configure(w.sender, file)) // after a reload topic "one" still counts as one that has delivered
	for i := range 2 * maxTopics {               // made-up topics must not push a topic out that has delivered
		w.sender.apps.Load().find(deviceToken(i), api.EnvProduction)
	}
	check(deviceToken(2*maxTopics), refused)
	for _, reason := range []string{"TopicDisallowed", "BadTopic"} {
		s.ScriptAll(apnstest.Fail(400, reason))
		paused.Reason = reason
		check("one", paused)
	}
	s.ScriptAll(apnstest.Fail(403, "InvalidProviderToken"))
	check("one", transport.Answer{Outcome: transport.PauseApp, Status: 403, Reason: "InvalidProviderToken"})
}

func TestA13_Reload(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	file := mustAppsFile(t, "", fileApp(s, "one", api.EnvProduction))
	w := &world{Server: s, t: t, sender: mustNew(t, Options{CAFile: s.CAFile()}, file)}
	w.mustDeliver(noteFor(0, "one", api.EnvProduction))

	t.Run("an app more keeps the connection", func(t *testing.T) {
		mustAppsFile(t, file, fileApp(s, "one", api.EnvProduction), fileApp(s, "two", api.EnvProduction))
		storetest.Must(t, configure(w.sender, file))
		w.mustDeliver(noteFor(1, "two", api.EnvProduction))
		w.mustDeliver(noteFor(1, "one", api.EnvProduction))
		if s.Accepted() != 1 {
			t.Fatalf("%d connections for one key", s.Accepted())
		}
	})
	t.Run("a broken file keeps the old configuration and says so", func(t *testing.T) {
		bad := fileApp(s, "one", api.EnvProduction)
		bad["key_file"] = file
		for _, write := range []func(){
			func() { mustAppsFile(t, file, bad) },
			func() { mustAppsFile(t, file) },
			func() { _ = os.WriteFile(file, []byte(`{"apps": [`), 0o600) },
			func() { _ = os.Remove(file) },
		} {
			write()
			if err := configure(w.sender, file); err == nil || !strings.Contains(err.Error(), "FANFARE_APPS_FILE") {
				t.Fatalf("got %v", err)
			}
			w.mustDeliver(noteFor(2, "one", api.EnvProduction))
			w.mustDeliver(noteFor(2, "two", api.EnvProduction))
		}
	})
	t.Run("another key opens another connection and ends the old one", func(t *testing.T) {
		next := fileApp(s, "one", api.EnvProduction)
		next["key_file"] = s.OtherKeyFile()
		mustAppsFile(t, file, next)
		storetest.Must(t, configure(w.sender, file))
		if a := w.send(noteFor(3, "one", api.EnvProduction)); a.Reason != "InvalidProviderToken" {
			t.Fatalf("got %s", a.Reason)
		}
		if a := w.send(noteFor(3, "two", api.EnvProduction)); a.Outcome != transport.NoApp {
			t.Fatalf("got %s", a.Outcome)
		}
		storetest.Eventually(t, 20*time.Second, "the old connection ends", func() bool { return s.Connections() == 1 })
	})
}

// A reload under load neither loses nor repeats a request.
func TestA13_ReloadUnderLoad(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{TrackIDs: true, CountsOnly: true})
	done := make(chan []transport.Answer)
	go func() { done <- w.sendMany(0, 3000) }()
	for {
		select {
		case answers := <-done:
			if got := outcomesOf(answers); got[transport.Delivered] != 3000 {
				t.Fatalf("got %v", got)
			}
			if n, again := w.IDs(); n != 3000 || again != 0 {
				t.Fatalf("%d ids, %d again", n, again)
			}
			return
		case <-time.After(10 * time.Millisecond):
			storetest.Must(t, configure(w.sender, ""))
		}
	}
}

// The key of the variables is used for topics that the file does not name.
func TestA13_FileBeforeVariables(t *testing.T) {
	t.Parallel()
	s, own := apnstest.Start(t, apnstest.Options{}), apnstest.Start(t, apnstest.Options{})
	o := optionsFor(s)
	a := mustNew(t, o, mustAppsFile(t, "", fileApp(own, "one", api.EnvProduction)))
	w := &world{Server: s, t: t, sender: a}
	w.mustDeliver(noteFor(0, "two", api.EnvProduction))
	if got := w.send(noteFor(0, "one", api.EnvProduction)); got.Outcome != transport.NotSent { // its certificate is from another CA
		t.Fatalf("got %s", got.Outcome)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(a.Apps())), " "); got != "*/production */sandbox one/production two/production" {
		t.Fatalf("the apps are %s", got)
	}
}

// Every problem is reported at once, with what to correct.
func TestA13_EveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	change := func(k, v string) map[string]string {
		app := fileApp(s, "t"+k+v[:min(1, len(v))], api.EnvProduction)
		app[k] = v
		return app
	}
	file := mustAppsFile(t, "",
		change("topic", "{}"), change("environment", "test"), change("url", "http://x"), change("key_file", "nowhere.p8"),
		change("key_id", ""), change("cert_file", "x"), fileApp(s, "same", api.EnvSandbox), fileApp(s, "same", api.EnvSandbox))
	err := configure(New(Options{CAFile: file, KeyID: "K", KeyFile: "x", URL: "https://x"}), file)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"FANFARE_APNS_CA_FILE: no PEM certificate", "FANFARE_APNS_TEAM_ID: must be set",
		"apps[0]: topic:", "apps[1]: environment:", "apps[2]: url:",
		"apps[3]: key_file: read key: open " + filepath.Join(filepath.Dir(file), "nowhere.p8"),
		"apps[4]: key_id, team_id:", "apps[5]: key_file, cert_file:", "apps[7]: same/sandbox is there twice",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "apps[6]") {
		t.Errorf("a good app is blamed:\n%v", err)
	}
}

func TestA13_BadCertificates(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	for name, row := range map[string]struct {
		file, password, want string
		now                  time.Time
	}{
		"wrong password": {mustP12(t, s, "a"), "b", "PKCS #12", time.Now()},
		"no key":         {s.CAFile(), "", "read PEM", time.Now()},
		"expired":        {s.CertFile(), "", "expired on", time.Now().Add(1000 * 24 * time.Hour)},
		"no file":        {s.CertFile() + "x", "", "no such file", time.Now()},
		"another's key":  {mustPFX(t, s, false), "", "that of its key", time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := readCertificate(row.file, row.password, row.now); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// Clients choose topics, so topics must not fill the memory.
func TestTopicsAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	table := w.sender.apps.Load()
	for i := range 2 * maxTopics {
		if a := table.find(deviceToken(i), api.EnvProduction); a == nil || a.link != table.any[api.EnvProduction].link {
			t.Fatalf("topic %d has another app", i)
		}
	}
	if n := len(w.sender.Apps()); n != maxTopics+2 {
		t.Fatalf("%d apps", n)
	}
}

// mustPFX writes a PKCS #12 file whose first certificate is the server's, perhaps with the client's behind it, and
// the client's key.
func mustPFX(t testing.TB, s *apnstest.Server, own bool) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.CertFile(), s.CertFile())
	storetest.Must(t, err)
	other, err := tls.LoadX509KeyPair(filepath.Join(s.Dir(), "server.pem"), filepath.Join(s.Dir(), "server.pem"))
	storetest.Must(t, err)
	var behind []*x509.Certificate
	if own {
		behind = append(behind, pair.Leaf)
	}
	raw, err := pkcs12.Modern.Encode(pair.PrivateKey, other.Leaf, behind, "")
	storetest.Must(t, err)
	file := filepath.Join(t.TempDir(), "push.p12")
	storetest.Must(t, os.WriteFile(file, raw, 0o600))
	return file
}

// TestA1_CertificatesInAnyOrder: of the certificates in a file the one of the key is used.
func TestA1_CertificatesInAnyOrder(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	w := &world{Server: s, t: t, sender: mustNew(t, Options{CAFile: s.CAFile()}, mustAppsFile(t, "", map[string]string{
		"topic": "one", "environment": "production", "url": s.URL(), "cert_file": mustPFX(t, s, true),
	}))}
	w.mustDeliver(noteFor(1, "one", api.EnvProduction))
}

// TestA13_IDsWithBlanks: a key id or team id that cannot be one is refused, and named.
func TestA13_IDsWithBlanks(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	for field, value := range map[string]string{"key_id": s.KeyID() + " ", "team_id": s.TeamID() + "\n"} {
		app := fileApp(s, "one", api.EnvProduction)
		app[field] = value
		err := configure(New(Options{CAFile: s.CAFile()}), mustAppsFile(t, "", app))
		if want := strings.ReplaceAll(field, "_", " "); err == nil || !strings.Contains(err.Error(), "no "+want) {
			t.Errorf("%s %q: %v", field, value, err)
		}
	}
}
