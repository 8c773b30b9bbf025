package handlers_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
)

// FuzzRequest sends arbitrary requests to every route: names in the path, a query, headers and a
// body. Each request is answered, no answer is an internal error, and a refusal is a problem
// according to the contract.
func FuzzRequest(f *testing.F) {
	w := setup(f)
	w.workChats()
	w.workSales()
	w.mustChat("x", "bob", "amy")
	w.put("/v1/sales/x", saleBody(`[{"sku":"a","stock":9}]`))
	routes := handlers.Routes()
	event := `{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}`
	for i := range routes {
		for _, seed := range []struct{ name, query, header, body string }{
			{"x", "", "", ""}, {"bob", "limit=2&cursor=MWE", `"1"`, event}, {"a/b%", "limit=-1&limit=2", "*", `{"events":[` + event + `]}`},
			{"\x00", "wait_ms=9223372036854775808", `"0", W/"1"`, `{"items":[{"sku":"a","stock":-1}]}`},
			{"..", "after=1&epoch=%ff;x=1", "AQ", `{"user":"u","lines":[{"sku":"a","quantity":9223372036854775807}]}`},
			{strings.Repeat("ü", 99), "cursor=MTkgdGVhbQ&user=bob", "1-2", `{"acks":{"x":1}}`}, {token, "q", "\x7f", `[`},
			{"x", "cursor=MW51bGw", "", ""}, {"x", "cursor=MXsiZXZlbnQiOnsiYyI6Ii01LTMtMCJ9fQ", "", ""},
			{"x", "cursor=MTkyMjMzNzIwMzY4NTQ3NzU4MDggeA", "", `{"sender":"bob","text":"x"}`}, {"x", "cursor=MS05MjIzMzcyMDM2ODU0Nzc1ODA4IHg", "", `{"members":["bob"]}`},
		} {
			f.Add(i, seed.name, seed.query, seed.header, seed.body)
		}
	}
	f.Fuzz(func(t *testing.T, n int, name, query, header, body string) {
		route := routes[uint(n)%uint(len(routes))]
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, route.Method, "http://127.0.0.1/", strings.NewReader(body))
		r.URL.Path = fillPattern(route.Pattern, name)
		r.URL.RawPath = fillPattern(route.Pattern, url.PathEscape(name))
		r.URL.RawQuery = strings.ReplaceAll(query, "wait_ms", "wait")
		r.Header["Content-Type"] = []string{"application/json"}
		for _, h := range []string{"If-Match", "If-None-Match", "Last-Event-Id", "Idempotency-Key", "X-Request-Id"} {
			if header != "" {
				r.Header[h] = []string{header}
			}
		}
		answer := &streamRecorder{ResponseRecorder: httptest.NewRecorder(), leave: cancel}
		w.handler.ServeHTTP(answer, r)
		mustBeAnswered(t, route.Method+" "+r.URL.String(), answer.ResponseRecorder)
	})
}

// fillPattern puts a name in every parameter of a pattern.
func fillPattern(pattern, name string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") || part == "*" {
			parts[i] = name
		}
	}
	return strings.Join(parts, "/")
}

// streamRecorder is a client that disconnects when a stream has begun.
type streamRecorder struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (r *streamRecorder) Flush()                           { r.leave() }
func (r *streamRecorder) SetReadDeadline(time.Time) error  { return nil }
func (r *streamRecorder) SetWriteDeadline(time.Time) error { return nil }

func mustBeAnswered(t *testing.T, what string, a *httptest.ResponseRecorder) {
	t.Helper()
	if a.Code < 400 || a.Code == http.StatusPreconditionFailed && a.Body.Len() == 0 { // net/http answers so for a document
		if a.Code != http.StatusNoContent && a.Body.Len() > 0 && a.Header().Get("Content-Type") == "application/json" && !json.Valid(a.Body.Bytes()) {
			t.Fatalf("%s: %d %s", what, a.Code, a.Body)
		}
		return
	}
	var p api.Problem
	err := json.Unmarshal(a.Body.Bytes(), &p)
	if err != nil || p.Status != a.Code || api.MeaningOf(p.Code).Status != a.Code || p.RequestID == "" {
		t.Fatalf("%s: %d %s, %v", what, a.Code, a.Body, err)
	}
	if a.Code >= 500 && p.Code != api.CodeOverloaded {
		t.Fatalf("%s: %d %s", what, a.Code, a.Body)
	}
}
