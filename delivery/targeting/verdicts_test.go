package targeting_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
	"fanfare/store/storetest"
)

// mustSuspect makes the n-th device of a user suspect.
func (p *pipeline) mustSuspect(user string, n int) {
	p.Helper()
	p.mustDevice(user, n)
	storetest.Must(p, p.first.devices.MarkSuspect(p.Context(), token(n), "BadDeviceToken", p.device(user, n).RegisteredAt))
}

// A refusal counts for the present registration and not for an earlier one: a device that was
// suspect when it was targeted, and was registered again since, is suspect and not dropped after
// its first refusal.
func TestRefusalsCountSinceTheLastRegistration(t *testing.T) {
	t.Parallel()
	refused := transport.Answer{Outcome: transport.SuspectDevice, Status: 400, Reason: "BadDeviceToken"}
	p, _ := answering(t, options{idle: true, waits: true}, refused)
	p.mustSuspect("bob", 1)
	id := p.mustPost(hello("bob"))
	p.mustTargetAll(id, 1)
	p.mustDevice("bob", 1)
	if d := p.device("bob", 1); d.State != api.DeviceActive {
		t.Fatalf("registered again: %+v", d)
	}
	p.first.start()
	p.mustCounts(p.mustEnd(id, api.EventDone), counts{1, 1, 0, 1, 0})
	p.first.stop() // it ends when all states of devices are written
	if d := p.device("bob", 1); d.State != api.DeviceSuspect {
		t.Errorf("device %+v", d)
	}
}

// The storm breaker needs 50 users. Of devices that were suspect before, a process drops at most 49
// before the breaker opens, and none afterwards, whatever else is under way.
func TestStormKeepsSuspectDevices(t *testing.T) {
	t.Parallel()
	const n, most = 120, 49
	var all sync.WaitGroup
	all.Add(n)
	answer := func(*transport.Notification) transport.Answer {
		all.Done()
		all.Wait() // all are sent before the first answer
		return transport.Answer{Outcome: transport.SuspectDevice, Status: 400, Reason: "BadDeviceToken"}
	}
	p := setup(t, options{idle: true, sender: func(*pipeline) transport.Sender { return &scripted{answer: answer} }})
	users := make([]string, n)
	for i := range users {
		users[i] = fmt.Sprintf("u%03d", i)
		p.mustSuspect(users[i], i)
	}
	p.first.start()
	p.mustEnd(p.mustPost(hello(users...)), api.EventDone)
	state, err := apps.New(p.db, apps.Options{}).Apps(t.Context())
	storetest.Must(t, err)
	if app := state[transport.AppOf(api.PlatformAPNs, apnstest.DefaultTopic, "production")]; app.State != apps.Paused {
		t.Errorf("the app is %+v", app)
	}
	p.first.stop() // it ends when all states of devices are written
	dropped := 0
	for i, user := range users {
		if p.device(user, i).State == api.DeviceDropped {
			dropped++
		}
	}
	if dropped > most {
		t.Errorf("%d of %d devices were dropped, want at most %d", dropped, n, most)
	}
}

// One user may register 50 invented tokens. The user counts once, and the notifications of other
// users do not wait.
func TestOneUserPausesNoApp(t *testing.T) {
	t.Parallel()
	answer := func(n *transport.Notification) transport.Answer {
		if n.Token == token(0) {
			return transport.Answer{Outcome: transport.Delivered, Status: 200}
		}
		return transport.Answer{Outcome: transport.SuspectDevice, Status: 400, Reason: "BadDeviceToken"}
	}
	p := setup(t, options{sender: func(*pipeline) transport.Sender { return &scripted{answer: answer} }})
	p.mustDevice("bob", 0)
	for i := range 50 {
		p.mustDevice("mallory", 1+i)
	}
	for _, state := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} { // none of them counts for a storm
		p.mustEnd(p.mustPost(hello("mallory")), api.EventDone)
		storetest.Eventually(t, soon, "the made-up devices to be "+string(state), func() bool {
			for i := range 50 {
				if p.device("mallory", 1+i).State != state {
					return false
				}
			}
			return true
		})
		p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
	}
	state, err := apps.New(p.db, apps.Options{}).Apps(t.Context())
	storetest.Must(t, err)
	if len(state) > 0 {
		t.Errorf("one user's tokens paused %+v", state)
	}
}

// TestA13_MadeUpTopicsPauseNothing: with a key for all topics, two accounts register devices under thousands of
// topics that nobody has. Their notifications fail, and the devices are suspect, then dropped. No app is
// paused, nothing is kept in Redis, and nobody is woken.
func TestA13_MadeUpTopicsPauseNothing(t *testing.T) {
	t.Parallel()
	const users = 60
	registry := prometheus.NewRegistry()
	p := setup(t, options{apns: apnstest.Options{Topics: []string{apnstest.DefaultTopic}}, delivery: func(o *delivery.Options) {
		o.Metrics = delivery.NewMetrics(registry, apns.New(apns.Options{}).Reasons())
	}})
	p.mustDevice("bob", 0)
	p.mustEnd(p.mustPost(hello("bob")), api.EventDone)
	names := make([]string, users)
	var list []api.DeviceEntry
	for i := range users {
		names[i] = fmt.Sprintf("mallory%d", i)
		for n := range 40 {
			list = append(list, api.DeviceEntry{
				User: names[i], Token: token(1000 + 100*i + n), Platform: "apns", Topic: fmt.Sprintf("made.up.%d.%d", i, n), Environment: api.EnvProduction,
			})
		}
	}
	for part := range slices.Chunk(list, api.MaxDeviceBatch) {
		_, err := p.first.devices.PutDevices(t.Context(), part, api.Idempotency{})
		storetest.Must(t, err)
	}
	refused := func(to ...string) {
		r := p.mustEnd(p.mustPost(hello(to...)), api.EventDone)
		if n := int64(40 * len(to)); r.Failed != n || r.FailedBy[transport.ReasonTopic] != n {
			t.Errorf("the report is %+v", r)
		}
	}
	for _, state := range []api.DeviceState{api.DeviceSuspect, api.DeviceDropped} {
		refused(names[0])
		storetest.Eventually(t, soon, "the devices to be "+string(state), func() bool {
			devices, err := p.first.devices.Devices(t.Context(), names[0])
			return err == nil && !slices.ContainsFunc(devices.Items, func(d api.Device) bool {
				return d.State != state || d.Reason != transport.ReasonTopic
			})
		})
		p.mustCounts(p.mustEnd(p.mustPost(hello("bob")), api.EventDone), counts{1, 1, 1, 0, 0})
	}
	refused(names[1:]...)
	state, err := apps.New(p.db, apps.Options{}).Apps(t.Context())
	storetest.Must(t, err)
	if len(state) > 0 {
		t.Errorf("%d apps are paused", len(state))
	}
	for _, kind := range []string{"app_paused", "storm"} {
		if n := counted(t, registry, "fanfare_alarms_total", kind); n > 0 {
			t.Errorf("%v alarms %s", n, kind)
		}
	}
}
