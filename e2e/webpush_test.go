package e2e

import (
	"testing"
	"time"

	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// W14, W15: fanfare knows no proxy of the environment. A browser that has unsubscribed is dropped, and the
// user's other browser, at another push service, gets everything.
func TestW14_ABrowserThatHasUnsubscribed(t *testing.T) {
	t.Parallel()
	services := webpushtest.Start(t, webpushtest.Options{})
	p := mustServe(t, t.TempDir(), append(pageVars(t, services), "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1")...)
	gone, stays := services.MustSubscribe(t, "web.push.apple.com"), services.MustSubscribe(t, "updates.push.services.mozilla.com")
	p.mustRegisterPage("bob", gone)
	p.mustRegisterPage("bob", stays)
	services.Unsubscribe(gone)
	end := func(id string) (r report) {
		storetest.Eventually(t, 3*time.Minute, "the event is done", func() bool {
			p.must(200, &r, "GET", "/v1/events/"+id, nil)
			return r.State == "done"
		})
		return r
	}
	if r := end(p.mustTell("bob", nil)); r.Delivered != 1 || r.FailedBy["gone"] != 1 {
		t.Fatalf("%+v, refused %v", r, services.Refused())
	}
	var list struct {
		Items []struct{ Token, State, Reason string }
	}
	storetest.Eventually(t, time.Minute, "the device is dropped", func() bool {
		p.must(200, &list, "GET", "/v1/users/bob/devices", nil)
		for _, d := range list.Items {
			if d.Token == gone.Token() {
				return d.State == "dropped" && d.Reason == "gone"
			}
		}
		return false
	})
	if r := end(p.mustTell("bob", nil)); r.Notifications != 1 || r.Delivered != 1 || len(services.Of(stays)) != 2 {
		t.Errorf("%+v", r)
	}
	var ready struct {
		Dependencies []struct{ Name, State string }
	}
	p.must(200, &ready, "GET", "/readyz", nil)
	states := map[string]string{}
	for _, d := range ready.Dependencies {
		states[d.Name] = d.State
	}
	if states["webpush"] != "ok" {
		t.Errorf("ready: %+v", states)
	}
	series := `fanfare_apns_answers_total{outcome="drop_device",platform="webpush",reason="gone"}`
	storetest.Eventually(t, 20*time.Second, series, func() bool { return p.metric(series) == "1" })
}
