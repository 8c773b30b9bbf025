package handlers_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/console"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/store/apikeys"
	"fanfare/store/redisdb"
	"fanfare/store/sessions"
	"fanfare/store/storetest"
)

// withConsole serves the console beside the routes.
func withConsole(db *redisdb.DB, change ...func(*console.Options)) func(*handlers.Options) {
	return func(o *handlers.Options) {
		o.About = api.About{Version: "v1.2.3", GoVersion: "go1", Settings: []api.Setting{{Name: "FANFARE_SHARDS", Value: "2", Set: true}}}
		o.Console = func(routes http.Handler) http.Handler {
			c := console.Options{
				Routes: routes, As: web.AsKey, HasKeys: o.Keys.Any, FindKey: o.Keys.Find, KeyID: apikeys.IDOf,
				Sessions: sessions.New(db, o.Tokens, sessions.Options{}), Logger: o.Web.Logger,
			}
			for _, f := range change {
				f(&c)
			}
			return console.New(c)
		}
	}
}

// setupConsole opens a server with a console.
func setupConsole(t testing.TB, change ...func(*console.Options)) *world {
	t.Helper()
	db := storetest.Open(t, "embedded")
	return setupOn(t, db, withConsole(db, change...))
}

// form sends a form as a page of the console would.
func (w *world) form(path string, fields url.Values, headers ...string) answer {
	w.t.Helper()
	return w.do(call{method: "POST", path: path, body: fields.Encode(), headers: append([]string{
		"Content-Type: application/x-www-form-urlencoded", "Origin: " + w.url, "Sec-Fetch-Site: same-origin",
	}, headers...)})
}

// login logs in with a key and returns the header with the session's cookie.
func (w *world) login(secret string) string {
	w.t.Helper()
	a := w.form("/console/login", url.Values{"key": {secret}})
	if a.status != http.StatusSeeOther {
		w.t.Fatalf("login: %d %s", a.status, a.body)
	}
	value, _, _ := strings.Cut(a.header.Get("Set-Cookie"), ";")
	return "Cookie: " + value
}

// page gets a page of the console.
func (w *world) page(path string, headers ...string) answer {
	w.t.Helper()
	return w.do(call{method: "GET", path: path, headers: headers})
}

// shows fails unless the answer is a page with this status and text.
func (a answer) shows(t testing.TB, status int, texts ...string) answer {
	t.Helper()
	if a.status != status || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
		t.Errorf("status %d, want %d: %s", a.status, status, a.body)
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(a.body), text) {
			t.Errorf("the page lacks %q: %s", text, a.body)
		}
	}
	return a
}

// hides fails if the page has one of the texts.
func (a answer) hides(t testing.TB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.body, text) {
			t.Errorf("the page shows %q: %s", text, a.body)
		}
	}
}

// wrong is a key that is not valid. It has the id of one that is, so that it is wrong for sure, however old
// this process' list of keys is.
func wrong(key string) string { return key + "x" }

// consolePages are pages that a key with all scopes sees.
var consolePages = []string{"", "history", "events", "users", "event-types", "topics", "broadcasts", "chats", "jobs", "dead-letters", "webhooks", "sales", "apps", "servers", "keys", "about"}

