package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/handlers"
)

func TestReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  api.Readiness
		status int
		want   string
	}{
		"ready": {
			api.Readiness{Ready: true, Dependencies: []api.Dependency{{Name: "redis", State: "ok", LatencyMS: 0.2}}},
			200, `{"ready":true,"dependencies":[{"name":"redis","state":"ok","latency_ms":0.2}]}`,
		},
		"not ready": {
			api.Readiness{Dependencies: []api.Dependency{{Name: "sql", State: "away", Detail: "no answer"}}, Notes: []string{"shard 3 is not served"}},
			503, `{"ready":false,"dependencies":[{"name":"sql","state":"away","latency_ms":0,"detail":"no answer"}],"notes":["shard 3 is not served"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, func(o *handlers.Options) { o.Ready = func(context.Context) api.Readiness { return c.state } })
			w.get("/readyz").wants(t, c.status, c.want)
		})
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.DeliveredPerSecond = func() float64 { return 2.5 } })
	w.post("/v1/events", anEvent).wants(t, 202, `{"id":"*"}`)
	var stats api.Stats
	storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/stats").body), &stats))
	if len(stats.Queues) != 3 || stats.DeliveredPerSecond != 2.5 {
		t.Fatalf("%+v", stats)
	}
	if q := stats.Queues[0]; q.Name != "events" || q.Depth != 1 {
		t.Errorf("%+v", q)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/users/bobby-tables/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
	w.get("/v1/users/bobby-tables/nothing")
	w.do(call{method: "BREW", path: "/v1/events"})
	w.put("/v1/event-types/a", `{`)
	text := w.get("/metrics").body
	for _, want := range []string{
		`fanfare_http_request_duration_seconds_count{method="PUT",route="/v1/users/{user}/devices/{token}",status="201"} 1`,
		`fanfare_http_request_duration_seconds_count{method="GET",route="unmatched",status="404"} 1`,
		`fanfare_http_request_duration_seconds_count{method="other",route="unmatched",status="405"} 1`,
		`fanfare_http_problems_total{code="invalid_json"} 1`,
		`fanfare_http_in_flight_requests 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s", want)
		}
	}
	for _, secret := range []string{"bobby-tables", token, "BREW"} {
		if strings.Contains(text, secret) {
			t.Errorf("shows %s", secret)
		}
	}
}

// logLine finds the request's line by its id.
func (w *world) logLine(t *testing.T, id string) map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(w.log.String()) {
		var fields map[string]any
		storetest.Must(t, json.Unmarshal([]byte(line), &fields))
		if fields["request_id"] == id && fields["msg"] == "request" {
			found = append(found, fields)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines for %s in\n%s", len(found), id, w.log.String())
	}
	return found[0]
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	w := setup(t)
	t.Run("one line a request, with the caller's id and trace", func(t *testing.T) {
		const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		a := w.do(put("/v1/users/secret-user/opt-outs/a", "").with("X-Request-Id: my.id-1_2", "Traceparent: 00-"+trace+"-00f067aa0ba902b7-01"))
		if a.header.Get("X-Request-Id") != "my.id-1_2" {
			t.Errorf("X-Request-Id: %s", a.header.Get("X-Request-Id"))
		}
		line := w.logLine(t, "my.id-1_2")
		for name, want := range map[string]any{"level": "DEBUG", "method": "PUT", "route": "/v1/users/{user}/opt-outs/{type}", "status": 204.0, "trace_id": trace} {
			if line[name] != want {
				t.Errorf("%s: %v, want %v", name, line[name], want)
			}
		}
	})
	t.Run("paths and keys stay out of it", func(t *testing.T) {
		key := w.mustKey(api.ScopePush)
		w.do(put("/v1/users/secret-user/opt-outs/a", "").with("Authorization: Bearer " + key))
		if log := w.log.String(); strings.Contains(log, "secret-user") || strings.Contains(log, key) {
			t.Error(log)
		}
	})
	t.Run("an unfit id is replaced", func(t *testing.T) {
		for _, id := range []string{"a b", "x;y", strings.Repeat("x", 129), "é"} {
			got := w.do(get("/healthz").with("X-Request-Id: " + id)).header.Get("X-Request-Id")
			if got == id || len(got) < 26 {
				t.Errorf("%q became %q", id, got)
			}
		}
	})
}

