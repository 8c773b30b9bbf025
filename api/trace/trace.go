// Package trace records what one call led to, as spans of OpenTelemetry. Until Use was called nothing is recorded, and
// nothing is paid but a look at a pointer. Spans never carry names of users, tokens or texts.
package trace

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// recorder records spans that begin in no call's context in that of the process.
type recorder struct {
	process context.Context
	tracer  trace.Tracer
}

var current atomic.Pointer[recorder]

// Use makes the process record spans with a tracer, until Stop.
func Use(process context.Context, t trace.Tracer) { current.Store(&recorder{process, t}) }

// Stop ends what Use began.
func Stop() { current.Store(nil) }

// On reports whether spans are recorded.
func On() bool { return current.Load() != nil }

// header is the traceparent of W3C Trace Context.
const header = "traceparent"

// below is a context whose span is the one that a traceparent names. One that is missing or not well-formed names none.
func below(ctx context.Context, traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
}

// Call begins the span of a call, below the one that the caller named. After Stop the span records nothing.
func Call(ctx context.Context, traceparent string, began time.Time) (context.Context, trace.Span) {
	r := current.Load()
	if r == nil {
		return ctx, trace.SpanFromContext(ctx)
	}
	return r.tracer.Start(below(ctx, traceparent), "call", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(began))
}

// Parent names the span of a context, so that others can be recorded below it later, perhaps in another process; "" if
// nothing is recorded below it.
func Parent(ctx context.Context) string {
	if !On() || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// Step is something that is over.
type Step struct {
	Name         string
	Kind         trace.SpanKind
	Began, Ended time.Time
	Failed       string // why it failed; "": it did not
	Attributes   []attribute.KeyValue
}

// Record records a step below a span as Parent named it. Below "" nothing is recorded.
func Record(parent string, s Step) {
	if r := current.Load(); r != nil && parent != "" {
		r.record(below(r.process, parent), s)
	}
}

// RecordRoot records a step that nobody has called.
func RecordRoot(s Step) {
	if r := current.Load(); r != nil {
		r.record(r.process, s)
	}
}

func (r *recorder) record(ctx context.Context, s Step) {
	_, span := r.tracer.Start(ctx, s.Name, trace.WithSpanKind(s.Kind), trace.WithTimestamp(s.Began), trace.WithAttributes(s.Attributes...))
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(s.Began.Add(s.Ended.Sub(s.Began)))) // the clock may have been set meanwhile
}
