package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"fanfare/api"

	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
)

// unmatched is the route of requests that no route takes.
const unmatched = "unmatched"

// meters are the metrics of the HTTP face. Their labels are route patterns and
// statuses: never a user, a token or a key.
type meters struct {
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newMeters(reg prometheus.Registerer) *meters {
	m := &meters{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanfare_http_request_duration_seconds", Help: "Time from a request's head to its answer's end.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"method", "route", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_http_in_flight_requests", Help: "Requests being answered.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_http_problems_total", Help: "Answers that were problems, by code.",
		}, []string{"code"}),
	}
	reg.MustRegister(m.seconds, m.inFlight, m.refused)
	return m
}

// observe measures and logs every request, once it is answered.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.meters.inFlight.Inc()
		defer s.meters.inFlight.Dec()
		ww := middleware.NewWrapResponseWriter(w, r.ProtoMajor)
		defer func() { s.record(r, ww) }()
		next.ServeHTTP(ww, r)
	})
}

func (s *Server) record(r *http.Request, ww middleware.WrapResponseWriter) {
	info := infoOf(r.Context())
	status, took := ww.Status(), time.Since(info.started)
	if status == 0 {
		status = http.StatusOK
	}
	s.meters.seconds.WithLabelValues(methodLabel(r.Method), info.route, strconv.Itoa(status)).Observe(took.Seconds())
	if info.err != nil {
		s.meters.refused.WithLabelValues(string(asError(r, info.err).Code)).Inc()
	}
	s.log(r, info, status, took, ww.BytesWritten())
}

// log writes the one line of a request: what went well only at debug level, so
// that a busy server does not spend its time on lines nobody reads.
func (s *Server) log(r *http.Request, info *requestInfo, status int, took time.Duration, size int) {
	level := levelOf(status, info.err)
	if !s.logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", info.id), slog.String("method", r.Method), slog.String("route", info.route),
		slog.Int("status", status), slog.Float64("took_ms", float64(took.Microseconds())/1000), slog.Int("bytes", size),
	}
	if id := info.keyID(); id != "" {
		attrs = append(attrs, slog.String("key", id))
	}
	if id := traceID(r.Context()); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	if info.err != nil {
		attrs = append(attrs, slog.Any("error", info.err))
	}
	s.logger.LogAttrs(r.Context(), level, "request", attrs...)
}

func levelOf(status int, err error) slog.Level {
	switch {
	case errors.Is(err, context.Canceled):
		return slog.LevelInfo // the caller went away
	case ordinary(api.CodeOf(err)):
		return slog.LevelDebug // these come by the thousand and must stay cheap; the metrics count them
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

// ordinary tells whether a refusal is what a rush is made of: load that is shed,
// and buyers who come too early or too late.
func ordinary(code api.Code) bool {
	switch code {
	case api.CodeOverloaded, api.CodeRateLimited, api.CodeNotStarted, api.CodeSoldOut, api.CodeLimitReached:
		return true
	}
	return false
}

// methodLabel keeps made-up methods from making up series.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "other"
	}
}

// recoverPanics turns a panic into a 500 problem and a logged stack.
func (s *Server) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler { // as net/http compares it
				panic(v)
			}
			s.logger.ErrorContext(r.Context(), "panic in a handler",
				"request_id", infoOf(r.Context()).id, "panic", v, "stack", string(debug.Stack()))
			if ww, ok := w.(middleware.WrapResponseWriter); ok && ww.Status() != 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			fail(w, r, api.Errorf(api.CodeInternal, "panic"))
		}()
		next.ServeHTTP(w, r)
	})
}

// harden sets the headers that make browsers treat answers as data. A
// handler of pages sets a policy of its own.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
