package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// With real Redis, MariaDB and a stand-in for APNs, a posted event is in the stand-in's ledger
// within 1 s. The same holds with embedded parts. On a busy machine one of a few posts is enough.
func TestPostReachesAPNs(t *testing.T) {
	t.Parallel()
	t.Run("RealRedisAndMariaDB", func(t *testing.T) {
		t.Parallel()
		apns, dir := apnstest.Start(t, apnstest.Options{}), t.TempDir()
		vars := append(apns.Env(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))
		key := mustCreateKey(t, dir, "push", vars...)
		p := mustServe(t, dir, vars...)
		p.key = key
		checkPush(t, p, apns)
	})
	t.Run("Embedded", func(t *testing.T) {
		t.Parallel()
		apns := apnstest.Start(t, apnstest.Options{})
		checkPush(t, mustServe(t, t.TempDir(), apns.Env()...), apns)
	})
}

// mustCreateKey makes an API key on the command line.
func mustCreateKey(t testing.TB, dir, scopes string, vars ...string) string {
	t.Helper()
	code, out, errs := mustRun(t, dir, []string{"keys", "create", "--name", "test", "--scopes", scopes}, vars...)
	if code != 0 || !regexp.MustCompile(`^ff_\S+\n$`).MatchString(out) {
		t.Fatalf("keys create: exit %d, stdout %q, stderr %s", code, out, errs)
	}
	return strings.TrimSpace(out)
}

// checkPush registers a device, posts, and reads the stand-in's ledger.
func checkPush(t *testing.T, p *program, apns *apnstest.Server) {
	t.Helper()
	p.must(201, nil, "PUT", "/v1/event-types/photo.shared", map[string]any{
		"title": "New photo", "body": "{{.actor}} shared {{.data.album}}", "sound": "default", "ttl_seconds": 3600,
	})
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+strings.ToUpper(deviceToken(1)),
		map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
	const posts = 5
	best := time.Hour
	for n := 1; n <= posts && best > time.Second; n++ {
		var accepted struct{ ID string }
		began := time.Now()
		p.must(202, &accepted, "POST", "/v1/events", map[string]any{
			"type": "photo.shared", "actor": "alice", "object": "album:42", "data": map[string]string{"album": "Summer"},
			"audience": map[string]any{"users": []string{"bob", "alice", "carol"}},
		})
		apns.MustWait(t, n, 30*time.Second)
		got := apns.Of(deviceToken(1))
		if len(got) != n {
			t.Fatalf("the ledger holds %d requests for the token, not %d", len(got), n)
		}
		best = min(best, got[n-1].At.Sub(began))
		checkRequest(t, got[n-1], accepted.ID)
		checkReport(t, p, accepted.ID)
	}
	if best > time.Second {
		t.Errorf("the fastest of %d took %v from the post to APNs, want at most 1 s", posts, best)
	}
}

