package web

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"fanfare/api"

	"github.com/go-chi/chi/v5"
)

// Open is the scope of routes that need no key.
const Open api.Scope = ""

// AnyKey is the scope of routes that every API key may call. What it gets there is decided by the
// method, with Allows.
const AnyKey api.Scope = "*"

// unmatched is the route label of requests without a route.
const unmatched = "unmatched"

// Route is one line of a table of routes. HEAD comes with every GET, and
// OPTIONS with every path.
type Route struct {
	Method  string
	Pattern string // as chi reads it: {name} is a parameter, a * at the end anything
	// Scope is the scope that the caller's key must cover; Open for routes without a key.
	Scope api.Scope
	// User is the scope that a user token needs for the route; "": the route takes no user token.
	User api.UserScope
	// Pages lets pages of every origin read the answers, which say nothing about users.
	Pages bool
	Endpoint
}

// For opens the route to user tokens with a scope.
func (rt Route) For(scope api.UserScope) Route {
	rt.User = scope
	return rt
}

// ForPages opens the route to pages of every origin.
func (rt Route) ForPages() Route {
	rt.Pages = true
	return rt
}

// router finds the route of a request. It uses chi only to match paths: if chi also called the
// handlers, every request would get another context and be copied.
type router struct {
	server *Server
	mux    *chi.Mux
	routes map[target]*mounted
	params sync.Pool // of *chi.Context
}

// target is chi's result for a request.
type target struct{ method, pattern string }

// mounted is a route whose endpoint is wrapped in everything that the route requires.
type mounted struct {
	pattern   string
	users     bool // user tokens and pages of other origins may call it
	run       http.HandlerFunc
	durations durations
}

// newRouter mounts the table. HEAD comes with every GET, OPTIONS lists the methods of a path,
// and everything else is a problem like any other.
func (s *Server) newRouter(table []Route) *router {
	rt := &router{server: s, mux: chi.NewRouter(), routes: map[target]*mounted{}, params: sync.Pool{New: func() any { return chi.NewRouteContext() }}}
	for _, route := range table {
		m := s.mount(route)
		rt.add(route.Method, m)
		if route.Method == http.MethodGet {
			rt.add(http.MethodHead, m)
		}
	}
	return rt
}

func (rt *router) add(method string, m *mounted) {
	rt.mux.MethodFunc(method, m.pattern, m.run)
	rt.routes[target{method, m.pattern}] = m
}

// serve runs the route of a request.
func (rt *router) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	params := rt.params.Get().(*chi.Context)
	m := rt.find(params, r.Method, path)
	switch {
	case rt.preflight(w, r, params, path):
	case rt.server.foreign(r, m != nil && m.users):
		fail(w, r, errForeign())
	case m == nil:
		rt.refuse(w, r, rt.allowed(params, path))
	default:
		info := infoOf(r.Context())
		info.route, info.params = m, params
		m.run(w, r)
		info.params = nil
	}
	rt.params.Put(params)
}

// find finds a method's route for a path, nil when there is none. Afterwards params holds the
// parameters of the path.
func (rt *router) find(params *chi.Context, method, path string) *mounted {
	params.Reset()
	return rt.routes[target{method, rt.mux.Find(params, method, path)}]
}

// refuse answers for a path that no route has, and for a method that a path does not take.
// OPTIONS gets the list of methods; any other method gets a problem with the same list.
func (rt *router) refuse(w http.ResponseWriter, r *http.Request, allow []string) {
	if len(allow) == 0 {
		NotFound(w, r)
		return
	}
	takes := strings.Join(append(allow, http.MethodOptions), ", ")
	w.Header().Set("Allow", takes)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	fail(w, r, api.Errorf(api.CodeMethodNotAllowed, "this path takes %s", takes))
}

// allowed lists the methods that have a route for the path.
func (rt *router) allowed(params *chi.Context, path string) []string {
	methods := []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"}
	return slices.DeleteFunc(methods, func(m string) bool {
		params.Reset()
		return !rt.mux.Match(params, m, path)
	})
}

// forPages reports whether pages of other origins may call the route.
func (rt *Route) forPages() bool { return rt.User != "" || rt.Pages }

// NotFound answers for paths that have no route.
func NotFound(w http.ResponseWriter, r *http.Request) {
	fail(w, r, api.Errorf(api.CodeNotFound, "there is nothing at this path; /openapi.json has all paths"))
}

// mount wraps a route's endpoint in the checks that the endpoint and its scope require.
func (s *Server) mount(rt Route) *mounted {
	run := func(w http.ResponseWriter, r *http.Request) {
		if err := rt.serve(s, w, r, rt.maxBody); err != nil {
			fail(w, r, err)
		}
	}
	run = rt.limits(s, run)
	if rt.Scope != Open {
		run = s.started(s.authorize(&rt, run))
	}
	if rt.User != "" {
		run = s.shared(run)
	}
	if rt.Pages {
		run = toAllPages(run)
	}
	m := s.meters.mounted(rt.Pattern, run)
	m.users = rt.forPages()
	return m
}
