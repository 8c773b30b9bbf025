package delivery

import (
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
	"fanfare/store/queue"

	"github.com/prometheus/client_golang/prometheus"
)

// A14: notifications of the log sender count as delivered, also in the rate and in the time from
// the event to the answer.
func TestA14_LogSenderShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	accepted := time.Now().Add(-2 * time.Second).UnixMilli()
	m.answered(api.PlatformAPNs, silentSender().Send(t.Context(), &transport.Notification{}), accepted)
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
			m.Targeted(d)
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
