package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"fanfare/api"

	"github.com/prometheus/client_golang/prometheus"
)

// Options say which callers a server answers, and how many at once. All may stay zero.
type Options struct {
	// HasKeys reports whether an API key was ever made. Until then the server answers only callers
	// on its own machine, and needs no key. Default: never.
	HasKeys func() bool
	// Authenticate finds the key of a secret; a wrong secret is api.CodeUnauthorized. It is
	// required if HasKeys is set.
	Authenticate func(secret string) (*api.Key, error)
	// Find finds a key by its id, for AsKey. Default: AsKey has no effect.
	Find func(id string) (*api.Key, error)

	// Logger gets one line a request: successes and refusals of a rush at debug, other refusals
	// at info, unavailable dependencies at warn (one a minute, the others at debug), and errors
	// of fanfare itself at error. Default: discarded.
	Logger *slog.Logger
	// Registry is where metrics are registered; default: one of its own.
	Registry *prometheus.Registry

	// Users finds the users of tokens and tickets; a server that gets any needs it.
	Users Users
	// AllowedOrigins are the pages that may call the routes that a user token opens, each in a
	// form that CheckOrigin accepts, or AnyOrigin; default: none.
	AllowedOrigins []string

	// Proxies are the proxies whose X-Forwarded-For gives a caller's address; default: none.
	Proxies Proxies

	// RateLimit is per API key. UserRateLimit is per user, for calls by user tokens, and
	// UserMessageRateLimit for those of them that send a message; default: none. UserMessageBytes
	// is how many bytes the bodies of these messages may have, as if each byte were a request.
	RateLimit, UserRateLimit, UserMessageRateLimit, UserMessageBytes RateLimit
	// RequestTimeout is the deadline of a request; default 5 s.
	RequestTimeout time.Duration
	// MaxInFlight is how many requests are answered at once (default 4096). MaxBodyBytes is how
	// many bytes their bodies may take together (default 128 MiB); a quarter of it is for the
	// parts of bodies beyond 64 KiB each.
	MaxInFlight, MaxBodyBytes int64
	// MaxAnswerBytes is how many bytes long answers may have together that their clients have not
	// taken yet; default 64 MiB.
	MaxAnswerBytes int64
	// MaxStreams is how many streams and long polls may be open at once; default
	// 20,000.
	MaxStreams int64
	// UserMaxInFlight, UserMaxStreams and UserMaxPolls are how many requests, streams and long
	// polls one user may have, whoever calls for the user; default 32, 32 and 8.
	UserMaxInFlight, UserMaxStreams, UserMaxPolls int64
	// KeyMaxStreams is how many streams and long polls one API key may have open; default:
	// MaxStreams.
	KeyMaxStreams int64
	// Starting returns an unavailable error as long as the process can only answer whether it is
	// alive and ready. Default: the process has started.
	Starting func() error
	// Closing is closed when the process begins to stop: streams and long polls end then.
	// Default: never.
	Closing <-chan struct{}
	// Streams counts the open streams over HTTP/1.1, which their http.Server does not know. A
	// process that stops waits for the server and for Streams. Default: a group of its own.
	Streams *sync.WaitGroup
}

// Server has the state that all endpoints of a route table share.
type Server struct {
	o         Options
	meters    *meters
	unmatched *mounted
	rules     *api.Validator
	origins   origins

	rates              *rates
	userRates          *rates
	messageRates       *rates
	messageBytes       *rates
	requests, answers  *kind
	admission          *admission
	streams            *streams
	outage, strangers  sparseLines
	wrong, wrongTokens *wrongKeys
}

// New makes a server. It starts nothing and needs no closing.
func New(o Options) *Server {
	o = o.withDefaults()
	m := newMeters(o.Registry)
	return &Server{
		o: o, meters: m, unmatched: m.mounted(unmatched, NotFound), rules: api.NewValidator(), origins: newOrigins(o.AllowedOrigins),
		rates:        newRates(o.RateLimit, "key", "this API key may make %s requests"),
		userRates:    newRates(o.UserRateLimit, "user", "this user may make %s requests"),
		messageRates: newRates(o.UserMessageRateLimit, "user-messages", "this user may send %s messages"),
		messageBytes: newRates(o.UserMessageBytes, "user-message-bytes", "this user may send %s bytes of messages"),
		wrong:        &wrongKeys{}, wrongTokens: &wrongKeys{},
		requests: newRequests(&o), answers: newAnswers(o.MaxAnswerBytes), admission: newAdmission(o.MaxBodyBytes),
		streams: newStreams(&o),
	}
}

// Handler serves the table: every route, within the layers that every request passes.
func (s *Server) Handler(table []Route) http.Handler { return s.around(s.newRouter(table).serve) }

// around wraps a router in the layers that every request passes.
func (s *Server) around(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info := s.newInfo(w, r)
		r = r.WithContext(info)
		s.meters.inFlight.Inc()
		defer s.end(r, info)
		s.limitBody(w, r, info)
		harden(w.Header(), r.TLS != nil)
		w.Header()["X-Request-Id"] = []string{info.id}
		if err := s.localOnly(r); err != nil {
			fail(&info.answer, r, err)
			return
		}
		next(&info.answer, r)
	})
}

// Closing is closed when the process begins to stop.
func (s *Server) Closing() <-chan struct{} { return s.streams.closing }

// Briefly gives one call of a stream or a long poll to a store the time-out of requests. The call does
// not end with the request, because it is short, and because otherwise the context of every stream
// would keep a map.
func (s *Server) Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.o.RequestTimeout)
}

func (o Options) withDefaults() Options {
	if o.HasKeys == nil {
		o.HasKeys = func() bool { return false }
	}
	if o.Starting == nil {
		o.Starting = func() error { return nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Registry = cmp.Or(o.Registry, prometheus.NewRegistry())
	o.Streams = cmp.Or(o.Streams, &sync.WaitGroup{})
	o.RequestTimeout = cmp.Or(o.RequestTimeout, 5*time.Second)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 4096)
	o.UserMaxInFlight = cmp.Or(o.UserMaxInFlight, 32)
	o.UserMaxStreams = cmp.Or(o.UserMaxStreams, 32)
	o.UserMaxPolls = cmp.Or(o.UserMaxPolls, 8)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, 128<<20)
	o.MaxAnswerBytes = cmp.Or(o.MaxAnswerBytes, 64<<20)
	o.MaxStreams = cmp.Or(o.MaxStreams, api.DefaultMaxStreams)
	return o
}
