package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// android is a server with an app of APNs and one of FCM, both for com.example.app.
type android struct {
	*program
	apns *apnstest.Server
	fcm  *fcmtest.Server
	web  *webpushtest.Server // nil: there is no app of Web Push
	file string              // the apps file
}

func serveAndroid(t *testing.T, vars ...string) *android {
	t.Helper()
	a := androidFiles(t)
	a.program = mustServe(t, t.TempDir(), append(vars, a.vars()...)...)
	return a
}

// androidFiles starts the stand-ins for both, and writes the apps file.
func androidFiles(t *testing.T) *android {
	t.Helper()
	a := &android{apns: apnstest.Start(t, apnstest.Options{}), fcm: fcmtest.Start(t, fcmtest.Options{}), file: filepath.Join(t.TempDir(), "apps.json")}
	a.mustWriteApps(t, a.fcm.AccountFile())
	return a
}

// vars are the settings of a server with both apps.
func (a *android) vars() []string {
	return []string{"FANFARE_APPS_FILE=" + a.file, "FANFARE_APNS_CA_FILE=" + a.apns.CAFile()}
}

// mustWriteApps writes the apps file.
func (a *android) mustWriteApps(t *testing.T, account string) {
	t.Helper()
	apps := []map[string]string{
		{"topic": "com.example.app", "environment": "production", "url": a.apns.URL(), "key_file": a.apns.KeyFile(), "key_id": a.apns.KeyID(), "team_id": a.apns.TeamID()},
		{"platform": "fcm", "topic": "com.example.app", "url": a.fcm.URL(), "service_account_file": account, "ca_file": a.fcm.CAFile()},
	}
	if a.web != nil {
		apps = append(apps, a.web.App("com.example.app"))
	}
	text, err := json.Marshal(map[string]any{"apps": apps})
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(a.file, text, 0o600))
}

// fcmDevice is the n-th registration token.
func fcmDevice(n int) string { return fmt.Sprintf("cToken-%d_:APA91b-example", n) }

func (a *android) mustRegisterFCM(user string, n int, locale string) {
	a.t.Helper()
	a.must(201, nil, "PUT", "/v1/users/"+user+"/devices/"+fcmDevice(n), map[string]string{"platform": "fcm", "topic": "com.example.app", "locale": locale})
}

// mustPost posts an event and returns its id.
func (a *android) mustPost(event map[string]any) string {
	a.t.Helper()
	var accepted struct{ ID string }
	a.must(202, &accepted, "POST", "/v1/events", event)
	return accepted.ID
}

// mustEnd waits for the end of an event.
func (a *android) mustEnd(id string) (r report) {
	a.t.Helper()
	storetest.Eventually(a.t, time.Minute, "the event is done", func() bool {
		a.must(200, &r, "GET", "/v1/events/"+id, nil)
		return r.State == "done"
	})
	return r
}

// W1, W5, W7, W10: one event goes to the devices of APNs and FCM, to each as its platform shows it, with
// the texts of its locale, from SQL and from the cache. Each platform has its own metrics.
func TestW5_OneEventToAllPlatforms(t *testing.T) {
	t.Parallel()
	a := serveAndroid(t)
	a.must(201, nil, "PUT", "/v1/event-types/hello", map[string]any{
		"title": "Hello", "fcm": map[string]any{"notification": map[string]string{"icon": "bell"}}, "localized": map[string]any{"de": map[string]string{"title": "Hallo"}},
	})
	a.mustRegisterFor("bob", "com.example.app", 1)
	a.mustRegisterFCM("bob", 1, "de-AT")
	a.mustRegisterFCM("eve", 2, "")
	for range 2 {
		r := a.mustEnd(a.mustPost(map[string]any{"type": "hello", "audience": map[string]any{"users": []string{"bob", "eve"}}, "data": map[string]string{"album": "1"}}))
		if r.Notifications != 3 || r.Delivered != 3 || !maps.Equal(r.Platforms, map[string]counts{"apns": {Notifications: 1, Delivered: 1}, "fcm": {Notifications: 2, Delivered: 2}}) {
			t.Fatalf("%+v", r)
		}
	}
	for n, title := range map[int]string{1: "Hallo", 2: "Hello"} {
		sent := a.fcm.Of(fcmDevice(n))
		if len(sent) != 2 {
			t.Fatalf("device %d got %d messages: %v", n, len(sent), a.fcm.Refused())
		}
		var shown map[string]string
		storetest.Must(t, json.Unmarshal(sent[1].Message.Android.Notification, &shown))
		if d := sent[1].Message.Data; shown["title"] != title || shown["icon"] != "bell" || shown["tag"] != d["event_id"] || d["album"] != "1" || d["type"] != "hello" {
			t.Errorf("device %d got %s", n, sent[1].Raw)
		}
	}
	if n := len(a.apns.Of(deviceToken(1))); n != 2 {
		t.Errorf("the device of APNs got %d", n)
	}
	for series, want := range map[string]string{
		`fanfare_notifications_targeted_total{platform="apns"}`: "2", `fanfare_notifications_targeted_total{platform="fcm"}`: "4",
		`fanfare_apns_answers_total{outcome="delivered",platform="fcm",reason=""}`:      "4",
		`fanfare_notifications_ended_total{platform="fcm",reason="",state="delivered"}`: "4",
		`fanfare_event_to_answer_seconds_count{platform="fcm"}`:                         "4",
	} {
		storetest.Eventually(t, 20*time.Second, series+" to be "+want, func() bool { return a.metric(series) == want })
	}
	// A push type that only APNs has leaves out a user with devices of FCM alone. Voice calls have a topic of their
	// own, for which there is no app here.
	a.mustRegisterFor("bob", "com.example.app.voip", 3)
	a.must(201, nil, "PUT", "/v1/event-types/ring", map[string]any{"title": "x", "push_type": "voip"})
	r := a.mustEnd(a.mustPost(map[string]any{"type": "ring", "audience": map[string]any{"users": []string{"bob", "eve"}}}))
	if r.Notifications != 1 || r.Suppressed["no_device"] != 1 {
		t.Errorf("%+v", r)
	}
}

