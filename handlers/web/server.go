package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"fanfare/api"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options say whom a server answers, and how much at once. All may stay zero.
type Options struct {
	// HasKeys tells whether an API key was ever made: until then the server
	// answers this machine alone, without a key. Default: never.
	HasKeys func() bool
	// Authenticate finds the key of a secret; a wrong one is
	// api.CodeUnauthorized. It is needed with HasKeys.
	Authenticate func(secret string) (*api.Key, error)

	// Logger gets one line a request: successes at debug, refusals at info,
	// what is away at warn, our own faults at error. Default: nobody.
	Logger *slog.Logger
	// Registry is where metrics are registered; default: one of its own.
	Registry *prometheus.Registry
	// Tracer makes spans, of streams none; default: none, but a caller's trace
	// id is logged.
	Tracer trace.TracerProvider
	// Untraced tells which requests get no span. Default: none of them.
	Untraced func(*http.Request) bool

	// RateLimit is per API key; default: none.
	RateLimit RateLimit
	// RequestTimeout is the deadline of a request; default 5 s.
	RequestTimeout time.Duration
	// MaxInFlight is how many requests are answered at once (default 4096), and
	// MaxBodyBytes how much their bodies may take together (default 128 MiB); a
	// quarter of it is for what they have beyond 64 KiB each.
	MaxInFlight, MaxBodyBytes int64
	// MaxStreams is how many streams and long polls may be open at once; default
	// 20,000.
	MaxStreams int64
	// Closing is closed when the process begins to stop: streams and long polls
	// end then. Default: they never do by themselves.
	Closing <-chan struct{}
}

// Server is what the endpoints of a table share.
type Server struct {
	hasKeys      func() bool
	authenticate func(secret string) (*api.Key, error)
	logger       *slog.Logger
	meters       *meters
	tracer       trace.TracerProvider
	untraced     func(*http.Request) bool
	rules        *api.Validator

	rates     *rates
	admission *admission
	streams   *streams
	wrong     *wrongKeys
	timeout   time.Duration
}

// New makes a server. It starts nothing and needs no closing.
func New(o Options) *Server {
	o = o.withDefaults()
	return &Server{
		hasKeys: o.HasKeys, authenticate: o.Authenticate, logger: o.Logger, meters: newMeters(o.Registry),
		tracer: o.Tracer, untraced: o.Untraced, rules: api.NewValidator(),
		rates: &rates{limit: o.RateLimit}, wrong: &wrongKeys{}, admission: newAdmission(o.MaxInFlight, o.MaxBodyBytes),
		streams: newStreams(o.Registry, o.MaxStreams, o.Closing), timeout: o.RequestTimeout,
	}
}

// Handler serves the table: every route, and around them all that every request
// goes through.
func (s *Server) Handler(table []Route) http.Handler {
	h := s.around(s.router(table))
	traced := otelhttp.NewHandler(h, "fanfare", otelhttp.WithTracerProvider(s.tracer), otelhttp.WithPropagators(propagation.TraceContext{}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.untraced(r) {
			traced.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("traceparent") != "" { // it is still known to the log
			r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		}
		h.ServeHTTP(w, r)
	})
}

// around puts around a router what every request goes through.
func (s *Server) around(h http.Handler) http.Handler {
	return identify(s.observe(s.recoverPanics(harden(s.localOnly(h)))))
}

// Closing is closed when the process begins to stop.
func (s *Server) Closing() <-chan struct{} { return s.streams.closing }

// Briefly bounds one call of a stream or a long poll to a store by the time-out
// of requests. The call does not end with the request: that would leave a map in
// the context of every stream, and it takes but a moment.
func (s *Server) Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
}

func (o Options) withDefaults() Options {
	if o.HasKeys == nil {
		o.HasKeys = func() bool { return false }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Tracer == nil {
		o.Tracer = noop.NewTracerProvider()
	}
	if o.Untraced == nil {
		o.Untraced = func(*http.Request) bool { return false }
	}
	o.RequestTimeout = positive(o.RequestTimeout, 5*time.Second)
	o.MaxInFlight = positive(o.MaxInFlight, 4096)
	o.MaxBodyBytes = positive(o.MaxBodyBytes, 128<<20)
	o.MaxStreams = positive(o.MaxStreams, api.DefaultMaxStreams)
	return o
}

func positive[T int64 | time.Duration](value, fallback T) T {
	if value > 0 {
		return value
	}
	return fallback
}
