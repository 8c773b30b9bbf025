package delivery

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/apps"
)

// configured is a sender that knows some apps from its configuration.
type configured struct {
	transport.Sender
	apps map[string]error
}

func (c configured) Apps() map[string]error { return c.apps }

// TestAppsOfClientsAreBounded: clients choose topics. The data that a process has by app does not
// grow with them, and a configured app keeps its name.
func TestAppsOfClientsAreBounded(t *testing.T) {
	t.Parallel()
	const topics = 3000
	own := transport.AppOf(api.PlatformAPNs, "com.example.own", "production")
	registry := prometheus.NewRegistry()
	d := New(Options{
		Sender:  configured{silentSender(), map[string]error{own: nil}},
		Metrics: NewMetrics(registry, nil),
	})
	for n := range topics {
		w := &work{m: &message{Topic: fmt.Sprint("com.example.", n), Environment: api.EnvProduction, Token: fmt.Sprint(n)}}
		w.app = d.app(w.m)
		d.updateDevice(t.Context(), w, transport.Answer{Outcome: transport.NoApp})
		d.alarm("no_app", "app", w.app)
	}
	if n := len(d.names.named); n != 1 {
		t.Errorf("%d topics without an app took a name", n-1)
	}
	for n := range topics {
		w := &work{m: &message{Topic: fmt.Sprint("com.example.", n), Environment: api.EnvProduction, Token: fmt.Sprint(n)}}
		w.app = d.app(w.m)
		d.updateDevice(t.Context(), w, transport.Answer{Outcome: transport.Delivered})
		d.appChanged(w.app, apps.Running, apps.Paused)
		if n%2 == 0 {
			d.appChanged(w.app, apps.Paused, apps.Resuming)
			d.appChanged(w.app, apps.Resuming, apps.Running)
		}
	}
	d.appChanged(own, apps.Running, apps.Paused)
	if n := len(d.storm.apps); n > maxAppNames+1 {
		t.Errorf("the storm breaker holds %d apps", n)
	}
	if n := len(d.alarmed); n > maxAppNames+1 {
		t.Errorf("%d alarms are remembered", n)
	}
	paused := gauges(t, registry, "fanfare_apns_app_paused")
	if n := len(paused); n > maxAppNames+1 {
		t.Errorf("%d apps have a gauge", n)
	}
	// One of the thousand names is the configured app's, and every second is paused.
	if others := float64(topics-(maxAppNames-1)) / 2; paused[otherApps] < others-1 || paused[otherApps] > others+1 {
		t.Errorf("%v of the other apps are paused, want %v", paused[otherApps], others)
	}
	if paused[own] != 1 {
		t.Errorf("the configured app shows %v", paused[own])
	}
	if n := len(gauges(t, registry, "fanfare_apns_breaker_open")); n > maxAppNames+1 {
		t.Errorf("%d breakers have a gauge", n)
	}
}

// gauges reads one family by its app.
func gauges(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			found[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
		}
	}
	return found
}

// TestBackoffsCostTheSameHoweverMany: the cost of a refusal does not grow with the number of
// devices that back off already.
func TestBackoffsCostTheSameHoweverMany(t *testing.T) {
	t.Parallel()
	now := time.Now()
	cost := func(devices int) (least time.Duration) {
		b := newBackoffs(time.Second, time.Minute)
		for n := range devices {
			b.devices[fmt.Sprint(n)] = backoff{until: now.Add(time.Hour)}
		}
		b.next("first", 0, now)
		least = time.Hour
		for range 10 { // use the shortest time, because the machine may be busy
			began := time.Now()
			for n := range 20 {
				b.next(strings.Repeat("x", n), 0, now)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := cost(100), cost(100_000)
	if t.Logf("%v among few, %v among many", few, many); many > 100*few+time.Millisecond {
		t.Errorf("20 refusals take %v among 100,000 devices, %v among 100", many, few)
	}
}

func TestBackoffsThatEndedAreForgotten(t *testing.T) {
	t.Parallel()
	b, now := newBackoffs(time.Second, time.Minute), time.Now()
	for n := range 10 * maxBackoffs {
		b.next(fmt.Sprint(n), 0, now)
		now = now.Add(time.Hour / maxBackoffs)
		if len(b.devices) > 2*maxBackoffs {
			t.Fatalf("%d devices are remembered", len(b.devices))
		}
	}
}
