package delivery

import (
	"math"

	"fanfare/delivery/transport"
	"fanfare/store/events"
	"fanfare/store/series"
)

// Totals is what was counted since the start, for the series of minutes. It reads the metrics, so that
// counting costs nothing more.
func (m *Metrics) Totals() series.Counts {
	c := series.Counts{}
	families, _ := m.totals.Gather() // fails only for metrics that contradict each other
	for _, f := range families {
		add := totalOf[f.GetName()]
		for _, s := range f.GetMetric() {
			if h := s.GetHistogram(); h != nil {
				addLatencies(c, h.GetBucket(), h.GetSampleCount())
				continue
			}
			add(c, int64(s.GetCounter().GetValue()), func(name string) string { return valueOf(s.GetLabel(), name) })
		}
	}
	return c
}

// totalOf adds the value of a counter, by its name.
var totalOf = map[string]func(c series.Counts, n int64, label func(string) string){
	"fanfare_events_accepted_total": func(c series.Counts, n int64, _ func(string) string) { c.Accepted(n) },
	"fanfare_alarms_total":          func(c series.Counts, n int64, label func(string) string) { c.Alarms(label("kind"), n) },
	"fanfare_apns_answers_total": func(c series.Counts, n int64, label func(string) string) {
		if unfinished[label("outcome")] {
			c.Retried(n)
		}
	},
	"fanfare_notifications_opened_total": func(c series.Counts, n int64, label func(string) string) {
		if label("action") == events.Opened.String() {
			c.Opened(n)
		}
	},
	"fanfare_notifications_ended_total": func(c series.Counts, n int64, label func(string) string) {
		switch label("state") {
		case events.LabelDelivered:
			c.Delivered(label("platform"), n)
		case events.LabelFailed:
			c.Failed(label("platform"), n)
		case events.LabelSuperseded:
			c.Superseded(label("platform"), n)
		}
	},
}

// unfinished has the outcomes, by name, after which a notification is to be sent again.
var unfinished = map[string]bool{
	transport.PauseApp.String(): true, transport.Again.String(): true, transport.Retry.String(): true, transport.RetryUncounted.String(): true,
	transport.BackoffDevice.String(): true, transport.UnknownOutcome.String(): true, transport.NotSent.String(): true,
}

// addLatencies adds the buckets of a histogram with so many samples.
func addLatencies[B interface {
	GetUpperBound() float64
	GetCumulativeCount() uint64
}](c series.Counts, buckets []B, samples uint64) {
	from, below := 0.0, uint64(0)
	for _, b := range buckets {
		c.Latency(from, b.GetUpperBound(), int64(b.GetCumulativeCount()-below))
		from, below = b.GetUpperBound(), b.GetCumulativeCount()
	}
	c.Latency(from, math.Inf(1), int64(samples-below))
}

// valueOf is the value of a label.
func valueOf[L interface {
	GetName() string
	GetValue() string
}](labels []L, name string) string {
	for _, l := range labels {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