// A visitor logs in with a key, and the session has the key's rights, no more.
func TestN3_Login(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	reader, admin := w.mustKey(api.ScopeOpsRead), w.mustKey(api.ScopeAdmin)
	t.Run("the cookie", func(t *testing.T) {
		t.Parallel()
		a := w.form("/console/login", url.Values{"key": {" " + reader + "\n"}, "to": {"apps?x=a:b"}})
		cookie := a.header.Get("Set-Cookie")
		if want := regexp.MustCompile(`^fanfare=[A-Za-z0-9_-]{32}; Path=/; HttpOnly; SameSite=Strict$`); !want.MatchString(cookie) {
			t.Errorf("cookie %q", cookie)
		}
		if a.status != 303 || a.header.Get("Location") != "./apps?x=a:b" {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
		for _, to := range []string{"//evil.example", "https://evil.example", "../v1/stats", `\\evil.example`, "/\r\nX: y"} {
			place := w.form("/console/login", url.Values{"key": {reader}, "to": {to}}).header.Get("Location")
			base, _ := url.Parse("https://own.example/console/login")
			if at, err := base.Parse(place); err != nil || at.Host != "own.example" || !strings.HasPrefix(at.Path, "/console/") {
				t.Errorf("%q leads to %q", to, place)
			}
		}
	})
	t.Run("on TLS", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewTLSServer(w.handler)
		t.Cleanup(server.Close)
		client := server.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := client.PostForm(server.URL+"/console/login", url.Values{"key": {reader}})
		storetest.Must(t, err)
		_ = res.Body.Close()
		if cookie := res.Header.Get("Set-Cookie"); !strings.HasPrefix(cookie, "__Host-fanfare=") || !strings.HasSuffix(cookie, "; Path=/; HttpOnly; Secure; SameSite=Strict") {
			t.Errorf("cookie %q", cookie)
		}
	})
	t.Run("wrong keys", func(t *testing.T) {
		t.Parallel()
		w.form("/console/login", url.Values{"key": {wrong(reader)}}).shows(t, 401, "unknown or revoked", "Log in").hides(t, wrong(reader))
		w.form("/console/login", url.Values{}).shows(t, 401, "type an API key")
		w.form("/console/login", url.Values{"key": {w.mustKey(api.ScopePush)}}).shows(t, 403, "lacks the scope ops:read")
	})
	t.Run("the navigation", func(t *testing.T) {
		t.Parallel()
		as := func(secret string) string { return w.page("/console/", w.login(secret)).shows(t, 200).body }
		if body := as(reader); strings.Contains(body, ">Keys</a>") || !strings.Contains(body, ">Servers</a>") {
			t.Errorf("with ops:read: %s", body)
		}
		if body := as(admin); !strings.Contains(body, ">Keys</a>") {
			t.Errorf("with admin: %s", body)
		}
		w.page("/console/keys", w.login(reader)).shows(t, 403, "lacks the scope admin")
		w.form("/console/apps/a/probe", url.Values{}, w.login(reader)).shows(t, 403, "lacks the scope ops")
	})
	t.Run("logout", func(t *testing.T) {
		t.Parallel()
		cookie := w.login(admin)
		w.page("/console/logout", cookie).shows(t, 404)
		w.page("/console/", cookie).shows(t, 200)
		a := w.form("/console/logout", nil, cookie)
		if a.status != 303 || !strings.Contains(a.header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%d %v", a.status, a.header)
		}
		w.page("/console/", cookie).shows(t, 401, "the session has ended")
	})
	t.Run("the routes ignore cookies", func(t *testing.T) {
		t.Parallel()
		if a := w.page("/v1/stats", w.login(admin)); a.status != 401 {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// After 20 wrong keys from an address, further ones are refused for a while, whether they come to the
// console or to a route.
func TestN3_WrongKeysCountAsEverywhere(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	key := w.mustKey(api.ScopeOps)
	storetest.Eventually(t, time.Minute, "wrong keys are refused", func() bool {
		return w.form("/console/login", url.Values{"key": {wrong(key)}}).status == http.StatusTooManyRequests
	})
	if a := w.page("/v1/stats", "Authorization: Bearer "+wrong(key)); a.status != http.StatusTooManyRequests {
		t.Errorf("a route answers %d", a.status)
	}
	w.login(key)
}

// A session ends with its key, on every server.
func TestN3_SessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	own, other := w.mustKey(api.ScopeAdmin), w.mustKey(api.ScopeOpsRead)
	mine, theirs := w.login(own), w.login(other)
	for _, secret := range []string{other, own} {
		id := apikeys.IDOf(secret)
		ask := w.page("/console/keys/"+id+"/revoke", mine).shows(t, 200, id)
		if strings.Contains(ask.body, "the key of this session") != (secret == own) {
			t.Errorf("%s", ask.body)
		}
		a := w.form("/console/keys/"+id+"/revoke", url.Values{}, mine)
		if a.status != 303 || a.header.Get("Location") != "../../keys?done=revoked" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	w.page("/console/", theirs).shows(t, 401, "unknown or revoked").hides(t, "Queues")
	w.page("/console/", mine).shows(t, 401, "unknown or revoked").hides(t, "Queues")
	expiring := api.At(time.Now().Add(2 * time.Second))
	secret, _, err := w.keys.Create(t.Context(), "short", []api.Scope{api.ScopeOpsRead}, &expiring)
	storetest.Must(t, err)
	cookie := w.login(secret)
	storetest.Eventually(t, time.Minute, "the key has expired", func() bool { return w.page("/console/", cookie).status == 401 })
}

// Whoever has no session sees no data, on no page.
func TestN3_VisitorsSeeNothing(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.mustKey(api.ScopeAdmin)
	for _, path := range consolePages {
		for _, cookie := range []string{"Cookie: other=x", "Cookie: fanfare=", "Cookie: fanfare=x", "Cookie: fanfare=" + strings.Repeat("x", 43), "Cookie: fanfare=a; fanfare=b"} {
			a := w.page("/console/"+path, cookie).shows(t, 401, "Log in")
			a.hides(t, "<nav", "<table", "v1.2.3", "Log out")
		}
	}
	w.form("/console/keys", url.Values{"name": {"x"}, "scope": {"admin"}}).shows(t, 401, "Log in")
	if all, err := w.keys.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
	for _, path := range []string{"style.css", "script.js"} {
		if a := w.page("/console/" + path); a.status != 200 {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// As long as no key was ever made, the console is open on loopback and says so.
func TestN3_OpenServer(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	for _, path := range consolePages {
		w.page("/console/"+path).shows(t, 200, "No API key was ever made", "<nav")
	}
	w.page("/console/", "Host: fanfare.example").hides(t, "<nav")
	w.page("/console/", "X-Forwarded-For: 10.0.0.1").hides(t, "<nav")
	a := w.form("/console/keys", url.Values{"name": {"first"}, "scope": {"admin"}})
	found := regexp.MustCompile(`ff_[a-z0-9]+_[a-z0-9]+`).FindString(a.shows(t, 200, "the only time").body)
	w.page("/console/").shows(t, 401, "Log in")
	w.page("/console/keys", w.login(found)).shows(t, 200, "first").hides(t, found)
}

// Changes are made with POST by pages of the console alone, and leave a line in the log.
func TestN4_Changes(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	admin := w.mustKey(api.ScopeAdmin)
	cookie := w.login(admin)
	make := url.Values{"name": {"made"}, "scope": {"push", "ops"}}
	t.Run("pages of other sites", func(t *testing.T) {
		for _, from := range [][]string{
			{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Sec-Fetch-Site: ", "Origin: https://evil.example"},
		} {
			headers := append([]string{"Content-Type: application/x-www-form-urlencoded", cookie}, from...)
			for _, path := range []string{"keys", "login", "logout", "apps/a/probe", "dead-letters/all", "events/x/cancel", "queues/x/pause", "jobs/x/cancel", "webhooks", "webhooks/x/delete"} {
				w.do(call{method: "POST", path: "/console/" + path, body: make.Encode(), headers: headers}).shows(t, 403, "another site")
			}
		}
		w.page("/console/", cookie).shows(t, 200)
		if all, err := w.keys.List(t.Context()); err != nil || len(all) != 1 {
			t.Errorf("%v %v", all, err)
		}
	})
	t.Run("GET changes nothing", func(t *testing.T) {
		for _, path := range []string{"apps/a/probe", "logout", "login"} {
			w.page("/console/"+path, cookie).shows(t, 404)
		}
	})
	t.Run("the log", func(t *testing.T) {
		w.form("/console/keys", make, cookie).shows(t, 200, "the only time")
		all, err := w.keys.List(t.Context())
		storetest.Must(t, err)
		line := regexp.MustCompile(`"msg":"change","action":"keys.create","target":"` + all[1].ID + `","key":"` + apikeys.IDOf(admin) + `"`)
		if log := w.log.String(); !line.MatchString(log) || !strings.Contains(log, `"action":"console.login"`) || strings.Contains(log, admin) {
			t.Errorf("the log: %s", log)
		}
	})
	t.Run("what a route refuses is shown", func(t *testing.T) {
		w.form("/console/keys", url.Values{"name": {"<b>x"}}, cookie).shows(t, 422, "scopes", `value="<b>x"`).hides(t, "<b>")
		w.form("/console/keys", url.Values{"name": {"x"}, "scope": {"ops"}, "expires": {"soon"}}, cookie).shows(t, 422, "must be a date")
		w.form("/console/apps/none/probe", url.Values{"once": {"a"}}, cookie).shows(t, 404, "there is no app of the topic none")
		w.form("/console/keys", url.Values{"name": {strings.Repeat("x", 1<<17)}}, cookie).shows(t, 400)
	})
}

// With FANFARE_CONSOLE=read the console shows everything, and changes nothing.
func TestN4_ReadOnly(t *testing.T) {
	t.Parallel()
	w := setupConsole(t, func(o *console.Options) { o.Mode = console.Read })
	cookie := w.login(w.mustKey(api.ScopeAdmin))
	w.page("/console/keys", cookie).shows(t, 200, "only shows").hides(t, "Make a key", "Revoke")
	mustDie(t, w.jobs, 1)
	w.page("/console/dead-letters", cookie).shows(t, 200, "it would not").hides(t, "Retry all", "checkbox")
	w.page("/console/dead-letters/all?action=delete", cookie).shows(t, 200, "Delete 1 dead letter?").hides(t, `name="expect"`)
	for _, path := range []string{"keys", "apps/a/probe", "keys/x/revoke", "dead-letters", "dead-letters/all", "events/x/cancel", "queues/x/pause", "queues/x/resume", "jobs/x/cancel"} {
		w.form("/console/"+path, url.Values{"name": {"x"}, "scope": {"ops"}}, cookie).shows(t, 403, "FANFARE_CONSOLE=read")
	}
	if a := w.form("/console/logout", nil, cookie); a.status != 303 {
		t.Errorf("logout: %d", a.status)
	}
}

// Behind a proxy that ends TLS and changes Host, FANFARE_PUBLIC_URL names the browser's origin.
func TestN4_PublicURL(t *testing.T) {
	t.Parallel()
	public, err := url.Parse("https://ops.example.com/fanfare")
	storetest.Must(t, err)
	w := setupConsole(t, func(o *console.Options) { o.PublicURL = public })
	key := w.mustKey(api.ScopeOps)
	login := func(origin string) answer {
		return w.do(call{method: "POST", path: "/console/login", body: url.Values{"key": {key}}.Encode(), headers: []string{
			"Content-Type: application/x-www-form-urlencoded", "Origin: " + origin,
		}})
	}
	a := login("https://ops.example.com")
	if cookie := a.header.Get("Set-Cookie"); a.status != 303 || !strings.HasPrefix(cookie, "__Host-fanfare=") || !strings.Contains(cookie, "; Secure") {
		t.Errorf("%d, cookie %q", a.status, cookie)
	}
	login("https://ops.example.com.evil.example").shows(t, 403)
	login("http://ops.example.com").shows(t, 403)
}

// Every answer has the policy, and every address in a page is relative.
func TestN5_HeadersAndRelativeLinks(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	cookie := w.login(w.mustKey(api.ScopeAdmin))
	const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
	address := regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)
	for _, path := range append(slices.Clone(consolePages), "style.css", "script.js", "nowhere", "a/b/c", "keys/x/revoke") {
		for _, headers := range [][]string{{cookie}, {}} {
			a := w.page("/console/"+path, headers...)
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
				"Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := a.header.Values(name); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %s is %q", path, name, got)
				}
			}
			if strings.HasSuffix(path, ".css") || strings.HasSuffix(path, ".js") {
				continue
			}
			if a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be stored", path)
			}
			for _, found := range address.FindAllStringSubmatch(a.body, -1) {
				if to := found[1]; !strings.HasPrefix(to, "./") && to != "data:," && to != "#main" {
					t.Errorf("%s links to %q", path, to)
				}
			}
			for _, bad := range []string{" style=", "<style", " on", "javascript:"} {
				if strings.Contains(regexp.MustCompile(`>[^<]*<`).ReplaceAllString(a.body, "><"), bad) {
					t.Errorf("%s has %q: %s", path, bad, a.body)
				}
			}
		}
	}
	if a := w.page("/console"); a.status != 303 || a.header.Get("Location") != "console/" {
		t.Errorf("/console: %d to %q", a.status, a.header.Get("Location"))
	}
}

// The console works behind a proxy that cuts off a path: all links lead to pages.
func TestN2_BehindAPath(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.enqueue(t, `{"type":"mail"}`) // so that there is a queue to link to
	admin := w.mustKey(api.ScopeAdmin)
	proxy := httptest.NewServer(http.StripPrefix("/some/path", w.handler))
	t.Cleanup(proxy.Close)
	jar := map[string]string{}
	get := func(method, address string, form url.Values) (status int, to *url.URL, body string) {
		r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
		storetest.Must(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, value := range jar {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		storetest.Must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		storetest.Must(t, err)
		for _, cookie := range res.Cookies() {
			jar[cookie.Name] = cookie.Value
		}
		to, err = r.URL.Parse(res.Header.Get("Location"))
		storetest.Must(t, err)
		return res.StatusCode, to, string(text)
	}
	home := proxy.URL + "/some/path/console/"
	if _, to, _ := get("GET", proxy.URL+"/some/path/console", nil); to.String() != home {
		t.Errorf("to %s", to)
	}
	if _, to, _ := get("POST", home+"login", url.Values{"key": {admin}}); to.String() != home {
		t.Errorf("to %s", to)
	}
	seen, todo := map[string]bool{}, []string{home}
	for len(todo) > 0 {
		at := todo[0]
		todo = todo[1:]
		status, base, body := get("GET", at, nil)
		if status != 200 {
			t.Errorf("%s: %d", at, status)
		}
		for _, found := range regexp.MustCompile(`(?:href|src)="(\./[^"]*)"`).FindAllStringSubmatch(body, -1) {
			to, err := base.Parse(html.UnescapeString(found[1]))
			storetest.Must(t, err)
			if next := to.String(); !seen[next] && strings.HasPrefix(next, home) {
				seen[next], todo = true, append(todo, next)
			} else if !strings.HasPrefix(next, proxy.URL+"/some/path/") {
				t.Errorf("%s links to %s", at, next)
			}
		}
	}
	if len(seen) < len(consolePages)+3 {
		t.Errorf("only %d links were found", len(seen))
	}
}

// While Redis is away, pages show no data and say that they try again. Afterwards the session goes on.
func TestN3_RedisAway(t *testing.T) {
	t.Parallel()
	proxy, redis := storetest.ProxyTo(t, storetest.Redis(t).URL())
	db := storetest.Open(t, redis)
	w := setupOn(t, db, withConsole(db))
	admin := w.mustKey(api.ScopeAdmin)
	cookie := w.login(admin)
	proxy.Cut()
	for _, path := range consolePages {
		a := w.page("/console/"+path, cookie).shows(t, 503, "tries again by itself", `http-equiv="refresh"`)
		a.hides(t, "<nav", "<table", "v1.2.3")
	}
	w.form("/console/login", url.Values{"key": {admin}}).shows(t, 503)
	w.form("/console/keys", url.Values{"name": {"x"}, "scope": {"ops"}}, cookie).shows(t, 503).hides(t, `http-equiv="refresh"`)
	proxy.Mend()
	storetest.Eventually(t, time.Minute, "the pages are back", func() bool { return w.page("/console/", cookie).status == 200 })
}
