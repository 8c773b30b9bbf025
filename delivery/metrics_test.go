package delivery

import (
	"math"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/series"

	"github.com/prometheus/client_golang/prometheus"
)

// A14: notifications of the log sender count as delivered, also in the rate and in the time from
// the event to the answer.
func TestA14_LogSenderShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	accepted := time.Now().Add(-2 * time.Second).UnixMilli()
	m.answered(api.PlatformAPNs, transport.Await(t.Context(), silentSender(), &transport.Notification{}), accepted)
	m.answered(api.PlatformAPNs, transport.Answer{Outcome: transport.NotSent}, accepted)        // the request was not sent
	m.answered(api.PlatformAPNs, transport.Answer{Outcome: transport.UnknownOutcome}, accepted) // the request was not answered
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "fanfare_event_to_answer_seconds" {
			continue
		}
		if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() < 1.9 || h.GetSampleSum() > 60 {
			t.Errorf("%d answers after %v s", h.GetSampleCount(), h.GetSampleSum())
		}
	}
	if m.DeliveredPerSecond() <= 0 {
		t.Error("nothing delivered per second")
	}
}

// An alert on a counter sees only changes, so each kind of alarm is present from the start.
func TestAlarmsAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	NewMetrics(registry, nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, f := range families {
		if f.GetName() == "fanfare_alarms_total" {
			kinds = len(f.GetMetric())
		}
	}
	if kinds != 6 {
		t.Errorf("%d kinds of alarms, want 6", kinds)
	}
}

// W7: the counters of notifications have the platform as a label.
func TestW7_MetricsHaveThePlatform(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	for n, d := range []*api.Device{{Token: strings.Repeat("fcm-", 10)}, {Token: strings.Repeat("ab", 32), Environment: api.EnvSandbox}} {
		for range n + 1 {
			m.of(d.PlatformOf()).targeted.Inc()
			m.answered(d.PlatformOf(), transport.Answer{Outcome: transport.Delivered, Status: 200}, time.Now().UnixMilli())
			m.end(d.PlatformOf(), queue.Result{Label: "delivered"})
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fanfare_apns_answers_total", "fanfare_notifications_targeted_total", "fanfare_notifications_ended_total", "fanfare_event_to_answer_seconds"} {
		got := map[string]float64{}
		for _, f := range families {
			for _, s := range f.GetMetric() {
				for _, l := range s.GetLabel() {
					if f.GetName() == name && l.GetName() == "platform" {
						got[l.GetValue()] += s.GetCounter().GetValue() + float64(s.GetHistogram().GetSampleCount())
					}
				}
			}
		}
		if len(got) != 2 || got["fcm"] != 1 || got["apns"] != 2 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// N18: the series of minutes is made from the metrics.
func TestN18_TotalsAreTheMetrics(t *testing.T) {
	t.Parallel()
	m := NewMetrics(nil, nil)
	m.Accepted(5)
	m.Opened("opened")
	m.Opened("opened")
	m.Opened("dismissed")
	m.alarm(alarmStorm)
	ago := time.Now().Add(-2 * time.Second).UnixMilli()
	m.answered(api.PlatformFCM, transport.Answer{Outcome: transport.Delivered, Status: 200}, ago)
	m.answered(api.PlatformFCM, transport.Answer{Outcome: transport.Retry, Status: 500}, ago)
	m.answered(api.PlatformAPNs, transport.Answer{Outcome: transport.UnknownOutcome}, ago)
	m.answered(api.PlatformAPNs, transport.Answer{Outcome: transport.DropDevice, Status: 410}, time.Now().Add(-2*time.Hour).UnixMilli())
	m.end(api.PlatformFCM, queue.Result{Label: events.LabelDelivered})
	m.end(api.PlatformAPNs, queue.Result{Label: events.LabelFailed, Reason: "Unregistered"})
	m.end(api.PlatformAPNs, queue.Result{Label: events.LabelFailed, Reason: "no_app"})
	m.end(api.PlatformAPNs, queue.Result{Label: events.LabelExpired})
	m.end(api.PlatformFCM, superseded)
	got, want := m.Totals(), series.Counts{}
	want.Accepted(5)
	want.Opened(2)
	want.Alarms("storm", 1)
	want.Retried(2)
	want.Delivered("fcm", 1)
	want.Failed("apns", 2)
	want.Superseded("fcm", 1)
	want.Latency(3600, math.Inf(1), 1)
	late := int64(0)
	for name, n := range got {
		if want[name] == 0 && n != 0 { // the answers 2 s after the event
			late += n
		}
	}
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, want %d", name, got[name], n)
		}
	}
	if late != 2 {
		t.Errorf("%v", got)
	}
}
