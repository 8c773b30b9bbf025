package handlers_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/handlers/web"
)

// pathOf fills a pattern with valid names.
func pathOf(pattern string) string {
	return strings.NewReplacer("{user}", "bob", "{token}", token, "{type}", "photo.shared", "{object}", "album:42", "{topic}", "news", "{queue}", "emails", "{id}", "x", "{contact}", "amy", "*", "").Replace(pattern)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := setup(t)
	admin := w.mustKey(api.ScopeAdmin)
	chats, contacts := w.mustKey(api.ScopeChat), w.mustKey(api.ScopeContacts)
	for _, rt := range handlers.Routes() {
		other := chats
		if rt.Scope == api.ScopeChat {
			other = contacts
		}
		c := call{method: rt.Method, path: pathOf(rt.Pattern)}
		t.Run(rt.Method+" "+rt.Pattern, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(rt.Pattern, "/console") {
				return // it has its own login, see TestN3_VisitorsSeeNothing
			}
			if rt.Scope == "" {
				if a := w.do(c); a.status >= 400 {
					t.Errorf("is open, but answers %d without a key", a.status)
				}
				return
			}
			a := w.do(c).wants(t, 401, problem(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one"))
			if got := a.header.Get("WWW-Authenticate"); got != `Bearer realm="fanfare"` {
				t.Errorf("WWW-Authenticate: %s", got)
			}
			if rt.Scope == web.AnyKey {
				return // see TestE1_WhoSeesAnOperation
			}
			a = w.do(c.with("Authorization: Bearer "+other)).wants(t, 403,
				problem(api.CodeForbidden, "this API key lacks the scope "+string(rt.Scope), fmt.Sprintf(`"scope":%q`, rt.Scope)))
			if got := a.header.Get("WWW-Authenticate"); got != fmt.Sprintf(`Bearer realm="fanfare", error="insufficient_scope", scope="%s"`, rt.Scope) {
				t.Errorf("WWW-Authenticate: %s", got)
			}
			if status := w.status(t, c.with("Authorization: Bearer "+admin)); status == 401 || status == 403 { // it may be a stream
				t.Errorf("admin does not cover %s: %d", rt.Scope, status)
			}
		})
	}
}

func TestKeyHeaders(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.mustKey(api.ScopePush)
	for name, c := range map[string]struct {
		status  int
		headers []string
	}{
		"the scheme in any case":  {200, []string{"Authorization: bearer " + key}},
		"another scheme":          {401, []string{"Authorization: Basic " + key}},
		"the key alone":           {401, []string{"Authorization: " + key}},
		"an empty key":            {401, []string{"Authorization: Bearer "}},
		"two headers":             {401, []string{"Authorization: Bearer " + key, "Authorization: Bearer " + key}},
		"a key with a letter off": {401, []string{"Authorization: Bearer " + key[:len(key)-1] + "~"}},
		"a key in the query":      {401, []string{"X-Api-Key: " + key}},
		"forwarded, with a key":   {200, []string{"Authorization: Bearer " + key, "X-Forwarded-For: 1.2.3.4", "Host: api.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if a := w.do(get("/v1/event-types").with(c.headers...)); a.status != c.status {
				t.Errorf("status %d, want %d: %s", a.status, c.status, a.body)
			}
		})
	}
}

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	w := setup(t)
	key := w.mustKey(api.ScopePush)
	wrong := get("/v1/event-types").with("Authorization: Bearer ff_nobody_knows")
	for range 20 {
		w.do(wrong).wants(t, 401, problem(api.CodeUnauthorized, "the API key is unknown or revoked"))
	}
	t.Run("after 20 in a minute the address gets 429", func(t *testing.T) {
		a := w.do(wrong).wants(t, 429, problem(api.CodeRateLimited, "too many wrong API keys from this address", `"retry_after_ms":"*"`))
		if a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	})
	t.Run("a right key still passes, as many may share an address", func(t *testing.T) {
		w.do(get("/v1/event-types").with("Authorization: Bearer "+key)).wants(t, 200, `{"items":[]}`)
	})
	t.Run("a forged address does not help", func(t *testing.T) {
		w.do(wrong.with("X-Forwarded-For: 9.9.9.9")).wants(t, 429, problem(api.CodeRateLimited, "too many wrong API keys from this address", `"retry_after_ms":"*"`))
	})
}

