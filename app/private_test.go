package app

import (
	"net/http/httptest"
	"testing"
)

// A page whose own name resolves to the private address reads no profiles.
func TestProfilesAreServedByAddressOnly(t *testing.T) {
	t.Parallel()
	_, private := mustBuildApp(t, "FANFARE_METRICS_ADDR=ops.internal:9090").handlers()
	for host, want := range map[string]int{
		"127.0.0.1:9090": 200, "[::1]:9090": 200, "[::1]": 200, "10.0.0.7": 200, "localhost:9090": 200, "OPS.internal:9090": 200,
		"evil.example:9090": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		r := httptest.NewRequest("GET", "/debug/pprof/cmdline", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if private.ServeHTTP(w, r); w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
	}
}
