package app

import (
	"context"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fanfare/api"
)

// privateHandler serves operators at FANFARE_METRICS_ADDR: metrics, health, readiness
// with its details, and profiles.
func (a *app) privateHandler(public http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", public)
	mux.Handle("GET /healthz", public)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		public.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forOperators{}, true)))
	})
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/", a.byAddress(profiles))
	return mux
}

// byAddress admits requests whose Host is an IP address, localhost or the host of
// FANFARE_METRICS_ADDR. A web page in an operator's browser can let its own host name resolve to
// the private address, but then its requests have that name as their Host.
func (a *app) byAddress(next http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(a.config.MetricsAddr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, own) {
			http.Error(w, "profiles are served by address only, not under the name "+strconv.Quote(host), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forOperators marks the context of a request that came in at FANFARE_METRICS_ADDR.
type forOperators struct{}

// readyFor is the reply of /readyz. If there is a separate address for operators, the public
// address shows states without details.
func (a *app) readyFor(ctx context.Context) api.Readiness {
	state := a.ready(ctx)
	if a.config.MetricsAddr == "" || ctx.Value(forOperators{}) != nil {
		return state
	}
	state.Notes, state.Dependencies = nil, slices.Clone(state.Dependencies) // other replies share the slice
	for i := range state.Dependencies {
		state.Dependencies[i].Detail = ""
	}
	return state
}
