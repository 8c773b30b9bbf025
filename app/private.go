package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"fanfare/api"
)

// privateHandler is the face for operators, at FANFARE_METRICS_ADDR: what public
// has for them, readiness in full, and profiles.
func (a *app) privateHandler(public http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", public)
	mux.Handle("GET /healthz", public)
	mux.HandleFunc("GET /readyz", a.readyInFull)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

func (a *app) readyInFull(w http.ResponseWriter, r *http.Request) {
	state := a.ready(r.Context())
	w.Header().Set("Content-Type", "application/json")
	if !state.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(state) // the caller may be gone
}

// readyInShort is what the public may know of it: the states.
func (a *app) readyInShort(ctx context.Context) api.Readiness {
	state := a.ready(ctx)
	state.Notes = nil
	for i := range state.Dependencies {
		state.Dependencies[i].Detail = ""
	}
	return state
}
