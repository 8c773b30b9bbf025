package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// meters are the metrics of HTTP. Their labels are route patterns and statuses, never a user, a token
// or a key.
type meters struct {
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newMeters(reg prometheus.Registerer) *meters {
	m := &meters{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanfare_http_request_duration_seconds", Help: "Time from the head of a request to the end of its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_http_in_flight_requests", Help: "Requests that are being answered.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_http_problems_total", Help: "Answers that were problems, by code.",
		}, []string{"code"}),
	}
	reg.MustRegister(m.seconds, m.inFlight, m.refused)
	return m
}

// mounted makes a route whose metrics are labelled with its pattern.
func (m *meters) mounted(pattern string, run http.HandlerFunc) *mounted {
	return &mounted{pattern: pattern, run: run, durations: durations{vec: m.seconds, route: pattern}}
}

// durations are the histograms of one route. Each is looked up by its labels once; a route has
// only a few.
type durations struct {
	vec   *prometheus.HistogramVec
	route string
	known atomic.Pointer[[]duration]
}

type duration struct {
	method string
	status int
	prometheus.Observer
}

func (d *durations) of(method string, status int) prometheus.Observer {
	known := d.known.Load()
	if known == nil {
		known = new([]duration)
		d.known.CompareAndSwap(nil, known)
	}
	for i := range *known {
		if one := &(*known)[i]; one.status == status && one.method == method {
			return one
		}
	}
	return d.find(known, method, status)
}

// find finds a histogram and remembers it. If another request stores one at the same time, the
// histogram is remembered by a later request.
func (d *durations) find(known *[]duration, method string, status int) prometheus.Observer {
	found := duration{method, status, d.vec.WithLabelValues(method, d.route, strconv.Itoa(status))}
	all := append(slices.Clip(*known), found)
	d.known.CompareAndSwap(known, &all)
	return found
}

// end is deferred for every request that does not go on as a stream.
func (s *Server) end(r *http.Request, info *requestInfo) {
	if v := recover(); !info.left && s.finish(r, info, v) {
		panic(http.ErrAbortHandler)
	}
}

// finish answers a panic, then measures and logs. It reports whether the connection must be cut,
// as answerPanic does.
func (s *Server) finish(r *http.Request, info *requestInfo, v any) (abort bool) {
	abort = s.answerPanic(r, info, v)
	s.record(r, info)
	s.meters.inFlight.Dec()
	s.admission.shrink(info.body)
	info.close()
	return abort
}

// answerPanic turns a panic into a 500 problem and a logged stack. It reports whether the
// connection must be cut instead, because half a response must not look like a whole one.
func (s *Server) answerPanic(r *http.Request, info *requestInfo, v any) (abort bool) {
	if v == nil {
		return false
	}
	if v == http.ErrAbortHandler { // as net/http compares it
		return true
	}
	s.o.Logger.ErrorContext(info, "panic in a handler", "request_id", info.id, "panic", v, "stack", string(debug.Stack()))
	if info.answer.status != 0 {
		return true
	}
	fail(&info.answer, r, api.Errorf(api.CodeInternal, "panic"))
	return false
}

// record measures and logs a request that is answered.
func (s *Server) record(r *http.Request, info *requestInfo) {
	status, took := info.answer.status, time.Since(info.started)
	if status == 0 {
		status = http.StatusOK
	}
	info.route.durations.of(methodLabel(r.Method), status).Observe(took.Seconds())
	if info.err != nil {
		s.meters.refused.WithLabelValues(string(info.code)).Inc()
	}
	s.log(r, info, status, took)
	if info.span != nil {
		info.endSpan(r.Method, status)
	}
}

// endSpan ends the span of a request that is answered. It has the route's pattern and never the path, which may name a
// user or a token.
func (i *requestInfo) endSpan(method string, status int) {
	method = methodLabel(method)
	i.span.SetName(method + " " + i.route.pattern)
	i.span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", i.route.pattern),
		attribute.Int("http.response.status_code", status), attribute.String("fanfare.request_id", i.id))
	if i.err != nil {
		i.span.SetAttributes(attribute.String("error.type", string(i.code)))
	}
	if status >= http.StatusInternalServerError {
		i.span.SetStatus(codes.Error, string(i.code))
	}
	i.span.End()
}