func TestInternalErrors(t *testing.T) {
	t.Parallel()
	hidden := problem(api.CodeInternal, "something went wrong on our side; the request id finds it in the log")
	t.Run("a panic is a problem, and its stack is logged", func(t *testing.T) {
		t.Parallel()
		w := setup(t, func(o *handlers.Options) {
			o.Ready = func(context.Context) api.Readiness { panic("a secret of the server") }
		})
		a := w.get("/readyz").wants(t, 500, hidden)
		if log := w.log.String(); !strings.Contains(log, "a secret of the server") || !strings.Contains(log, "operations_test.go") {
			t.Errorf("the log has %s", log)
		}
		if line := w.logLine(t, a.header.Get("X-Request-Id")); line["level"] != "ERROR" {
			t.Errorf("%v", line)
		}
	})
	t.Run("SQL gone for good shows nothing of itself", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		storetest.Must(t, w.record.Close())
		began := time.Now()
		a := w.put("/v1/users/bob/opt-outs/a", "")
		if a.status < 500 || strings.Contains(a.body, "sql") || time.Since(began) > 6*time.Second {
			t.Errorf("%d %s", a.status, a.body)
		}
		if line := w.logLine(t, a.header.Get("X-Request-Id")); line["error"] == nil {
			t.Errorf("the log does not say why: %v", line)
		}
	})
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, path := range []string{"/healthz", "/v1/event-types", "/nothing", "/docs/", "/docs/jobs", "/docs/nothing", "/docs/api/", "/llms.txt", "/openapi.json", "/docs/api/swagger-ui.css"} {
		a := w.get(path)
		if a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	for _, path := range []string{"/docs/", "/docs/nothing", "/docs/api/"} {
		if csp := w.do(call{method: "GET", path: path}.with("Accept: text/html")).header.Get("Content-Security-Policy"); !strings.Contains(csp, "script-src 'self'") || strings.Contains(csp, "unsafe") {
			t.Errorf("the policy of %s is %s", path, csp)
		}
	}
}

