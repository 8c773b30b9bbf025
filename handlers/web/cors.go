package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
)

// AnyOrigin allows every page. It must be the only entry in a list of origins.
const AnyOrigin = "*"

// The headers that pages of other origins may send and read, and for how many seconds browsers
// may remember this. Credentials are never allowed, because fanfare has no cookies.
var (
	corsMaxAge  = []string{"600"}
	corsHeaders = []string{"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID"}
	corsExposed = []string{"ETag, Location, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id"}
	varyOrigin  = []string{"Origin"}
)

// CheckOrigin returns an error if a text is not an origin in the form that browsers send.
func CheckOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme == "" || u.Host == "" || u.User != nil || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(origin, "*") {
		return errors.New("is not an origin such as https://app.example.com, in lower case and without a path")
	}
	return nil
}

// origins are the origins whose pages may call the routes that take user tokens.
type origins struct {
	any   bool
	named map[string]bool
}

func newOrigins(list []string) origins {
	o := origins{named: make(map[string]bool, len(list))}
	for _, origin := range list {
		o.any = o.any || origin == AnyOrigin
		o.named[origin] = true
	}
	return o
}

// admitted is the value of Access-Control-Allow-Origin for the calling page, "" for a page that may
// not call. A server without a key admits only pages of this machine, even with AnyOrigin.
func (s *Server) admitted(r *http.Request) string {
	origin := r.Header["Origin"]
	switch {
	case len(origin) != 1:
		return ""
	case s.origins.named[origin[0]] && origin[0] != AnyOrigin:
		return origin[0]
	case !s.o.HasKeys():
		if loopbackOrigin(origin[0]) {
			return origin[0]
		}
		return ""
	case s.origins.any:
		return AnyOrigin
	}
	return ""
}

func loopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Scheme+"://"+u.Host == origin && loopbackHost(u.Host)
}

// shared lets pages of other origins read a route's responses, including refusals.
func (s *Server) shared(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if len(s.origins.named) > 0 || !s.o.HasKeys() {
			w.Header()["Vary"] = varyOrigin
			if origin := s.admitted(r); origin != "" {
				w.Header()["Access-Control-Allow-Origin"] = []string{origin}
				w.Header()["Access-Control-Expose-Headers"] = corsExposed
			}
		}
		next(w, r)
	}
}

// toAllPages lets pages of every origin read a route's responses, including refusals.
func toAllPages(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Access-Control-Allow-Origin"] = []string{AnyOrigin}
		next(w, r)
	}
}

// preflight answers a browser that asks whether a page of another origin may call a path. It applies
// only to paths that such pages can be allowed to call.
func (rt *router) preflight(w http.ResponseWriter, r *http.Request, params *chi.Context, path string) (answered bool) {
	asked := r.Header.Get("Access-Control-Request-Method")
	if r.Method != http.MethodOptions || asked == "" {
		return false
	}
	origin := rt.server.admitted(r)
	if m := rt.find(params, asked, path); origin == "" || m == nil || !m.users {
		return false
	}
	var methods []string
	for _, method := range rt.allowed(params, path) {
		if m := rt.find(params, method, path); m != nil && m.users {
			methods = append(methods, method)
		}
	}
	h := w.Header()
	h["Vary"] = varyOrigin
	h["Access-Control-Allow-Origin"] = []string{origin}
	h["Access-Control-Allow-Methods"] = []string{strings.Join(methods, ", ")}
	h["Access-Control-Allow-Headers"] = corsHeaders
	h["Access-Control-Max-Age"] = corsMaxAge
	w.WriteHeader(http.StatusNoContent)
	return true
}
