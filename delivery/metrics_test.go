package delivery

import (
	"testing"
	"time"

	"fanfare/delivery/transport"

	"github.com/prometheus/client_golang/prometheus"
)

// A14: notifications of the log sender count as delivered, also in the rate and in the time from
// the event to the answer.
func TestA14_LogSenderShowsInTheMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry, nil)
	accepted := time.Now().Add(-2 * time.Second).UnixMilli()
	m.answered(silentSender().Send(t.Context(), &transport.Notification{}), accepted)
	m.answered(transport.Answer{Outcome: transport.NotSent}, accepted)        // the request was not sent
	m.answered(transport.Answer{Outcome: transport.UnknownOutcome}, accepted) // the request was not answered
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