// A parameter that a call does not know is refused like an unknown field, because otherwise a
// misspelt limit would have no effect. Probes accept any parameters, because load balancers may add
// some.
func TestUnknownParameters(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for path, want := range map[string][]string{
		"/v1/users/bob/recent-contacts?limt=5":         {"limt"},
		"/v1/users/bob/recent-contacts?limt=5&limit=0": {"limit", "limt"},
		"/v1/stats?a=1&_=2":                            {"_", "a"},
	} {
		a := w.get(path)
		var p api.Problem
		if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.status != 422 || p.Code != api.CodeValidation {
			t.Errorf("%s: %d %s", path, a.status, a.body)
			continue
		}
		var fields []string
		for _, f := range p.Errors {
			fields = append(fields, f.Field)
		}
		if slices.Sort(fields); !slices.Equal(fields, want) {
			t.Errorf("%s: names %v, want %v", path, fields, want)
		}
	}
	for _, path := range []string{"/healthz?probe=1", "/readyz?probe=1", "/v1/users/bob/recent-contacts?limit=5"} {
		if a := w.get(path); a.status != 200 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for path, want := range map[string]string{
		"/docs/":                         "text/html; charset=utf-8",
		"/docs/jobs":                     "text/html; charset=utf-8",
		"/docs/jobs.md":                  "text/markdown; charset=utf-8",
		"/docs/search.json":              "application/json",
		"/docs/console.png":              "image/png",
		"/docs/monitoring/alerts.yml":    "text/plain; charset=utf-8",
		"/docs/api/":                     "text/html; charset=utf-8",
		"/docs/api/start.js":             "text/javascript; charset=utf-8",
		"/docs/api/page.css":             "text/css; charset=utf-8",
		"/docs/api/swagger-ui-bundle.js": "javascript",
		"/docs/api/swagger-ui.css":       "text/css; charset=utf-8",
		"/docs/api/favicon-32x32.png":    "image/png",
		"/docs/webpush/":                 "text/html; charset=utf-8",
		"/llms.txt":                      "text/plain; charset=utf-8",
		"/openapi.json":                  "application/json",
	} {
		if a := w.get(path); a.status != 200 || !strings.Contains(a.header.Get("Content-Type"), want) || a.body == "" {
			t.Errorf("%s: %d %s", path, a.status, a.header.Get("Content-Type"))
		}
	}
	if a := w.get("/"); a.status != 302 || a.header.Get("Location") != "docs/" {
		t.Errorf("/: %d %v", a.status, a.header)
	}
	if a := w.get("/docs"); a.status != 301 || a.header.Get("Location") != "docs/" {
		t.Errorf("/docs: %d %v", a.status, a.header)
	}
	for _, path := range []string{"/docs/nothing.js", "/docs/page/", "/docs/embed.go", "/docs/api/nothing.js", "/docs/api/embed.go"} {
		if a := w.do(call{method: "GET", path: path}.with("Accept: text/html,*/*;q=0.8")); a.status != 404 || !strings.Contains(a.body, "<h1>There is no such page</h1>") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		w.get(path).wants(t, 404, problem(api.CodeNotFound, "there is nothing at this path; /openapi.json has all paths"))
	}
}

// Operations of both kinds are listed, those that began last first, each once over all pages.
func TestE1_ListOfOperations(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.get("/v1/operations").wants(t, 200, `{"items":[]}`)
	var begun []string
	for i := range 6 {
		if i%2 == 0 {
			begun = append(begun, w.post("/v1/dead-letters/delete", `{"all":true,"before":"2026-01-02T03:04:05Z","expect":0}`).wants(t, 202, `{"operation":"*","matched":0}`).member(t, "operation"))
		} else {
			begun = append(begun, w.post(fmt.Sprintf("/v1/users/u%d/recent-contacts/rebuild", i), "").wants(t, 202, `{"id":"*"}`).member(t, "id"))
		}
		at := time.Now()
		storetest.Eventually(t, 30*time.Second, "another 32nd of a second", func() bool { return time.Since(at) > time.Second/10 })
	}
	slices.Reverse(begun)
	var seen []string
	for next := "/v1/operations?limit=4"; next != ""; {
		a := w.get(next)
		for _, m := range eventID.FindAllStringSubmatch(a.body, -1) {
			seen = append(seen, m[1])
		}
		if next = a.member(t, "next"); next != "" {
			next = "/v1/operations?limit=4&cursor=" + next
		}
	}
	if !slices.Equal(seen, begun) {
		t.Errorf("the list has %v, want %v", seen, begun)
	}
	w.get("/v1/operations?cursor=MXg").wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"cursor","rule":"cursor","message":"*"}]`))
	w.do(get("/v1/operations").with("Authorization: Bearer "+w.mustKey(api.ScopePush))).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"ops:read"`))
}

// Only keys that may begin an operation see it, and keys of operators.
func TestE1_WhoSeesAnOperation(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.workContacts()
	key := func(scope api.Scope) string { return "Authorization: Bearer " + w.mustKey(scope) }
	id := w.post("/v1/users/me/recent-contacts/rebuild", "", key(api.ScopeContacts)).wants(t, 202, `{"id":"*"}`).member(t, "id")
	path := "/v1/operations/" + id
	storetest.Eventually(t, 30*time.Second, "the rebuild is done", func() bool {
		return w.do(call{method: "GET", path: path}.with(key(api.ScopeOps))).member(t, "state") == "done"
	})
	done := `{"id":"` + id + `","action":"contacts.rebuild","state":"done","begun_at":"*","removed":{},"kept":{}}`
	for _, scope := range api.Scopes {
		a := w.do(call{method: "GET", path: path}.with(key(scope)))
		if scope == api.ScopeContacts || scope.Covers(api.ScopeOpsRead) || scope == api.ScopeAdmin {
			a.wants(t, 200, done)
		} else {
			a.wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope contacts", `"scope":"contacts"`))
		}
	}
	w.do(call{method: "GET", path: "/v1/operations/unknown"}.with(key(api.ScopeAdmin))).wants(t, 404, problem(api.CodeNotFound, "there is no operation unknown, or it is no longer kept"))
}