// checkRequest compares the request to APNs with the posted event.
func checkRequest(t *testing.T, r apnstest.Request, event string) {
	t.Helper()
	if r.Topic != "com.example.app" || r.PushType != "alert" || r.Priority != "10" {
		t.Errorf("topic %q, push type %q, priority %q", r.Topic, r.PushType, r.Priority)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(r.ID) {
		t.Errorf("apns-id %q is no lowercase UUIDv5", r.ID)
	}
	if r.CollapseID == "" || r.Expiration == "" {
		t.Errorf("collapse id %q, expiration %q", r.CollapseID, r.Expiration)
	}
	var payload, want any
	if err := json.Unmarshal(r.Payload, &payload); err != nil {
		t.Fatalf("payload %s: %v", r.Payload, err)
	}
	wanted := `{"aps":{"alert":{"title":"New photo","body":"alice shared Summer"},"sound":"default"},
		"event_id":"` + event + `","type":"photo.shared","object":"album:42","data":{"album":"Summer"}}`
	if err := json.Unmarshal([]byte(wanted), &want); err != nil {
		t.Fatal(err)
	}
	if a, b := mustJSON(t, payload), mustJSON(t, want); a != b {
		t.Errorf("payload\n%s, want\n%s", a, b)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// report is the answer of GET /v1/events/{id}.
type report struct {
	State                                                           string
	Recipients, Notifications, Delivered, Failed, Expired, Retrying int
	Suppressed                                                      map[string]int
	FailedBy                                                        map[string]int `json:"failed_by"`
	Platforms                                                       map[string]counts
}

// counts are the numbers of one platform in a report.
type counts struct{ Notifications, Delivered, Failed, Expired, Retrying int }

// checkReport waits until the event is done and compares its counts.
func checkReport(t *testing.T, p *program, event string) {
	t.Helper()
	var got report
	storetest.Eventually(t, 30*time.Second, "the report says done", func() bool {
		p.must(200, &got, "GET", "/v1/events/"+event, nil)
		return got.State == "done"
	})
	if got.Recipients != 3 || got.Notifications != 1 || got.Delivered != 1 || got.Failed+got.Expired+got.Retrying != 0 {
		t.Errorf("counts %+v", got)
	}
	if got.Suppressed["is_actor"] != 1 || got.Suppressed["no_device"] != 1 {
		t.Errorf("suppressed %v", got.Suppressed)
	}
}

// W4: with nothing configured, pages subscribe with a key that is made once, and what is said of it is said. With
// credentials there is no such app.
func TestW4_BrowsersCanBeTriedOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var first, second struct{ Key string }
	p := mustServe(t, dir, "FANFARE_LOG_FORMAT=text")
	p.must(200, &first, "GET", "/v1/webpush/web.example/key", nil)
	p.must(404, nil, "GET", "/v1/webpush/com.example.app/key", nil)
	var about api.About
	p.must(200, &about, "GET", "/v1/about", nil)
	if !slices.ContainsFunc(about.Settings, func(s api.Setting) bool {
		return s.Name == "FANFARE_APPS_FILE" && strings.Contains(s.Value, "fanfare.db.apps.json")
	}) {
		t.Errorf("about says %+v", about.Settings)
	}
	if said := p.stdout.String() + p.stderr.String(); !strings.Contains(said, "browsers can be tried out at /docs/webpush/") {
		t.Errorf("the start says\n%s", said)
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("it stopped with %d", code)
	}
	p = mustServe(t, dir, "FANFARE_LOG_FORMAT=text")
	if p.must(200, &second, "GET", "/v1/webpush/web.example/key", nil); first.Key == "" || first.Key != second.Key {
		t.Errorf("the key is %s, and after another start %s", first.Key, second.Key)
	}
	for _, file := range []string{"fanfare.db.apps.json", "fanfare.db.vapid.pem"} {
		if is, err := os.Stat(filepath.Join(dir, file)); err != nil || is.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", file, is, err)
		}
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("it stopped with %d", code)
	}
	p = mustServe(t, dir, "FANFARE_REDIS_URL="+storetest.Redis(t).URL())
	p.must(404, nil, "GET", "/v1/webpush/web.example/key", nil)
}

// D2: a dry run stores and sends nothing, and is not counted as accepted: APNs gets only the event that is posted after it.
func TestD2_DryRunsSendNothing(t *testing.T) {
	t.Parallel()
	apns := apnstest.Start(t, apnstest.Options{})
	p := mustServe(t, t.TempDir(), apns.Env()...)
	phone := map[string]string{"platform": "apns", "topic": apnstest.DefaultTopic, "environment": "production"}
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1), phone)
	phone["kind"], phone["object"] = "update", "match:7"
	p.must(201, nil, "PUT", "/v1/users/bob/activities/"+deviceToken(2), phone)
	update := map[string]any{"type": "match", "audience": map[string]string{"activities_of": "match:7"},
		"live": map[string]any{"action": "update", "content_state": map[string]int{"n": 1}}}
	for range 3 {
		for _, event := range []map[string]any{greeting("bob"), update} {
			var preview struct{ Payloads []any }
			p.must(200, &preview, "POST", "/v1/events?dry_run=true", event)
			if len(preview.Payloads) == 0 {
				t.Errorf("%v has no payload", event)
			}
		}
	}
	var accepted struct{ ID string }
	p.must(202, &accepted, "POST", "/v1/events", greeting("bob"))
	storetest.Eventually(t, time.Minute, "the event is done", func() bool {
		var got report
		p.must(200, &got, "GET", "/v1/events/"+accepted.ID, nil)
		return got.State == "done" && p.settled()
	})
	if got := apns.Requests(); len(got) != 1 || got[0].Token != deviceToken(1) || !strings.Contains(string(got[0].Payload), accepted.ID) {
		t.Errorf("APNs got %+v", got)
	}
	if n := p.metric("fanfare_events_accepted_total"); n != "1" {
		t.Errorf("%s events are counted as accepted", n)
	}
	var list struct{ Items []struct{ ID string } }
	p.must(200, &list, "GET", "/v1/events", nil)
	if len(list.Items) != 1 || list.Items[0].ID != accepted.ID {
		t.Errorf("the events are %+v", list.Items)
	}
	var match struct{ Last any }
	if p.must(200, &match, "GET", "/v1/live/match:7", nil); match.Last != nil {
		t.Errorf("the object's last event is %v", match.Last)
	}
}

// Without any configuration: embedded Redis, SQLite and the log sender.
func TestLogSender(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir(), "FANFARE_LOG_FORMAT=text")
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1),
		map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "sandbox"})
	var accepted struct{ ID string }
	p.must(202, &accepted, "POST", "/v1/events", greeting("bob"))
	storetest.Eventually(t, 30*time.Second, "the event is done", func() bool {
		var got report
		p.must(200, &got, "GET", "/v1/events/"+accepted.ID, nil)
		return got.State == "done" && got.Delivered == 1
	})
	said := p.stderr.String() + p.stdout.String()
	if !strings.Contains(said, deviceToken(1)[:8]) || strings.Contains(said, deviceToken(1)) || !strings.Contains(said, "for bob") {
		t.Errorf("the log of an open server shows too little or too much:\n%s", said)
	}
	dir := t.TempDir()
	p = mustServe(t, dir, "FANFARE_LOG_FORMAT=text")
	p.must(201, nil, "PUT", "/v1/users/bob/devices/"+deviceToken(1),
		map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "sandbox"})
	p.key = mustCreateKey(t, dir, "push")
	storetest.Eventually(t, 30*time.Second, "the server knows of the key", func() bool {
		anonymous := &program{base: p.base}
		status, _, err := anonymous.try("GET", "/v1/event-types", nil)
		return err == nil && status == 401
	})
	p.must(202, nil, "POST", "/v1/events", greeting("bob"))
	storetest.Eventually(t, 30*time.Second, "the notification", func() bool { return strings.Contains(p.stderr.String(), "title_length=") })
	if strings.Contains(p.stderr.String(), "for bob") {
		t.Error("the log of a server with a key shows texts")
	}
}
