package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// With FANFARE_METRICS_ADDR the data for operators is served only there: metrics, the details of
// readiness, profiles.
func TestPrivateAddress(t *testing.T) {
	t.Parallel()
	private := fmt.Sprintf("127.0.0.1:%d", storetest.FreePort(t))
	p := mustServe(t, t.TempDir(), "FANFARE_METRICS_ADDR="+private)
	get := func(base, path string) (int, string) {
		t.Helper()
		there := &program{base: base}
		status, body, err := there.try("GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if status == 503 { // the machine may be so busy that even the embedded Redis does not answer in time
			p.awaitReady()
			status, body, _ = there.try("GET", path, nil)
		}
		return status, string(body)
	}
	for _, row := range []struct {
		base, path string
		status     int
		has        string
	}{
		{p.base, "/metrics", 404, `"not_found"`},
		{p.base, "/debug/pprof/", 404, `"not_found"`},
		{p.base, "/debug/pprof/heap", 404, `"not_found"`},
		{p.base, "/readyz", 200, `"name":"redis","state":"ok"`},
		{p.base, "/healthz", 200, `"ok"`},
		{p.base, "/v1/event-types", 200, `"items"`},
		{"http://" + private, "/metrics", 200, "fanfare_http_in_flight_requests 1"},
		{"http://" + private, "/readyz", 200, "Redis is embedded"},
		{"http://" + private, "/healthz", 200, `"ok"`},
		{"http://" + private, "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"http://" + private, "/debug/pprof/profile?seconds=1", 200, ""},
		{"http://" + private, "/v1/event-types", 404, ""},
		{"http://" + private, "/docs/", 404, ""},
	} {
		if status, body := get(row.base, row.path); status != row.status || !strings.Contains(body, row.has) {
			t.Errorf("%s%s: %d %.200s", row.base, row.path, status, body)
		}
	}
	if _, body := get(p.base, "/readyz"); strings.Contains(body, "notes") || strings.Contains(body, "detail") {
		t.Errorf("the public is told %s", body)
	}
	if code, _ := p.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// Without it metrics and readiness are served with everything else, and profiles are not served.
func TestNoPrivateAddress(t *testing.T) {
	t.Parallel()
	p := mustServe(t, t.TempDir())
	if status, body, _ := p.try("GET", "/metrics", nil); status != 200 || !strings.Contains(string(body), "fanfare_") {
		t.Errorf("metrics: %d", status)
	}
	if status, body, _ := p.try("GET", "/readyz", nil); status != 200 || !strings.Contains(string(body), "Redis is embedded") {
		t.Errorf("readiness: %d %s", status, body)
	}
	if status, _, _ := p.try("GET", "/debug/pprof/", nil); status != 404 {
		t.Errorf("profiles: %d", status)
	}
}

// Without a terminal everything that a server writes is JSON, one value per line, from the start to
// the end and also if it cannot start.
func TestAllOutputIsJSON(t *testing.T) {
	t.Parallel()
	serving := func(t *testing.T, vars ...string) *program {
		p := mustServe(t, t.TempDir(), vars...)
		p.must(200, nil, "GET", "/v1/event-types", nil)
		p.must(404, nil, "GET", "/nothing", nil)
		if code, _ := p.terminate(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return p
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	failing := func(t *testing.T, vars ...string) *program {
		p := launch(t, t.TempDir(), nil, vars...)
		if code := p.exitCode(20 * time.Second); code != 1 {
			t.Errorf("exit code %d", code)
		}
		return p
	}
	for name, run := range map[string]func(*testing.T) *program{
		"Served":     func(t *testing.T) *program { return serving(t) },
		"AskedFor":   func(t *testing.T) *program { return serving(t, "FANFARE_LOG_FORMAT=json", "FANFARE_LOG_LEVEL=debug") },
		"PortTaken":  func(t *testing.T) *program { return failing(t, "FANFARE_ADDR="+taken.Addr().String()) },
		"BadSetting": func(t *testing.T) *program { return failing(t, "FANFARE_SHARDS=x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := run(t)
			lines := strings.Split(strings.TrimSpace(p.stdout.String()+p.stderr.String()), "\n")
			for _, line := range lines {
				var v struct{ Time, Level, Msg string }
				if err := json.Unmarshal([]byte(line), &v); err != nil || v.Time == "" || v.Level == "" || v.Msg == "" {
					t.Errorf("no line of a JSON log: %s", line)
				}
			}
			if p.stdout.String() != "" || len(lines) == 0 {
				t.Errorf("stdout: %s", p.stdout.String())
			}
		})
	}
	t.Run("TextWhenAskedFor", func(t *testing.T) {
		t.Parallel()
		if p := serving(t, "FANFARE_LOG_FORMAT=text"); strings.Contains(p.stderr.String(), `"msg"`) || !strings.Contains(p.stdout.String(), "fanfare listens on") {
			t.Errorf("%s%s", p.stdout.String(), p.stderr.String())
		}
	})
}
