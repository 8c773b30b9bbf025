package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// translated are the requests to another platform as a ledger of APNs. A ledger is read again and again, and
// each request is translated once.
type translated struct {
	list  []apnstest.Request
	conns map[string]int
}

// add adds a request, without the time of its answer.
func (l *translated) add(e exchangetest.Entry, token, id string, payload []byte) {
	if l.conns == nil {
		l.conns = map[string]int{}
	}
	if l.conns[e.Conn] == 0 {
		l.conns[e.Conn] = len(l.conns) + 1
	}
	l.list = append(l.list, apnstest.Request{Token: token, ID: id, Payload: payload, Connection: l.conns[e.Conn], At: e.At})
}

// fcmLedger shows what FCM got as if it were a ledger of APNs: the tag in place of the apns-id, and the n-th
// device of FCM in place of the n-th of APNs.
type fcmLedger struct {
	*fcmtest.Server
	translated
}

func (l *fcmLedger) Requests() []apnstest.Request {
	all := l.Server.Requests()
	for _, r := range all[len(l.list):] {
		n, shown := 0, struct{ Tag string }{}
		_, _ = fmt.Sscanf(r.Message.Token, "cToken-%d_", &n)
		_ = json.Unmarshal(r.Message.Android.Notification, &shown)
		payload, _ := json.Marshal(map[string]string{"event_id": r.Message.Data["event_id"]})
		l.add(r.Entry, deviceToken(n), shown.Tag, payload)
	}
	for i, r := range all {
		l.list[i].Answered = r.Answered
	}
	return l.list
}

// everywhere are stand-ins for all platforms, and browsers.
type everywhere struct {
	*android
	browsers []*webpushtest.Browser
	number   map[*webpushtest.Browser]int
}

// standEverywhere starts the stand-ins for all platforms, with n browsers, and writes the apps file.
func standEverywhere(t *testing.T, n int) *everywhere {
	t.Helper()
	e := &everywhere{android: androidFiles(t), number: map[*webpushtest.Browser]int{}}
	e.web = webpushtest.Start(t, webpushtest.Options{})
	e.mustWriteApps(t, e.fcm.AccountFile())
	for i := range n {
		b := e.web.MustSubscribe(t, "fcm.googleapis.com")
		e.browsers, e.number[b] = append(e.browsers, b), i
	}
	return e
}

func (e *everywhere) vars() []string {
	return append(e.android.vars(), "FANFARE_WEBPUSH_ALLOW_NETS=127.0.0.0/8")
}

// webLedger shows what the browsers' push service got as if it were a ledger of APNs.
type webLedger struct {
	*everywhere
	translated
}

func (l *webLedger) Requests() []apnstest.Request {
	all := l.web.Requests()
	for _, r := range all[len(l.list):] {
		var shown struct{ Tag string }
		_ = json.Unmarshal(r.Payload, &shown)
		l.add(r.Entry, deviceToken(l.number[r.Browser]), shown.Tag, r.Payload)
	}
	for i, r := range all {
		l.list[i].Answered = r.Answered
	}
	return l.list
}

// mustRegister registers a device of each platform for each of user-0...n-1.
func (e *everywhere) mustRegister(p *program) {
	p.t.Helper()
	n := len(e.browsers)
	p.mustRegister(n)
	const batch = 250
	p.each((n+batch-1)/batch, func(i int) error {
		var list []map[string]any
		for k := i * batch; k < min((i+1)*batch, n); k++ {
			user := fmt.Sprint("user-", k)
			list = append(list, map[string]any{"user": user, "token": fcmDevice(k), "platform": "fcm", "topic": "com.example.app"},
				map[string]any{"user": user, "platform": "webpush", "topic": "com.example.app", "subscription": e.browsers[k].Subscription})
		}
		status, answer, err := p.try("POST", "/v1/devices/batch", map[string]any{"devices": list})
		if err == nil && status != 204 {
			err = fmt.Errorf("%d %s", status, answer)
		}
		return err
	})
}

// checkPlatforms waits until an event is done, and checks that its platforms have these numbers.
func checkPlatforms(t *testing.T, p *program, id string, want map[string]counts) {
	t.Helper()
	var r report
	storetest.Eventually(t, 2*time.Minute, "event "+id+" is done", func() bool {
		status, answer, err := p.try("GET", "/v1/events/"+id, nil)
		r = report{}
		return err == nil && status == 200 && json.Unmarshal(answer, &r) == nil && r.State == "done"
	})
	var sum counts
	for _, c := range r.Platforms {
		sum.Notifications += c.Notifications
		sum.Delivered += c.Delivered
		sum.Failed += c.Failed
		sum.Expired += c.Expired
		sum.Retrying += c.Retrying
	}
	if all := (counts{r.Notifications, r.Delivered, r.Failed, r.Expired, r.Retrying}); !maps.Equal(r.Platforms, want) || sum != all {
		t.Errorf("event %s: %+v", id, r)
	}
}

