package transport

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"fanfare/api"
)

// service is a sender that names itself in every answer.
type service struct {
	name   string
	broken error
	closed int
}

func (s *service) Send(_ context.Context, n *Notification) Answer {
	return Answer{Outcome: Delivered, ID: s.name + " " + n.ID}
}
func (s *service) Takes(r *api.DeviceRequest) bool { return r.Topic == s.name }
func (s *service) Apps() []AppState                { return []AppState{{App: s.name}} }
func (s *service) Reasons() []string               { return []string{"Shared", s.name} }
func (s *service) Reload() error                   { return s.broken }
func (s *service) Close() error                    { s.closed++; return nil }

func TestSenders(t *testing.T) {
	t.Parallel()
	one, two := &service{name: "One"}, &service{name: "Two", broken: errors.New("no such file")}
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
		for way, got := range bothWays(all, &Notification{ID: "7", Platform: platform}) {
			if got.ID != want {
				t.Errorf("%s: a notification of %s went to %q", way, platform, got.ID)
			}
		}
	}
	for _, platform := range []api.Platform{"", "three"} {
		for way, got := range bothWays(all, &Notification{ID: "7", Platform: platform}) {
			if got.Outcome != NoApp || got.Err == nil {
				t.Errorf("%s: platform %q without a sender: %+v", way, platform, got)
			}
		}
	}
	if apps := all.Apps(); len(apps) != 2 || apps[0].App != "One" || apps[1].App != "Two" {
		t.Errorf("apps %v", apps)
	}
	if got := all.Reasons(); !slices.Equal(got, []string{"One", "Shared", "Two"}) {
		t.Errorf("reasons %v", got)
	}
	if err := all.Reload(); err == nil || !strings.HasPrefix(err.Error(), "two: no such file") {
		t.Errorf("reloading: %v", err)
	}
	if err := all.Close(); err != nil || one.closed != 1 || two.closed != 1 {
		t.Errorf("closing: %v, %d and %d times", err, one.closed, two.closed)
	}
}

// bothWays sends with Send and with Start.
func bothWays(s Sender, n *Notification) map[string]Answer {
	done := make(chan Answer, 1)
	Start(context.Background(), s, n, func(a Answer) { done <- a })
	return map[string]Answer{"Send": s.Send(context.Background(), n), "Start": <-done}
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
	}
}