// W6: what FCM does not take is refused at POST once there is an app.
func TestW6_EventsAreCheckedForFCM(t *testing.T) {
	t.Parallel()
	a := serveAndroid(t)
	var no struct {
		Code     string
		Platform string
		Errors   []struct{ Field string }
	}
	event := greeting("bob")
	event["data"] = map[string]string{"from": "x", "type": "y", "album": "z"}
	a.must(422, &no, "POST", "/v1/events", event)
	if no.Code != "reserved_key" || len(no.Errors) != 2 || no.Errors[0].Field != "data.from" || no.Errors[1].Field != "data.type" {
		t.Errorf("%+v", no)
	}
	event["data"] = map[string]string{"album": strings.Repeat("z", 1900)}
	event["fcm"] = map[string]any{"notification": map[string]string{"x": strings.Repeat("x", 2000)}}
	event["alert"] = map[string]string{"title": "t", "body": strings.Repeat("b", 500)}
	a.must(422, &no, "POST", "/v1/events/batch", map[string]any{"events": []any{greeting("bob"), event}})
	if no.Code != "validation_failed" || no.Platform != "fcm" || no.Errors[0].Field != "events[1].payload" {
		t.Errorf("%+v", no)
	}
	p := mustServe(t, t.TempDir())
	p.must(202, nil, "POST", "/v1/events", event) // without an app of FCM
}

// W11: a device that FCM does not know is dropped, and registered again it gets everything.
func TestW11_UnregisteredDevicesAreDropped(t *testing.T) {
	t.Parallel()
	a := serveAndroid(t)
	a.mustRegisterFCM("bob", 1, "")
	a.fcm.Answers(fcmtest.Refuse(404, "UNREGISTERED"))
	if r := a.mustEnd(a.mustPost(greeting("bob"))); r.Failed != 1 || r.FailedBy["UNREGISTERED"] != 1 {
		t.Fatalf("%+v", r)
	}
	var list struct {
		Items []struct{ State, Reason string }
	}
	storetest.Eventually(t, time.Minute, "the device is dropped", func() bool {
		a.must(200, &list, "GET", "/v1/users/bob/devices", nil)
		return list.Items[0].State == "dropped" && list.Items[0].Reason == "UNREGISTERED"
	})
	if r := a.mustEnd(a.mustPost(greeting("bob"))); r.Suppressed["no_device"] != 1 {
		t.Errorf("%+v", r)
	}
	a.must(200, nil, "PUT", "/v1/users/bob/devices/"+fcmDevice(1), map[string]string{"platform": "fcm", "topic": "com.example.app"})
	if r := a.mustEnd(a.mustPost(greeting("bob"))); r.Delivered != 1 {
		t.Errorf("%+v", r)
	}
}

// W4, W11: a service account without the permission pauses its app, and only that. /readyz and the log say
// which permission is missing. After SIGHUP with another account everything arrives.
func TestW11_AMissingPermissionPausesTheApp(t *testing.T) {
	t.Parallel()
	a := serveAndroid(t, "FANFARE_APP_PROBE_INTERVAL=1h")
	a.mustRegisterFCM("bob", 1, "")
	a.mustRegisterFor("bob", "com.example.app", 1)
	const words = "Permission 'cloudmessaging.messages.create' denied"
	a.fcm.Script(func(*fcmtest.Request) fcmtest.Answer {
		return fcmtest.Answer{Status: 403, RPC: "PERMISSION_DENIED", Message: words}
	})
	id := a.mustPost(greeting("bob"))
	var ready struct {
		Dependencies []struct{ Name, State, Detail string }
	}
	storetest.Eventually(t, time.Minute, "the app is paused, with the reason", func() bool {
		a.must(200, &ready, "GET", "/readyz", nil)
		for _, d := range ready.Dependencies {
			if d.Name == "fcm" {
				return d.State == "degraded" && strings.Contains(d.Detail, "com.example.app/fcm is paused: PERMISSION_DENIED: "+words)
			}
		}
		return false
	})
	for _, d := range ready.Dependencies {
		if d.Name == "apns" && d.State != "ok" {
			t.Errorf("APNs is %s: %s", d.State, d.Detail)
		}
	}
	if !strings.Contains(a.stderr.String(), words) {
		t.Error("the log does not say which permission is missing")
	}
	a.apns.MustWait(t, 1, time.Minute) // APNs is not held up
	// A file with a mistake is not taken, and the right one is.
	a.mustWriteApps(t, "gone.json")
	_ = a.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, time.Minute, "a word about the broken file", func() bool { return strings.Contains(a.stderr.String(), "apps[1]: service_account_file:") })
	a.fcm.Script(nil)
	other, err := a.fcm.WriteAccount(t.TempDir(), "other.json")
	storetest.Must(t, err)
	a.mustWriteApps(t, other)
	_ = a.cmd.Process.Signal(syscall.SIGHUP)
	if r := a.mustEnd(id); r.Delivered != 2 {
		t.Errorf("%+v", r)
	}
}
