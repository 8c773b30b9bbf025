package transport

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// service is a sender that names itself in every answer.
type service struct {
	name   string
	broken error
	closed int
	taken  []AppEntry
}

func (s *service) Start(_ context.Context, n *Notification, done func(Answer)) {
	done(Answer{Outcome: Delivered, Said: s.name + " " + n.ID})
}
func (s *service) Takes(r *api.DeviceRequest) bool { return r.Topic == s.name }
func (s *service) Apps() map[string]error          { return map[string]error{s.name: s.broken} }
func (s *service) Reasons() []string               { return []string{"Shared", s.name} }
func (s *service) Prepare(apps []AppEntry) (func(), error) {
	return func() { s.taken = apps }, s.broken
}
func (s *service) Close() error { s.closed++; return nil }

func TestSenders(t *testing.T) {
	t.Parallel()
	one, two := &service{name: "One"}, &service{name: "Two"}
	all := Senders{"one": one, "two": two}
	for _, r := range []api.DeviceRequest{{Platform: "one", Topic: "Two"}, {Platform: "three", Topic: "One"}} {
		if all.Takes(&r) {
			t.Errorf("%+v is taken", r)
		}
	}
	if !all.Takes(&api.DeviceRequest{Platform: "two", Topic: "Two"}) {
		t.Error("an app that is there is not taken")
	}
	for platform, want := range map[api.Platform]string{"one": "One 7", "two": "Two 7"} {
		if got := Await(t.Context(), all, &Notification{ID: "7", Platform: platform}); got.Said != want {
			t.Errorf("a notification of %s went to %q", platform, got.Said)
		}
	}
	for _, platform := range []api.Platform{"", "three"} {
		if got := Await(t.Context(), all, &Notification{ID: "7", Platform: platform}); got.Outcome != NoApp || got.Err == nil {
			t.Errorf("platform %q without a sender: %+v", platform, got)
		}
	}
	if apps := all.Apps(); !maps.Equal(apps, map[string]error{"One": nil, "Two": nil}) {
		t.Errorf("apps %v", apps)
	}
	if got := all.Reasons(); !slices.Equal(got, []string{"One", "Shared", "Two"}) {
		t.Errorf("reasons %v", got)
	}
	if err := all.Close(); err != nil || one.closed != 1 || two.closed != 1 {
		t.Errorf("closing: %v, %d and %d times", err, one.closed, two.closed)
	}
}

// W4: each app has a name of its own.
func TestW4_NamesOfApps(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"shop/production":                 AppOf(api.PlatformAPNs, "shop", "production"),
		"shop/sandbox":                    AppOf(api.PlatformAPNs, "shop", "sandbox"),
		"shop/fcm":                        AppOf(api.PlatformFCM, "shop", ""),
		"shop/webpush:fcm.googleapis.com": AppOf(api.PlatformWebPush, "shop", "fcm.googleapis.com"),
		"shop/webpush:*.push.apple.com":   AppOf(api.PlatformWebPush, "shop", "*.push.apple.com"),
	} {
		if got != want {
			t.Errorf("%s is called %s", want, got)
		}
		platform := api.PlatformAPNs
		if place := strings.TrimPrefix(got, "shop/"); place == "fcm" {
			platform = api.PlatformFCM
		} else if strings.HasPrefix(place, "webpush:") {
			platform = api.PlatformWebPush
		}
		if p := PlatformOfApp(got); p != platform {
			t.Errorf("%s is an app of %s", got, p)
		}
	}
}

// W4: the apps file is taken as a whole or not at all, and every mistake is told, whichever sender
// finds it.
func TestW4_AllOfTheAppsFileOrNothing(t *testing.T) {
	t.Parallel()
	apns, fcm := &service{name: "apns"}, &service{name: "fcm"}
	senders := Senders{api.PlatformAPNs: apns, api.PlatformFCM: fcm}
	file := filepath.Join(t.TempDir(), "apps.json")
	configure := func(text string) error {
		storetest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return Configure(senders, "FANFARE_APPS_FILE", file)
	}
	storetest.Must(t, configure(`{"apps": [{"topic": "a"}, {"platform": "fcm", "topic": "f"}, {"platform": "apns", "topic": "b"}]}`))
	if len(apns.taken) != 2 || len(fcm.taken) != 1 {
		t.Fatalf("apns has %d apps, fcm %d", len(apns.taken), len(fcm.taken))
	}
	var app struct{ Platform, Topic string }
	if err := fcm.taken[0].Decode(&app); err != nil || app.Topic != "f" || fcm.taken[0].Path("key") != filepath.Join(filepath.Dir(file), "key") {
		t.Errorf("%+v, %v", app, err)
	}
	before := fcm.taken
	for text, want := range map[string][]string{
		`{"apps": [{"platform": "pigeon"}, 7, {"platform": 7}, {"platform": "fcm"}]}`: {
			`apps[0]: platform: there is no sender for "pigeon", only for [apns fcm]`, "apps[1]: json:", "apps[2]: json:",
		},
		`{"apps": []}`: {"no apps"}, `{"app": []}`: {"unknown field"}, `{"apps": [{}]} {}`: {"more than one JSON value"}, `{`: {"EOF"},
	} {
		err := configure(text)
		for _, part := range append(want, "FANFARE_APPS_FILE: "+file) {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, without %q", text, err, part)
			}
		}
	}
	// One sender alone finds a mistake, and then both.
	for _, broken := range []*service{fcm, apns} {
		broken.broken = errors.New("no key of " + broken.name)
		err := configure(`{"apps": [{"platform": "pigeon"}]}`)
		for _, s := range []*service{apns, fcm} {
			if s.broken != nil && (err == nil || !strings.Contains(err.Error(), s.broken.Error())) {
				t.Errorf("%v, without %q", err, s.broken)
			}
		}
		if err == nil || !strings.Contains(err.Error(), "pigeon") {
			t.Errorf("%v, without the entry", err)
		}
	}
	if len(apns.taken) != 2 || len(fcm.taken) != 1 || &fcm.taken[0] != &before[0] {
		t.Errorf("a part of a broken file was taken: %d and %d apps", len(apns.taken), len(fcm.taken))
	}
}