// log writes the one line of a request. Successes are logged only at debug level, so that a busy
// server does not spend its time on lines that nobody reads.
func (s *Server) log(r *http.Request, info *requestInfo, status int, took time.Duration) {
	level, others := levelOf(status, info.err), 0
	switch {
	case level == slog.LevelWarn:
		level, others = s.outage.sparse(level, info.started)
	case level == slog.LevelInfo && s.o.HasKeys() && info.caller() == "":
		level, others = s.strangers.sparse(level, info.started)
	}
	if !s.o.Logger.Enabled(info, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", info.id), slog.String("method", r.Method), slog.String("route", info.route.pattern),
		slog.Int("status", status), slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.Int("bytes", info.answer.size),
	}
	if id := info.keyID(); id != "" {
		attrs = append(attrs, slog.String("key", id))
	}
	if from := s.o.Proxies.caller(r); from.IsValid() {
		attrs = append(attrs, slog.String("client", from.String()))
	}
	if id := traceID(info.traceparent); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if info.err != nil {
		attrs = append(attrs, slog.Any("error", info.err))
	}
	if others > 0 {
		attrs = append(attrs, slog.Int("others", others))
	}
	s.o.Logger.LogAttrs(info, level, "request", attrs...)
}

// LogChange writes the line about a change that an operator made: which API key made it, what was done,
// and the id or name of what it was done to. The target must not be a secret, and no user's name.
func (s *Server) LogChange(ctx context.Context, action, target string) {
	info := infoOf(ctx)
	s.o.Logger.InfoContext(ctx, "change", "action", action, "target", target, "key", info.keyID(), "request_id", info.id)
}

// sparseLines keeps an outage, or strangers without a valid key or token, from filling the log. Of their
// requests one in each linePause has a line, with the number of requests since the previous line.
type sparseLines struct {
	mu     sync.Mutex
	next   time.Time
	others int
}

// linePause is the least time between two such lines.
const linePause = time.Minute

// sparse is the level of a line that would have the given one, and the number of requests since the
// previous line.
func (l *sparseLines) sparse(level slog.Level, now time.Time) (_ slog.Level, others int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Before(l.next) {
		l.others++
		return slog.LevelDebug, 0
	}
	others, l.others, l.next = l.others, 0, now.Add(linePause)
	return level, others
}

func levelOf(status int, err error) slog.Level {
	switch {
	case errors.Is(err, context.Canceled):
		return slog.LevelInfo // the caller has gone away
	case err == nil, ordinary(api.CodeOf(err)):
		return slog.LevelDebug // there may be thousands of these and of failing probes; the metrics count them
	case status == http.StatusInternalServerError:
		return slog.LevelError
	case status > http.StatusInternalServerError:
		return slog.LevelWarn
	case status >= http.StatusBadRequest:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}

// ordinary reports whether a refusal is normal under a heavy load: requests that are shed, and buyers
// who come too early or too late.
func ordinary(code api.Code) bool {
	switch code {
	case api.CodeOverloaded, api.CodeRateLimited, api.CodeNotStarted, api.CodeSoldOut, api.CodeLimitReached:
		return true
	}
	return false
}

// methodLabel keeps unknown methods from creating new series.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// hardening are the headers that make browsers treat answers as data. A handler
// of pages sets a policy of its own. The lists are shared by all answers.
var hardening = []struct {
	name  string
	value []string
}{
	{"X-Content-Type-Options", []string{"nosniff"}},
	{"Referrer-Policy", []string{"no-referrer"}},
	{"Cross-Origin-Resource-Policy", []string{"same-origin"}},
	{"Content-Security-Policy", []string{"default-src 'none'; frame-ancestors 'none'"}},
	{"Cache-Control", []string{"no-store"}},
}

// strictTransport keeps browsers that came over TLS from coming back without it for a year.
var strictTransport = []string{"max-age=31536000"}

// harden sets the hardening headers. It sets Strict-Transport-Security only where fanfare itself
// serves TLS; behind a proxy that is the proxy's decision.
func harden(h http.Header, tls bool) {
	for i := range hardening {
		h[hardening[i].name] = hardening[i].value
	}
	if tls {
		h["Strict-Transport-Security"] = strictTransport
	}
}
