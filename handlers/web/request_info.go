package web

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/api/trace"

	"github.com/go-chi/chi/v5"
	oteltrace "go.opentelemetry.io/otel/trace"
)

// requestInfo is the state of a request and its response. It is the request's context, and it contains
// the response's writer. It is a single value because every request pays for each allocation.
type requestInfo struct {
	context.Context // as net/http made it
	answer          answer

	id          string       // X-Request-Id
	traceparent string       // the caller's, well-formed or not
	route       *mounted     // its pattern is logged, never the path: paths name users and tokens
	params      *chi.Context // the parameters of the path, while the route runs
	key         *api.Key
	user        *api.User // the calling user, by user token or ticket; key is nil then
	subject     string    // the user whose places the call takes; "": none
	byUser      bool      // a user token or ticket was sent, good or not
	secret      string    // of the API key
	err         error     // error that the response could not show, for the log
	code        api.Code  // of err
	started     time.Time
	body        int64          // bytes that the body takes of the limit
	left        bool           // the request goes on as a stream without its handler, see leaveRequest
	span        oteltrace.Span // nil: no spans are recorded

	deadline time.Time // zero: none
	limit    sync.Once // makes limited
	limited  context.Context
	made     atomic.Bool // limited is there
	cancel   context.CancelFunc
}

type infoKey struct{}

// infoOf gives the request's info, an empty one outside of a request.
func infoOf(ctx context.Context) *requestInfo {
	if info, ok := ctx.Value(infoKey{}).(*requestInfo); ok {
		return info
	}
	return &requestInfo{}
}

// newInfo begins a request. The request's id is the one that the caller sent, if it is well-formed. It
// is returned with the response.
func (s *Server) newInfo(w http.ResponseWriter, r *http.Request) *requestInfo {
	id := r.Header.Get("X-Request-Id")
	if !validRequestID(id) {
		id = rand.Text()
	}
	info := &requestInfo{
		Context: r.Context(), answer: answer{ResponseWriter: w}, id: id, route: s.unmatched, started: time.Now(),
	}
	if named := r.Header["Traceparent"]; len(named) == 1 {
		info.traceparent = named[0]
	}
	if trace.On() {
		info.Context, info.span = trace.Call(info.Context, info.traceparent, info.started)
	}
	return info
}

// Traceparent names the span below which something is recorded that is done for the request later, by others, in the form
// of W3C Trace Context: that of the request if it is recorded, and otherwise the caller's. "" if there is none.
func Traceparent(ctx context.Context) string {
	if own := trace.Parent(ctx); own != "" {
		return own
	}
	if named := infoOf(ctx).traceparent; len(named) == len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") && traceID(named) != "" {
		return named
	}
	return "" // none, or one of a later version that says more
}

// keyID is the API key's id; "" on an open server.
func (i *requestInfo) keyID() string {
	if i.key == nil {
		return ""
	}
	return i.key.ID
}

// caller is the scope within which idempotency keys are unique: the API key or, if the caller has a
// user token, the user. The two cannot be equal, because an API key's id has no colon.
func (i *requestInfo) caller() string {
	if i.user != nil {
		return "user:" + i.user.ID
	}
	return i.keyID()
}

// fail keeps the reason of a failure for log and metrics.
func (i *requestInfo) fail(err error, code api.Code) { i.err, i.code = err, code }

// Deadline is the request's deadline, if it has one.
func (i *requestInfo) Deadline() (time.Time, bool) {
	if i.deadline.IsZero() {
		return i.Context.Deadline()
	}
	return i.deadline, true // net/http's own context has none
}

// Done is closed when the caller has gone or the deadline has passed.
func (i *requestInfo) Done() <-chan struct{} { return i.timed().Done() }

// Err reports whether the caller has gone or the deadline has passed. It needs no timer.
func (i *requestInfo) Err() error {
	switch {
	case i.made.Load():
		return i.limited.Err()
	case i.deadline.IsZero() || time.Now().Before(i.deadline):
		return i.Context.Err()
	}
	return i.timed().Err()
}

// Value finds the info itself, and the values of net/http.
func (i *requestInfo) Value(key any) any {
	if key == (infoKey{}) {
		return i
	}
	return i.timed().Value(key)
}

// timed is the context with the deadline. Its timer is made on first use, because many requests are
// answered without having to wait.
func (i *requestInfo) timed() context.Context {
	if i.deadline.IsZero() {
		return i.Context
	}
	i.limit.Do(func() {
		i.limited, i.cancel = context.WithDeadline(i.Context, i.deadline)
		i.made.Store(true)
	})
	return i.limited
}

// close frees the timer. For a goroutine that still holds the context, the context ends, as net/http's
// own context does at this time.
func (i *requestInfo) close() {
	i.limit.Do(func() {
		i.limited, i.cancel = i.Context, func() {}
		i.made.Store(true)
	})
	i.cancel()
}

// validRequestID takes 1 to 128 of A-Z a-z 0-9 . _ -.
func validRequestID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// traceID is the id of the trace that a traceparent of W3C Trace Context names; "" if it is not well-formed.
func traceID(traceparent string) string {
	parts := strings.SplitN(traceparent, "-", 5)
	known := len(parts) == 4 || len(parts) == 5 && parts[0] != "00" // later versions may add more
	if !known || !lowerHex(parts[0], 2) || parts[0] == "ff" || !lowerHex(parts[3], 2) {
		return ""
	}
	if !lowerHex(parts[1], 32) || !lowerHex(parts[2], 16) || strings.Trim(parts[1], "0") == "" || strings.Trim(parts[2], "0") == "" {
		return ""
	}
	return parts[1]
}

// lowerHex reports whether s has n digits of lower-case hex.
func lowerHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// answer is the writer of a request's response. It remembers the status and the size for metrics and
// log.
type answer struct {
	http.ResponseWriter
	status, size int // status 0: nothing was written yet
}

// WriteHeader sends the head; only the first counts.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK { // a status below 200 is followed by another
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body.
func (a *answer) Write(text []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	n, err := a.ResponseWriter.Write(text)
	a.size += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
