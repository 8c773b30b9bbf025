package handlers

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"fanfare/api"
	"fanfare/store/chat"
	"fanfare/store/chat/live"
	"fanfare/store/contacts"
	"fanfare/store/devices"
	"fanfare/store/events"
	"fanfare/store/keys"
	"fanfare/store/queue"
	"fanfare/store/stock"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Options say what the HTTP face stands before. The stores are needed; the
// rest may stay zero.
type Options struct {
	Events  *events.Store
	Devices *devices.Store
	Keys    *keys.Store
	// Contacts are the recent contacts; nil leaves their lag out of the stats.
	Contacts *contacts.Store
	// Chats are the chats, Live their streams and long polls; Pusher pushes
	// messages to members without a stream: nil pushes none.
	Chats  *chat.Store
	Live   *live.Hub
	Pusher *chat.Pusher
	// Sales are the sales; nil leaves what they owe out of the stats.
	Sales *stock.Store
	// The queues behind stats and dead letters; one that is nil is left out.
	EventQueue, NotificationQueue, JobQueue *queue.Queue

	// Ready says how the dependencies are; default: always ready.
	Ready func(context.Context) api.Readiness
	// DeliveredPerSecond is this process's mean over the last minute.
	DeliveredPerSecond func() float64

	// Logger gets one line a request: successes at debug, refusals at info,
	// what is away at warn, our own faults at error. Default: nobody.
	Logger *slog.Logger
	// Registry is where metrics are registered and what /metrics serves;
	// default: one of its own.
	Registry *prometheus.Registry
	// Tracer makes spans, of streams none; default: none, but a caller's trace
	// id is logged.
	Tracer trace.TracerProvider

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

// server is what the handlers share.
type server struct {
	events   *events.Store
	devices  *devices.Store
	contacts *contacts.Store
	chats    *chat.Store
	live     *live.Hub
	pusher   *chat.Pusher
	sales    *stock.Store
	keys     *keys.Store
	queues   []deadQueue

	ready     func(context.Context) api.Readiness
	delivered func() float64

	logger  *slog.Logger
	metrics http.Handler
	meters  *meters
	rules   *api.Validator

	rates   *rates
	room    *room
	streams *streams
	wrong   *strikes
	timeout time.Duration
}

// New makes the HTTP face: every route, and around them all that every request
// goes through. It starts nothing and needs no closing.
func New(o Options) http.Handler {
	o = o.withDefaults()
	s := newServer(o)
	var h http.Handler = s.router(s.routes())
	h = s.guardOpen(h)
	h = harden(h)
	h = s.recoverPanics(h)
	h = s.observe(h)
	h = identify(h)
	return untraced(h, otelhttp.NewHandler(h, "fanfare",
		otelhttp.WithTracerProvider(o.Tracer), otelhttp.WithPropagators(propagation.TraceContext{})))
}

func newServer(o Options) *server {
	figures := newQueueMetrics(o.Registry, o.queues())
	return &server{
		events: o.Events, devices: o.Devices, contacts: o.Contacts, chats: o.Chats, live: o.Live, pusher: o.Pusher, sales: o.Sales, keys: o.Keys, queues: o.queues(),
		ready: o.Ready, delivered: o.DeliveredPerSecond,
		logger: o.Logger, metrics: figures.before(promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{})), meters: newMeters(o.Registry),
		rules: api.NewValidator(), rates: &rates{limit: o.RateLimit}, wrong: &strikes{},
		room: newRoom(o.MaxInFlight, o.MaxBodyBytes), streams: newStreams(o.Registry, o.MaxStreams, o.Closing), timeout: o.RequestTimeout,
	}
}

func (o Options) withDefaults() Options {
	if o.Ready == nil {
		o.Ready = func(context.Context) api.Readiness {
			return api.Readiness{Ready: true, Dependencies: []api.Dependency{}}
		}
	}
	if o.DeliveredPerSecond == nil {
		o.DeliveredPerSecond = func() float64 { return 0 }
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

// queues lists the queues there are, with what their dead letters are called.
func (o Options) queues() []deadQueue {
	var out []deadQueue
	for _, q := range []deadQueue{{kindEvent, o.EventQueue}, {kindNotification, o.NotificationQueue}, {kindJob, o.JobQueue}} {
		if q.queue != nil {
			out = append(out, q)
		}
	}
	return out
}