func TestOpenServer(t *testing.T) {
	t.Parallel()
	w := setup(t)
	origin := "Origin: " + w.url
	misdirected := problem(api.CodeMisdirected, "without an API key this server answers only to localhost")
	proxied := problem(api.CodeForbidden, "without an API key this server answers no forwarded requests")
	foreign := problem(api.CodeForbidden, "without an API key this server answers no pages of other origins")
	for name, c := range map[string]struct {
		status  int
		want    string
		headers []string
	}{
		"Host 127.0.0.1":              {200, `{"items":[]}`, nil},
		"Host localhost":              {200, `{"items":[]}`, []string{"Host: localhost"}},
		"Host LOCALHOST with a port":  {200, `{"items":[]}`, []string{"Host: LOCALHOST:8080"}},
		"Host [::1]":                  {200, `{"items":[]}`, []string{"Host: [::1]:8080"}},
		"Host 127.8.8.8":              {200, `{"items":[]}`, []string{"Host: 127.8.8.8"}},
		"Host of a rebound name":      {421, misdirected, []string{"Host: evil.example.com"}},
		"Host that begins well":       {421, misdirected, []string{"Host: localhost.evil.example.com"}},
		"Host of another address":     {421, misdirected, []string{"Host: 192.168.1.2:8080"}},
		"Host 0.0.0.0":                {421, misdirected, []string{"Host: 0.0.0.0"}},
		"Origin of its own":           {200, `{"items":[]}`, []string{origin}},
		"Origin of another page":      {403, foreign, []string{"Origin: https://evil.example.com"}},
		"Origin of another port":      {403, foreign, []string{"Origin: http://127.0.0.1:1"}},
		"Origin of another scheme":    {403, foreign, []string{strings.Replace(origin, "http:", "https:", 1)}},
		"Origin null":                 {403, foreign, []string{"Origin: null"}},
		"Forwarded":                   {403, proxied, []string{"Forwarded: for=1.2.3.4"}},
		"X-Forwarded-For":             {403, proxied, []string{"X-Forwarded-For: 127.0.0.1"}},
		"X-Forwarded-Anything":        {403, proxied, []string{"X-Forwarded-Proto: https"}},
		"X-Real-IP":                   {403, proxied, []string{"X-Real-IP: 127.0.0.1"}},
		"Via":                         {403, proxied, []string{"Via: 1.1 proxy"}},
		"CF-Connecting-IP":            {403, proxied, []string{"CF-Connecting-IP: 1.2.3.4"}},
		"a key that nobody ever made": {200, `{"items":[]}`, []string{"Authorization: Bearer ff_x_y"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.do(get("/v1/event-types").with(c.headers...)).wants(t, c.status, c.want)
		})
	}
	t.Run("HTTP/1.0, which proxies speak by default", func(t *testing.T) {
		t.Parallel()
		r, a := httptest.NewRequest("GET", w.url+"/v1/event-types", nil), httptest.NewRecorder()
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
		w.handler.ServeHTTP(a, r)
		answer{a.Code, a.Header(), a.Body.String()}.wants(t, 403, proxied)
	})
	t.Run("health too", func(t *testing.T) {
		t.Parallel()
		w.do(get("/healthz").with("Host: evil.example.com")).wants(t, 421, misdirected)
	})
}

// A request that arrives while the process starts is checked again when its key would be asked for.
func TestOpenServerThatStarts(t *testing.T) {
	t.Parallel()
	for header, status := range map[string]int{"Host: evil.example.com": 421, "Origin: https://evil.example.com": 403, "X-Accept-Me: please": 200} {
		t.Run(header, func(t *testing.T) {
			t.Parallel()
			var looks atomic.Int32
			w := setup(t, func(o *handlers.Options) {
				o.Web.Starting = func() error {
					if looks.Add(1) <= 2 { // of localOnly and of the check of the calling page
						return api.Errorf(api.CodeUnavailable, "starting")
					}
					return nil
				}
			})
			if a := w.do(get("/v1/event-types").with(header)); a.status != status {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

func TestNeverOpenAgain(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.get("/v1/event-types").wants(t, 200, `{"items":[]}`)
	_, key, err := w.keys.Create(t.Context(), "first", []api.Scope{api.ScopePush}, nil)
	storetest.Must(t, err)
	unauthorized := problem(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one")
	w.get("/v1/event-types").wants(t, 401, unauthorized)
	storetest.Must(t, w.keys.Revoke(t.Context(), key.ID))
	w.get("/v1/event-types").wants(t, 401, unauthorized)
	w.do(get("/healthz").with("Host: api.example.com")).wants(t, 200, `{"status":"ok"}`)
}
