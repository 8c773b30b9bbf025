package targeting

import (
	"time"

	"fanfare/api/trace"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// trace records how many devices were chosen, below the call that brought the event, if that is traced.
func (p *page) trace() {
	if p.job.Trace == "" {
		return
	}
	s := trace.Step{Name: "target", Kind: oteltrace.SpanKindConsumer, Began: p.claimedAt, Ended: time.Now(), Attributes: []attribute.KeyValue{
		attribute.String("fanfare.event", p.event()), attribute.String("fanfare.event_type", p.job.Type), attribute.Bool("fanfare.part", p.part()),
		attribute.Int("fanfare.users", len(p.users)), attribute.Int("fanfare.devices", len(p.found)), attribute.Int("fanfare.missed", len(p.missed))}}
	if p.err != nil {
		s.Failed = "users were missed"
	}
	trace.Record(p.job.Trace, s)
}