// W17, W7: servers get events to users with a device of each platform, while one of them is killed with kill
// -9 every second. Every device gets every event; repeats have the same apns-id or tag, and occur only in
// the window of A15. The reports count each platform once.
func TestW17_KilledEverySecondOnAllPlatforms(t *testing.T) {
	t.Parallel()
	n := storetest.Sized(10_000, 1000)
	a, redis := standEverywhere(t, n), storetest.Redis(t)
	f := &fleet{t: t, redis: redis, vars: quick(append(a.vars(), "FANFARE_REDIS_URL="+redis.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t))...)}
	f.servers = mustServeMany(t, storetest.Sized(5, 3), f.vars...)
	a.mustRegister(f.servers[0])
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	posts := &poster{n: n, batch: 20, pace: pace.C, servers: f.all}
	posts.start()
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for kills := 0; len(a.apns.Requests())+len(a.fcm.Requests())+len(a.web.Requests()) < 3*n && kills < 60; kills++ {
		<-every.C
		f.kill()
	}
	if err := <-posts.done; err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]ledger{"APNs": a.apns, "FCM": &fcmLedger{Server: a.fcm}, "Web Push": &webLedger{everywhere: a}} {
		t.Logf("%s: %d events, %d kills, %d repeats, all in the unknown window", name, n, len(f.faults), posts.checkLedger(t, l, f.faults...))
	}
	if no := slices.Concat(a.fcm.Refused(), a.web.Refused()); len(no) > 0 {
		t.Errorf("refused: %v", no)
	}
	each := counts{Notifications: 1, Delivered: 1}
	for _, id := range posts.ids {
		checkPlatforms(t, f.servers[0], id, map[string]counts{"apns": each, "fcm": each, "webpush": each})
	}
}

// W17: while FCM does not answer, refuses, or has paused its app, APNs and browsers get everything, also of
// events to devices of all three; and when FCM is well again, its devices get theirs.
func TestW17_APlatformHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, no := range map[string]fcmtest.Answer{
		"Hangs":   {Fault: exchangetest.Hang},
		"Refuses": {Status: 503, RPC: "UNAVAILABLE"},
		"Pauses":  {Status: 403, RPC: "PERMISSION_DENIED", Message: "no"},
		"Errs":    {Status: 500, RPC: "INTERNAL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := storetest.Sized(5000, 1200)
			a := standEverywhere(t, n)
			var well atomic.Bool
			a.fcm.Script(func(*fcmtest.Request) fcmtest.Answer {
				if well.Load() {
					return fcmtest.Answer{}
				}
				return no
			})
			f := &fleet{t: t, vars: append(a.vars(), "FANFARE_REDIS_URL="+storetest.Redis(t).URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t),
				"FANFARE_APP_PROBE_INTERVAL=1s", "FANFARE_MAX_ATTEMPTS=100", "FANFARE_RETRY_MAX=5s", "FANFARE_LOG_LEVEL=error")}
			f.servers = mustServeMany(t, 1, f.vars...)
			a.mustRegister(f.servers[0])
			posts := &poster{n: n, batch: 20, servers: f.all}
			posts.start()
			if err := <-posts.done; err != nil {
				t.Fatal(err)
			}
			posts.awaitAll(t, a.apns) // FCM has taken nothing yet that it answered
			posts.awaitAll(t, &webLedger{everywhere: a})
			well.Store(true)
			storetest.Eventually(t, 3*time.Minute, "FCM gets everything", func() bool {
				got := map[string]bool{}
				for _, r := range a.fcm.Requests() {
					if r.Taken && r.Status == 200 {
						got[r.Message.Token+r.Message.Data["event_id"]] = true
					}
				}
				return len(got) == n
			})
			each := counts{Notifications: 1, Delivered: 1}
			for i := 0; i < n; i += n / 10 {
				checkPlatforms(t, f.servers[0], posts.ids[i], map[string]counts{"apns": each, "fcm": each, "webpush": each})
			}
		})
	}
}

// N13: a test notification goes to one device of each platform, and to no other device of the user.
func TestN13_OnAllPlatforms(t *testing.T) {
	t.Parallel()
	e := standEverywhere(t, 2)
	p := mustServe(t, t.TempDir(), e.vars()...)
	e.mustRegister(p)
	path := "/v1/users/user-0/devices"
	p.must(204, nil, "PUT", "/v1/users/user-0/opt-outs/fanfare.test", nil)
	var list struct {
		Items []struct{ Token, Platform string }
	}
	p.must(200, &list, "GET", path, nil)
	if len(list.Items) != 3 {
		t.Fatalf("%+v", list)
	}
	for _, d := range list.Items {
		var a struct{ ID string }
		p.must(202, &a, "POST", path+"/"+d.Token+"/test", nil)
		checkPlatforms(t, p, a.ID, map[string]counts{d.Platform: {Notifications: 1, Delivered: 1}})
	}
	if a, f, w := len(e.apns.Requests()), len(e.fcm.Requests()), e.web.Requests(); a != 1 || f != 1 || len(w) != 1 || w[0].Browser != e.browsers[0] {
		t.Errorf("%d to APNs, %d to FCM, %d to browsers", a, f, len(w))
	}
}
