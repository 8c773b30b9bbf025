package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// pageVars are the settings for an app of Web Push, shop.
func pageVars(t *testing.T, services *webpushtest.Server) []string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"apps": []any{services.App("shop")}})
	storetest.Must(t, err)
	file := filepath.Join(t.TempDir(), "apps.json")
	storetest.Must(t, os.WriteFile(file, text, 0o600))
	return []string{"FANFARE_APPS_FILE=" + file, "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8"}
}

// mustRegisterPage registers a browser as its page does.
func (p *program) mustRegisterPage(user string, b *webpushtest.Browser) {
	p.t.Helper()
	var device struct{ Token, Origin string }
	p.must(201, &device, "POST", "/v1/users/"+user+"/devices", map[string]any{"platform": "webpush", "topic": "shop", "subscription": b.Subscription})
	if device.Token != b.Token() || !strings.HasPrefix(b.Endpoint, device.Origin+"/") {
		p.t.Errorf("registered as %+v", device)
	}
}

// mustTell posts an event to a user and returns its id.
func (p *program) mustTell(user string, more map[string]any) string {
	p.t.Helper()
	event := greeting(user)
	for name, value := range more {
		event[name] = value
	}
	var accepted struct{ ID string }
	p.must(202, &accepted, "POST", "/v1/events", event)
	return accepted.ID
}

func (p *program) mustBeDelivered(id string) {
	p.t.Helper()
	storetest.Eventually(p.t, 3*time.Minute, "the event is delivered", func() bool {
		var r report
		p.must(200, &r, "GET", "/v1/events/"+id, nil)
		return r.State == "done" && r.Delivered == 1
	})
}

// W2, W4, W5: a page reads the key, registers its browser, and gets what an event shows. Neither the log nor any
// answer has its keys or its endpoint.
func TestW2_APageGetsAnEvent(t *testing.T) {
	t.Parallel()
	services := webpushtest.Start(t, webpushtest.Options{})
	p := mustServe(t, t.TempDir(), append(pageVars(t, services), "FANFARE_LOG_LEVEL=debug")...)
	var app struct{ Key string }
	p.must(200, &app, "GET", "/v1/webpush/shop/key", nil)
	if app.Key != services.PublicKey() {
		t.Errorf("the key is %s, want %s", app.Key, services.PublicKey())
	}
	b := services.MustSubscribe(t, "fcm.googleapis.com")
	p.mustRegisterPage("bob", b)
	id := p.mustTell("bob", map[string]any{"data": map[string]string{"album": "1"}, "webpush": map[string]any{"url": "/albums/1"}})
	p.mustBeDelivered(id)
	got := services.Of(b)
	if len(got) != 1 {
		t.Fatalf("%d messages; refused: %v", len(got), services.Refused())
	}
	var shown struct {
		Title, URL, Tag, Type string
		EventID               string `json:"event_id"`
		Data                  map[string]string
	}
	storetest.Must(t, json.Unmarshal(got[0].Payload, &shown))
	if shown.Title == "" || shown.URL != "/albums/1" || shown.Tag != id || shown.EventID != id || shown.Data["album"] != "1" {
		t.Errorf("the page got %s", got[0].Payload)
	}
	for _, secret := range []string{strings.TrimPrefix(b.Endpoint, "https://fcm.googleapis.com"), b.Keys.P256dh, b.Keys.Auth} {
		if strings.Contains(p.stderr.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
	// W6: what a page does not take is refused at POST.
	large := greeting("bob")
	large["data"] = map[string]string{"album": strings.Repeat("z", 1900)}
	large["webpush"] = map[string]any{"url": strings.Repeat("u", 2000)}
	large["alert"] = map[string]string{"title": "t", "body": strings.Repeat("b", 500)}
	var no struct{ Code, Platform string }
	p.must(422, &no, "POST", "/v1/events", large)
	if no.Code != "validation_failed" || no.Platform != "webpush" {
		t.Errorf("%+v", no)
	}
}

// W2, A15: a process is killed while push services have not answered. Another process sends again what was not
// recorded, under the same topic, and nothing else.
func TestW2_AKilledProcessLosesNoPage(t *testing.T) {
	t.Parallel()
	const browsers = 20
	services := webpushtest.Start(t, webpushtest.Options{})
	vars := append(pageVars(t, services), quick("FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)
	dying := mustServe(t, t.TempDir(), vars...)
	var all []*webpushtest.Browser
	for i := range browsers {
		b := services.MustSubscribe(t, []string{"fcm.googleapis.com", "updates.push.services.mozilla.com"}[i%2])
		all = append(all, b)
		dying.mustRegisterPage(fmt.Sprint("user-", i), b)
	}
	services.Script(func(r *webpushtest.Request) (a webpushtest.Answer) {
		if slices.Index(all, r.Browser) < browsers/2 {
			a.Fault = exchangetest.Hang
		}
		return a
	})
	var ids []string
	for i := range browsers {
		ids = append(ids, dying.mustTell(fmt.Sprint("user-", i), nil))
	}
	for _, id := range ids[browsers/2:] {
		dying.mustBeDelivered(id)
	}
	storetest.Eventually(t, time.Minute, "the others to be under way", func() bool { return len(services.Requests()) >= browsers })
	dying.kill()
	services.Script(nil)
	p := mustServe(t, t.TempDir(), vars...)
	for _, id := range ids {
		p.mustBeDelivered(id)
	}
	for i, b := range all {
		got := services.Of(b)
		if i >= browsers/2 && len(got) != 1 || i < browsers/2 && (len(got) < 2 || got[0].Topic != got[len(got)-1].Topic || !strings.Contains(string(got[len(got)-1].Payload), ids[i])) {
			t.Errorf("browser %d got %d messages; refused: %v", i, len(got), services.Refused())
		}
	}
}
