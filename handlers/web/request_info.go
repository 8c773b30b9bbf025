package web

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"fanfare/api"

	"go.opentelemetry.io/otel/trace"
)

// requestInfo is what one request and its answer share on their way through the
// middleware: one value in the context instead of one per concern.
type requestInfo struct {
	id      string // X-Request-Id
	route   string // the pattern, never the path: paths name users and tokens
	key     *api.Key
	err     error // what the answer could not say, for the log
	started time.Time
	body    int64 // bytes of the limit that the body takes
}

type infoKey struct{}

// infoOf gives the request's info, an empty one outside of a request.
func infoOf(ctx context.Context) *requestInfo {
	if info, ok := ctx.Value(infoKey{}).(*requestInfo); ok {
		return info
	}
	return &requestInfo{}
}

// keyID is the API key's id; "" on an open server.
func (i *requestInfo) keyID() string {
	if i.key == nil {
		return ""
	}
	return i.key.ID
}

// identify gives every request its info and an id, the caller's own if it is
// well-formed, and returns the id with the answer.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("X-Request-Id")
		if !validRequestID(id) {
			id = rand.Text()
		}
		w.Header().Set("X-Request-Id", id)
		info := &requestInfo{id: id, route: unmatched, started: time.Now()}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), infoKey{}, info)))
	})
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

// traceID is the id of the caller's trace, or of ours, "" for none.
func traceID(ctx context.Context) string {
	if sc := trace.SpanContextFromContext(ctx); sc.HasTraceID() {
		return sc.TraceID().String()
	}
	return ""
}
