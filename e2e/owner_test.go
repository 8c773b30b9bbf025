package e2e

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/store/storetest"
)

// P4: a retried dead letter, however old, is sent only if its device still belongs to the same user
// on record. The guard of the token has expired by then.
func TestP4_RetriedDeadLetterChecksTheOwner(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]struct {
		change    func(p *program) // the change of the device
		delivered int
		topic     string // topic of the notification that is sent
	}{
		"StillTheUsers":  {func(*program) {}, 1, "com.example.app"},
		"AnotherUsers":   {func(p *program) { p.mustMove("eve", "com.example.app") }, 0, ""},
		"Removed":        {func(p *program) { p.must(204, nil, "DELETE", "/v1/users/bob/devices/"+deviceToken(1), nil) }, 0, ""},
		"AnotherAppsNow": {func(p *program) { p.mustMove("bob", "com.example.other") }, 1, "com.example.other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := deadLetterOf(t)
			now.change(w.p)
			w.mustRetry()
			storetest.Eventually(t, 30*time.Second, "the event is done", func() bool {
				got := w.report()
				return got.State == "done" && got.Delivered == now.delivered && got.Failed == 1-now.delivered
			})
			if sent := w.apns.Total() - 1; sent != now.delivered {
				t.Errorf("%d requests after the retry, want %d", sent, now.delivered)
			}
			for _, r := range w.apns.Requests()[1:] {
				if r.Topic != now.topic {
					t.Errorf("it went out for %s, want %s", r.Topic, now.topic)
				}
			}
			gone := w.p.metric(`fanfare_notifications_ended_total{platform="apns",reason="device_gone",state="failed"}`)
			if want := fmt.Sprint(1 - now.delivered); gone != want && (gone != "" || want != "0") {
				t.Errorf("%s ended as device_gone, want %s", gone, want)
			}
		})
	}
}

// P4: a retried dead letter waits while the owner of its device cannot be read.
func TestP4_RetriedDeadLetterWaitsForSQL(t *testing.T) {
	t.Parallel()
	w := deadLetterOf(t)
	w.p.mustMove("eve", "com.example.app")
	w.sql.Cut()
	storetest.Eventually(t, 20*time.Second, "SQL is away", func() bool { return sqlState(w.p) == "down" })
	w.mustRetry()
	storetest.Eventually(t, 30*time.Second, "it is retrying", func() bool { return w.report().Retrying == 1 })
	w.sql.Mend()
	storetest.Eventually(t, 60*time.Second, "it has failed", func() bool { return w.report().Failed == 1 })
	if sent := w.apns.Total() - 1; sent != 0 {
		t.Errorf("%d requests after the retry", sent)
	}
}

// P4: a notification that waited is checked again when it is sent.
func TestP4_WaitingNotificationChecksTheOwner(t *testing.T) {
	t.Parallel()
	apns, r := apnstest.Start(t, apnstest.Options{}), storetest.Redis(t)
	p := mustServe(t, t.TempDir(), parkingVars(apns, r.URL(), storetest.MySQL(t))...)
	p.mustRegister(2)
	posted := time.Now()
	ids := p.mustPause(apns, 2)
	p.must(201, nil, "PUT", "/v1/users/eve/devices/"+deviceToken(1),
		map[string]string{"platform": "apns", "topic": "com.example.app", "environment": "production"})
	storetest.Eventually(t, 10*time.Second, "more than a second to pass", func() bool { return time.Since(posted) > 2*time.Second })
	apns.ScriptAll()
	apns.Reset()
	p.signal(syscall.SIGHUP)
	storetest.Eventually(t, 30*time.Second, "both events are done", func() bool {
		var stays, moved report
		p.must(200, &stays, "GET", "/v1/events/"+ids[0], nil)
		p.must(200, &moved, "GET", "/v1/events/"+ids[1], nil)
		return stays.State == "done" && stays.Delivered == 1 && moved.State == "done" && moved.Failed == 1
	})
	if sent := apns.Of(deviceToken(1)); len(sent) != 0 {
		t.Errorf("eve's phone got %s", sent[0].Payload)
	}
}

// mustForgetOwners removes the guards of all tokens and the cached settings of users.
func mustForgetOwners(t testing.TB, r *storetest.RedisServer) {
	t.Helper()
	for _, pattern := range []string{"ff:*:guard:*", "ff:{u:*}:settings"} {
		keys, err := r.Client().Keys(t.Context(), pattern).Result()
		if err == nil && len(keys) > 0 {
			err = r.Client().Del(t.Context(), keys...).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// letter is a set-up with one dead letter for bob's device.
type letter struct {
	p     *program
	apns  *apnstest.Server
	redis *storetest.RedisServer
	sql   *storetest.Proxy
	event string
}

// deadLetterOf makes the set-up: APNs refuses the notification for good, and accepts everything
// afterwards.
func deadLetterOf(t *testing.T) *letter {
	t.Helper()
	w := &letter{apns: apnstest.Start(t, apnstest.Options{}), redis: storetest.Redis(t)}
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	w.sql = proxy
	w.p = mustServe(t, t.TempDir(), append(w.apns.Env(), "FANFARE_REDIS_URL="+w.redis.URL(), "FANFARE_RETRY_MAX=1s",
		"FANFARE_DATABASE_URL="+url)...)
	w.p.mustRegisterFor("bob", "com.example.app", 1)
	w.apns.ScriptAll(apnstest.Fail(http.StatusBadRequest, "BadPriority"))
	var accepted struct{ ID string }
	w.p.must(202, &accepted, "POST", "/v1/events", greeting("bob"))
	w.event = accepted.ID
	storetest.Eventually(t, 30*time.Second, "the event has failed", func() bool { return w.report().Failed == 1 })
	w.apns.ScriptAll()
	return w
}

// mustMove registers bob's device for a user and an app.
func (p *program) mustMove(user, topic string) {
	p.t.Helper()
	status, answer, err := p.try("PUT", "/v1/users/"+user+"/devices/"+deviceToken(1),
		map[string]string{"platform": "apns", "topic": topic, "environment": "production"})
	if err != nil || status/100 != 2 {
		p.t.Fatalf("register: %d %s %v", status, answer, err)
	}
}

func (w *letter) report() report {
	w.p.t.Helper()
	var got report
	w.p.must(200, &got, "GET", "/v1/events/"+w.event, nil)
	return got
}

// mustRetry retries the dead letter after the guard of its token and the cached settings have
// expired.
func (w *letter) mustRetry() {
	t := w.p.t
	t.Helper()
	mustForgetOwners(t, w.redis)
	var list struct{ Items []struct{ ID, Kind string } }
	w.p.must(200, &list, "GET", "/v1/dead-letters", nil)
	if len(list.Items) != 1 || list.Items[0].Kind != "notification" {
		t.Fatalf("dead letters %+v", list.Items)
	}
	w.p.must(202, nil, "POST", "/v1/dead-letters/"+list.Items[0].ID+"/retry", nil)
}
