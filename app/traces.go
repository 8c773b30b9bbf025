package app

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"fanfare/api/trace"
	"fanfare/store/queue"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// tracesFlush is how long the last spans may take to leave at a stop.
const tracesFlush = 2 * time.Second

// startTraces sends spans to the collector of FANFARE_TRACES_URL, in the background: a collector that is away or slow
// holds up nothing, and what does not fit into its queue is dropped. It does nothing without the variable. stop sends
// the spans that are still in the queue.
func startTraces(ctx context.Context, c *config, log *slog.Logger) (stop func(), err error) {
	if c.TracesURL == "" {
		return func() {}, nil
	}
	to, err := tracesEndpoint(c.TracesURL)
	if err != nil {
		return nil, err
	}
	user := to.User
	to.User = nil
	options := []otlptracehttp.Option{otlptracehttp.WithEndpointURL(to.String()), otlptracehttp.WithCompression(otlptracehttp.GzipCompression)}
	if user != nil {
		password, _ := user.Password()
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
		options = append(options, otlptracehttp.WithHeaders(map[string]string{"Authorization": basic}))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("FANFARE_TRACES_URL: %w", err)
	}
	otel.SetErrorHandler(tracesFailed(c, log))
	host, _ := os.Hostname()
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(c.TracesShare))),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "fanfare"), attribute.String("service.version", buildVersion), attribute.String("host.name", host))))
	process := context.WithoutCancel(ctx)
	trace.Use(process, provider.Tracer("fanfare"))
	return func() {
		trace.Stop()
		ctx, cancel := context.WithTimeout(process, tracesFlush)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", "error", c.scrub(err.Error()))
		}
	}, nil
}

// checkTraces reports a FANFARE_TRACES_URL that is none.
func (c *config) checkTraces() problems {
	if c.TracesURL == "" {
		return nil
	}
	if _, err := tracesEndpoint(c.TracesURL); err != nil {
		return problems{err.Error()}
	}
	return nil
}

// tracesEndpoint is where spans are posted. OTLP's usual path is added to a URL without one.
func tracesEndpoint(text string) (*url.URL, error) {
	to, err := url.Parse(text)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, fmt.Errorf("FANFARE_TRACES_URL: must be the http or https URL of a collector, such as http://127.0.0.1:4318")
	}
	if strings.Trim(to.Path, "/") == "" {
		to.Path = "/v1/traces"
	}
	return to, nil
}

// tracesFailed logs that spans are not sent, at most once a minute.
func tracesFailed(c *config, log *slog.Logger) otel.ErrorHandlerFunc {
	var mu sync.Mutex
	var next time.Time
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if now := time.Now(); now.After(next) {
			next = now.Add(time.Minute)
			log.Warn("spans are not sent", "error", c.scrub(err.Error()))
		}
	}
}

// traced makes the handlers of background jobs record a span for each job.
func traced(all map[string]func(context.Context, *queue.Claimed) queue.Result) map[string]func(context.Context, *queue.Claimed) queue.Result {
	if !trace.On() {
		return all
	}
	for name, run := range all {
		all[name] = func(ctx context.Context, c *queue.Claimed) queue.Result {
			s := trace.Step{Name: "job " + name, Kind: oteltrace.SpanKindConsumer, Began: time.Now(), Attributes: []attribute.KeyValue{attribute.Int("fanfare.attempt", c.Failures+1)}}
			r := run(ctx, c)
			if s.Ended = time.Now(); r.Outcome == queue.Retry || r.Outcome == queue.Dead {
				s.Failed = r.Reason
			}
			trace.RecordRoot(s)
			return r
		}
	}
	return all
}
