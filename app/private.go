package app

import (
	"context"
	"net/http"
	"net/http/pprof"
	"slices"

	"fanfare/api"
)

// privateHandler is the face for operators, at FANFARE_METRICS_ADDR: what public
// has for them, readiness in full, and profiles.
func (a *app) privateHandler(public http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", public)
	mux.Handle("GET /healthz", public)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		public.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forOperators{}, true)))
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// forOperators is in the context of what came in at FANFARE_METRICS_ADDR.
type forOperators struct{}

// readyFor is what /readyz says: while there is an address for operators, the public
// is told the states alone.
func (a *app) readyFor(ctx context.Context) api.Readiness {
	state := a.ready(ctx)
	if a.config.MetricsAddr == "" || ctx.Value(forOperators{}) != nil {
		return state
	}
	state.Notes, state.Dependencies = nil, slices.Clone(state.Dependencies) // others have the same
	for i := range state.Dependencies {
		state.Dependencies[i].Detail = ""
	}
	return state
}
