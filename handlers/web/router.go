package web

import (
	"net/http"
	"slices"
	"strings"

	"fanfare/api"

	"github.com/go-chi/chi/v5"
	"go.opentelemetry.io/otel/trace"
)

// Open is the scope of routes that need no key.
const Open api.Scope = ""

// Route is one line of a table of routes. HEAD comes with every GET, and
// OPTIONS with every path.
type Route struct {
	Method  string
	Pattern string // as chi reads it: {name} is a parameter, a * at the end anything
	// Scope is what the caller's key must cover; Open for routes without a key.
	Scope api.Scope
	Endpoint
}

// router mounts the table. HEAD comes with every GET, OPTIONS tells what a path
// takes, and everything else is a problem like any other.
func (s *Server) router(table []Route) *chi.Mux {
	mux := chi.NewRouter()
	for _, rt := range table {
		h := s.mount(rt)
		mux.MethodFunc(rt.Method, rt.Pattern, h)
		if rt.Method == http.MethodGet {
			mux.MethodFunc(http.MethodHead, rt.Pattern, h)
		}
	}
	mux.NotFound(NotFound)
	mux.MethodNotAllowed(func(w http.ResponseWriter, r *http.Request) { otherMethod(mux, w, r) })
	return mux
}

// NotFound answers for paths that no route has.
func NotFound(w http.ResponseWriter, r *http.Request) {
	fail(w, r, api.Errorf(api.CodeNotFound, "there is nothing at this path"))
}

// mount puts around an endpoint what it and its scope ask for.
func (s *Server) mount(rt Route) http.HandlerFunc {
	run := func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		defer func() { s.admission.shrink(info.body) }()
		if err := rt.serve(s, w, r, rt.maxBody); err != nil {
			fail(w, r, err)
		}
	}
	run = rt.limits(s, run)
	if rt.Scope != Open {
		run = s.authorize(rt.Scope, run)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		infoOf(r.Context()).route = rt.Pattern
		trace.SpanFromContext(r.Context()).SetName(rt.Method + " " + rt.Pattern)
		run(w, r)
	}
}

// otherMethod answers a method that a path does not take: OPTIONS with what it
// takes, any other with a problem that says the same.
func otherMethod(mux *chi.Mux, w http.ResponseWriter, r *http.Request) {
	allow := allowed(mux, r)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	fail(w, r, api.Errorf(api.CodeMethodNotAllowed, "this path takes %s", strings.Join(allow, ", ")))
}

// allowed lists the methods that the request's path takes.
func allowed(mux *chi.Mux, r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	methods := []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"}
	methods = slices.DeleteFunc(methods, func(m string) bool { return !mux.Match(chi.NewRouteContext(), m, path) })
	return append(methods, http.MethodOptions)
}
