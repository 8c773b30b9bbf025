package targeting_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/apps"
	"fanfare/store/storetest"
)

// browsers is a pipeline whose users have browsers, with the real sender and a stand-in for the push services.
type browsers struct {
	*pipeline
	services *webpushtest.Server
	registry *prometheus.Registry
	of       map[string][]*webpushtest.Browser // by user
}

func withBrowsers(t *testing.T, change ...func(*delivery.Options)) *browsers {
	t.Helper()
	b := &browsers{services: webpushtest.Start(t, webpushtest.Options{}), registry: prometheus.NewRegistry(), of: map[string][]*webpushtest.Browser{}}
	sender := func(*pipeline) transport.Sender {
		s := webpush.New(webpush.Options{
			Settings: exchange.Settings{Timeout: time.Minute}, Origins: api.KnownPushOrigins, AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
		raw, err := json.Marshal(map[string]any{"apps": []any{b.services.App("shop")}})
		storetest.Must(t, err)
		file := filepath.Join(t.TempDir(), "apps.json")
		storetest.Must(t, os.WriteFile(file, raw, 0o600))
		storetest.Must(t, transport.Configure(s, "FANFARE_APPS_FILE", file))
		return s
	}
	b.pipeline = setup(t, options{sender: sender, delivery: func(o *delivery.Options) {
		o.PushOrigins = api.KnownPushOrigins
		o.Metrics = delivery.NewMetrics(b.registry, o.Sender.Reasons())
		for _, f := range change {
			f(o)
		}
	}})
	return b
}

// mustSubscribe registers a browser of a user at a host.
func (b *browsers) mustSubscribe(user, host string) *webpushtest.Browser {
	b.Helper()
	x := b.services.MustSubscribe(b, host)
	_, err := b.first.devices.PutBrowser(b.Context(), user, &api.BrowserRequest{Platform: "webpush", Topic: "shop", Subscription: x.Subscription}, api.Idempotency{})
	storetest.Must(b, err)
	b.of[user] = append(b.of[user], x)
	return x
}

// states are the states of a user's devices, in order, each once.
func (b *browsers) states(user string) string {
	list, err := b.first.devices.Devices(b.Context(), user)
	storetest.Must(b, err)
	var states []string
	for _, d := range list.Items {
		states = append(states, string(d.State))
	}
	slices.Sort(states)
	return strings.Join(slices.Compact(states), " ")
}

// mustBecome waits for the state of all devices of a user.
func (b *browsers) mustBecome(user string, want api.DeviceState) {
	b.Helper()
	storetest.Eventually(b, soon, "the devices of "+user+" to be "+string(want), func() bool { return b.states(user) == string(want) })
}

// refuse lets the services answer these users with a status, and all others with 201.
func (b *browsers) refuse(status int, body string, users ...string) {
	refused := map[*webpushtest.Browser]bool{}
	for _, user := range users {
		for _, x := range b.of[user] {
			refused[x] = true
		}
	}
	b.services.Script(func(r *webpushtest.Request) webpushtest.Answer {
		if refused[r.Browser] {
			return webpushtest.Answer{Status: status, Body: body}
		}
		return webpushtest.Answer{}
	})
}

func (b *browsers) mustSend(users ...string) *api.EventReport {
	b.Helper()
	return b.mustEnd(b.mustPost(hello(users...)), api.EventDone)
}

func (b *browsers) alarms(kind string) float64 {
	return counted(b.TB.(*testing.T), b.registry, "fanfare_alarms_total", kind)
}

func (b *browsers) paused() map[string]apps.App {
	state, err := apps.New(b.db, apps.Options{}).Apps(b.Context())
	storetest.Must(b, err)
	return state
}

const (
	chrome  = "fcm.googleapis.com"
	iphones = "web.push.apple.com"
	mozilla = "updates.push.services.mozilla.com"
)

// W14: a delivery between two refusals shows that the device works: they may be months apart. Two in a row drop it.
func TestW14_ADeliveryMakesASuspectDeviceActive(t *testing.T) {
	t.Parallel()
	for _, status := range []int{403, 404} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			b := withBrowsers(t)
			b.mustSubscribe("bob", mozilla)
			for range 3 {
				b.refuse(status, "", "bob")
				b.mustSend("bob")
				b.mustBecome("bob", api.DeviceSuspect)
				b.refuse(status, "")
				b.mustSend("bob")
				b.mustBecome("bob", api.DeviceActive)
			}
			b.refuse(status, "", "bob")
			for _, want := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} {
				b.mustSend("bob")
				b.mustBecome("bob", want)
			}
		})
	}
}

// W14: expired subscriptions are answered 404 (RFC 8030, 7.3). However many they are, they stop nothing: each is
// dropped at its second answer, and everybody else gets everything at once.
func TestW14_ExpiredSubscriptionsAreNoStorm(t *testing.T) {
	t.Parallel()
	b := withBrowsers(t)
	var all, ended []string
	for i := range 120 {
		user := fmt.Sprintf("u%03d", i)
		x := b.mustSubscribe(user, chrome)
		all = append(all, user)
		if i%2 == 0 {
			ended = append(ended, user)
			b.services.Expire(x)
		}
	}
	for _, want := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} {
		r := b.mustSend(all...)
		if r.Delivered != 60 || r.FailedBy["not_found"] != 60 {
			t.Errorf("the report is %+v", r)
		}
		for _, user := range ended {
			b.mustBecome(user, want)
		}
	}
	if r := b.mustSend(all...); r.Delivered != 60 || r.Suppressed.NoDevice != 60 {
		t.Errorf("the report is %+v", r)
	}
	if b.alarms("storm")+b.alarms("app_paused")+b.alarms("our_bug") != 0 || len(b.paused()) != 0 {
		t.Errorf("paused %v", b.paused())
	}
}

// W14: users choose the paths of endpoints. The refusals of one user's browsers wake nobody and leave no dead
// letters, and as others' are taken at the host, these devices are dropped.
func TestW14_OneUsersEndpointsWakeNobody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 405, 406, 411, 415, 418, 422, 451} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			b := withBrowsers(t)
			b.mustSubscribe("bob", chrome)
			for range 10 {
				b.mustSubscribe("mallory", chrome)
			}
			b.refuse(status, "", "mallory")
			for _, want := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} {
				b.mustSend("bob")
				if r := b.mustSend("mallory"); r.Failed != 10 {
					t.Errorf("the report is %+v", r)
				}
				b.mustBecome("mallory", want)
			}
			if b.states("bob") != "active" || b.alarms("our_bug") != 0 || len(b.paused()) != 0 {
				t.Errorf("bob is %s, %v alarms, paused %v", b.states("bob"), b.alarms("our_bug"), b.paused())
			}
		})
	}
}

// W14: if several users are refused so, fanfare may be at fault: an operator is told, and while the host takes
// nothing, no device pays for it.
func TestW14_RefusalsOfSeveralUsersAreToldAndCostNoDevice(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			b := withBrowsers(t)
			users := []string{"ann", "bob", "cid", "dan"}
			for _, user := range users {
				b.mustSubscribe(user, mozilla)
			}
			b.refuse(status, "", users...)
			for range 4 {
				b.mustSend(users...)
			}
			b.first.stop() // it ends when all states of devices are written
			for _, user := range users {
				if b.states(user) != "active" {
					t.Errorf("%s is %s", user, b.states(user))
				}
			}
			if b.alarms("our_bug") == 0 {
				t.Error("nobody was told")
			}
		})
	}
}

// W14: 401 says that the app's token is refused. It never costs a device, also if others' are taken.
func TestW14_401IsNeverTheDevicesFault(t *testing.T) {
	t.Parallel()
	b := withBrowsers(t)
	b.mustSubscribe("bob", mozilla)
	b.mustSubscribe("eve", mozilla)
	b.refuse(401, "", "eve")
	for range 4 {
		b.mustSend("bob", "eve")
	}
	b.first.stop()
	if b.states("eve") != "active" {
		t.Errorf("it is %s", b.states("eve"))
	}
}

// A13, W14: fewer than 50 users open no storm breaker. If several are refused and nobody gets anything, the app is
// likely to be at fault, and its devices stay.
func TestW14_AnAppsFaultCostsASmallAppNoDevices(t *testing.T) {
	t.Parallel()
	b := withBrowsers(t)
	var users []string
	for i := range 8 {
		users = append(users, fmt.Sprint("u", i))
		b.mustSubscribe(users[i], chrome)
	}
	b.refuse(403, "", users...)
	for range 4 {
		b.mustSend(users...)
	}
	b.refuse(403, "")
	// A device may have become suspect after the event to it was targeted: the next delivery makes it active.
	storetest.Eventually(t, soon, "all devices to be active", func() bool {
		if r := b.mustSend(users...); r.Delivered != 8 {
			t.Fatalf("the report is %+v", r)
		}
		return !slices.ContainsFunc(users, func(user string) bool { return b.states(user) != "active" })
	})
}

// W14: Apple's service says that it refuses the app's token. Its app is paused, no device pays for it, and the
// notifications are delivered when Apple takes the token. The app's other origins go on.
func TestW14_ApplesRefusalOfTheTokenPausesTheApp(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"BadJwtToken", "BadAuthorizationHeader"} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			b := withBrowsers(t)
			users := []string{"ann", "bob", "cid"}
			for _, user := range users {
				b.mustSubscribe(user, iphones)
			}
			b.mustSubscribe("dan", chrome)
			b.refuse(403, `{"reason":"`+reason+`"}`, users...)
			first, second := b.mustPost(hello(users...)), b.mustPost(hello(users...))
			storetest.Eventually(t, soon, "the app to be paused", func() bool {
				return strings.HasPrefix(b.paused()["shop/webpush:*.push.apple.com"].Reason, reason)
			})
			if r := b.mustSend("dan"); r.Delivered != 1 {
				t.Errorf("the report is %+v", r)
			}
			b.refuse(0, "")
			for _, id := range []string{first, second} {
				if r := b.mustEnd(id, api.EventDone); r.Delivered != 3 {
					t.Errorf("the report is %+v", r)
				}
			}
			for _, user := range users {
				b.mustBecome(user, api.DeviceActive)
			}
		})
	}
}

// W6: a notification that is too large for browsers fails while their app is paused, and is no probe of it, of which there is one in an hour.
func TestW6_TooLargeIsNoProbe(t *testing.T) {
	t.Parallel()
	b := withBrowsers(t, func(o *delivery.Options) { o.ProbeEvery = time.Hour })
	users := []string{"ann", "bob", "cid"}
	for _, user := range users {
		b.mustSubscribe(user, iphones)
	}
	b.refuse(403, `{"reason":"BadJwtToken"}`, users...)
	waits := b.mustPost(hello(users...))
	storetest.Eventually(t, soon, "the app to be paused", func() bool { return len(b.paused()) == 1 && b.parked() == 3 })
	large := hello(users...)
	large.Alert = &api.Alert{Title: "Large", Body: strings.Repeat("x", 3900)}
	if r := b.mustEnd(b.mustPost(large), api.EventDone); r.Failed != 3 || r.FailedBy["payload_too_large"] != 3 {
		t.Errorf("the report is %+v", r)
	}
	b.refuse(0, "")
	b.first.delivery.ProbeNow()
	if r := b.mustEnd(waits, api.EventDone); r.Delivered != 3 {
		t.Errorf("the report is %+v", r)
	}
}
