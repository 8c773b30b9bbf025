package handlers_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/handlers/web"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
)

// userRoutes lists the routes that take user tokens, with their scopes. A route that is opened to
// user tokens must be added here as well.
var userRoutes = map[string]api.UserScope{
	"POST /v1/events/{id}/opened":                     "devices",
	"POST /v1/events/{id}/dismissed":                  "devices",
	"PUT /v1/users/{user}/devices/{token}":            "devices",
	"POST /v1/users/{user}/devices":                   "devices",
	"GET /v1/users/{user}/devices":                    "devices",
	"DELETE /v1/users/{user}/devices/{token}":         "devices",
	"GET /v1/users/{user}/badge":                      "devices",
	"PUT /v1/users/{user}/badge":                      "devices",
	"POST /v1/users/{user}/badge":                     "devices",
	"PUT /v1/users/{user}/activities/{token}":         "devices",
	"GET /v1/users/{user}/activities":                 "devices",
	"DELETE /v1/users/{user}/activities/{token}":      "devices",
	"PUT /v1/users/{user}/opt-outs/{type}":            "devices",
	"DELETE /v1/users/{user}/opt-outs/{type}":         "devices",
	"PUT /v1/users/{user}/mutes/{object}":             "devices",
	"DELETE /v1/users/{user}/mutes/{object}":          "devices",
	"GET /v1/users/{user}/notification-settings":      "devices",
	"PUT /v1/users/{user}/topics/{topic}":             "devices",
	"DELETE /v1/users/{user}/topics/{topic}":          "devices",
	"GET /v1/users/{user}/topics":                     "devices",
	"GET /v1/users/{user}/contacts":                   "contacts",
	"GET /v1/users/{user}/recent-contacts":            "contacts",
	"GET /v1/users/{user}/recent-contacts/uploads":    "contacts",
	"GET /v1/chats/{chat}":                            "chat",
	"GET /v1/chats/{chat}/members":                    "chat",
	"DELETE /v1/chats/{chat}/members/{user}":          "chat",
	"POST /v1/chats/{chat}/messages":                  "chat",
	"GET /v1/chats/{chat}/messages":                   "chat",
	"DELETE /v1/chats/{chat}/messages/{id}":           "chat",
	"POST /v1/chats/{chat}/typing":                    "chat",
	"GET /v1/users/{user}/chats":                      "chat",
	"GET /v1/users/{user}/messages/pending":           "chat",
	"POST /v1/users/{user}/messages/ack":              "chat",
	"GET /v1/users/{user}/messages/stream":            "chat",
	"GET /v1/sales/{sale}":                            "buy",
	"GET /v1/sales/{sale}/stream":                     "buy",
	"POST /v1/sales/{sale}/reservations":              "buy",
	"GET /v1/sales/{sale}/reservations":               "buy",
	"GET /v1/sales/{sale}/reservations/{id}":          "buy",
	"POST /v1/sales/{sale}/reservations/{id}/release": "buy",
	"POST /v1/users/{user}/tickets":                   web.AnyUser,
}

// setupUsers starts a server with an API key, so that the server is not open.
func setupUsers(t testing.TB, change ...func(*handlers.Options)) (w *world, admin string) {
	w = setup(t, change...)
	return w, "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
}

// mustToken makes a user token, as a header; without scopes it has all.
func (w *world) mustToken(user string, scopes ...api.UserScope) string {
	return "Authorization: Bearer " + w.mustTokenOf(user, time.Hour, scopes...)
}

func (w *world) mustTokenOf(user string, ttl time.Duration, scopes ...api.UserScope) string {
	w.t.Helper()
	if scopes == nil {
		scopes = api.UserScopes
	}
	seconds := int64(ttl / time.Second)
	made, err := w.tokens.Issue(user, &api.TokenRequest{Scopes: scopes, TTLSeconds: &seconds}, nil)
	storetest.Must(w.t, err)
	return made.Token
}

// forged is a token with another signature.
func forged(token string) string {
	at := strings.LastIndex(token, ".") + 1
	other := "A"
	if token[at] == 'A' {
		other = "B"
	}
	return token[:at] + other + token[at+1:]
}

// userPath fills a pattern with names, and with the given user where it has one.
func userPath(pattern, user string) string {
	return strings.NewReplacer("{user}", user, "{token}", token, "{type}", "a", "{object}", "b", "{contact}", "amy",
		"{chat}", "team", "{sale}", "spring", "{topic}", "news", "{id}", "x").Replace(pattern)
}

func TestU2_TheTableOfRoutes(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice"}`, admin).wants(t, 201, `{"id":"team","epoch":"*","members":["alice"]}`)
	w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":3}]`)).with(admin))
	w.do(put("/v1/topics/news", `{"open":true}`).with(admin))
	all := w.mustToken("alice")
	seen := map[string]bool{}
	for _, rt := range handlers.Routes() {
		name := rt.Method + " " + rt.Pattern
		seen[name] = true
		if rt.User != userRoutes[name] {
			t.Errorf("%s is open to %q, the table says %q", name, rt.User, userRoutes[name])
		}
		if rt.Scope == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c := call{method: rt.Method, path: userPath(rt.Pattern, "alice")}
			if rt.User == "" {
				a := w.do(c.with(all)).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
				wantHeader(t, a, "WWW-Authenticate", `Bearer error="insufficient_scope"`)
				return
			}
			stream := strings.HasSuffix(rt.Pattern, "/stream")
			if a := w.headOf(c.with(all)); a == 401 || a == 403 || a >= 500 || stream && a != 200 {
				t.Errorf("its own user's token gets %d", a)
			}
			if rt.User != web.AnyUser {
				others := slices.DeleteFunc(slices.Clone(api.UserScopes), func(s api.UserScope) bool { return s == rt.User })
				w.do(c.with(w.mustToken("alice", others...))).wants(t, 403,
					problem(api.CodeForbidden, "this user token lacks the scope "+string(rt.User), fmt.Sprintf(`"scope":%q`, rt.User)))
			}
			if strings.Contains(rt.Pattern, "{user}") {
				c.path = userPath(rt.Pattern, "bob")
				if rt.Method == "PUT" && strings.Contains(rt.Pattern, "/devices/") {
					c.body = `{"platform":"apns","topic":"a.b","environment":"sandbox"}`
				}
				if rt.Method == "PUT" && strings.Contains(rt.Pattern, "/activities/") {
					c.body = activityRequest
				}
				if rt.Method == "POST" && strings.HasSuffix(rt.Pattern, "/devices") {
					c.body = browserBody("")
				}
				if strings.HasSuffix(rt.Pattern, "/ack") {
					c.body = `{"acks":{"team":1}}`
				}
				if strings.HasSuffix(rt.Pattern, "/badge") && rt.Method != "GET" {
					c.body = map[string]string{"PUT": `{"count":1}`, "POST": `{"delta":1}`}[rt.Method]
				}
				w.do(c.with(all)).wants(t, 403, problem(api.CodeForbidden, "a user token opens only what is its own user's"))
			}
		})
	}
	for name := range maps.Keys(userRoutes) {
		if !seen[name] {
			t.Errorf("there is no route %s", name)
		}
	}
}

// headOf returns the status of an answer that may never end.
func (w *world) headOf(c call) int {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, c.method, w.url+c.path, c.reader())
	storetest.Must(w.t, err)
	for _, line := range c.headers {
		c.setHeader(r, line)
	}
	res, err := w.streamClient().Do(r)
	storetest.Must(w.t, err)
	_ = res.Body.Close()
	return res.StatusCode
}

func TestU2_UsersConfirmOnlyWhereTheyMay(t *testing.T) {
	t.Parallel()
	for _, may := range []bool{false, true} {
		w, admin := setupUsers(t, func(o *handlers.Options) { o.UserConfirm = may })
		w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":3}]`)).with(admin))
		alice := w.mustToken("alice")
		id := w.post("/v1/sales/spring/reservations", `{"lines":[{"sku":"shoe","quantity":1}]}`, alice).member(t, "id")
		a := w.post("/v1/sales/spring/reservations/"+id+"/confirm", "", alice)
		if want := map[bool]int{false: 403, true: 200}[may]; a.status != want {
			t.Errorf("users may confirm: %v, and the answer is %d %s", may, a.status, a.body)
		}
	}
}

// U2: a user token cannot register a topic without an app, because such devices would raise alarms.
func TestU2_UsersRegisterOnlyForAppsThatAreThere(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t, func(o *handlers.Options) {
		o.TakesDevice = func(r *api.DeviceRequest) bool { return r.Topic == "a.b" && r.Environment == api.EnvSandbox }
	})
	alice, unknown := w.mustToken("alice"), problem(api.CodeUnknownApp, "no app is configured for this topic and environment")
	for body, status := range map[string]int{
		`{"platform":"apns","topic":"a.b","environment":"sandbox"}`:    201,
		`{"platform":"apns","topic":"a.b","environment":"production"}`: 422,
		`{"platform":"apns","topic":"a.c","environment":"sandbox"}`:    422,
	} {
		a := w.do(put("/v1/users/alice/devices/"+token, body).with(alice))
		if a.status != status {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		if status == 422 {
			a.wants(t, 422, unknown)
			if a := w.do(put("/v1/users/bob/devices/"+token, body).with(admin)); a.status/100 != 2 {
				t.Errorf("a backend gets %d %s", a.status, a.body)
			}
			w.do(call{method: "DELETE", path: "/v1/users/bob/devices/" + token, headers: []string{admin}})
		}
	}
}

func TestU2_ChatsOfAMember(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)
		alice, eve := w.mustToken("alice"), w.mustToken("eve")
		sent := `{"id":"*","sent_at":"*"}`
		w.post("/v1/chats/team/messages", `{"text":"one"}`, alice).wants(t, 201, sent)
		w.post("/v1/chats/team/messages", `{"sender":"alice","text":"two"}`, alice).wants(t, 201, sent)
		foreign := problem(api.CodeForbidden, "a user token opens only what is its own user's")
		w.post("/v1/chats/team/messages", `{"sender":"bob","text":"three"}`, alice).wants(t, 403, foreign)
		items := `{"items":[{"id":1,"sender":"alice","text":"one","sent_at":"*"},{"id":2,"sender":"alice","text":"two","sent_at":"*"}],"last_id":2,"first_id":1,"epoch":"*","gap":false}`
		w.do(get("/v1/chats/team/messages").with(alice)).wants(t, 200, items)
		w.do(get("/v1/chats/team/messages?user=alice").with(alice)).wants(t, 200, items)
		w.do(get("/v1/chats/team/messages?user=bob").with(alice)).wants(t, 403, foreign)
		w.do(get("/v1/chats/team").with(alice)).wants(t, 200, `{"id":"team","epoch":"*","last_id":2,"first_id":1,"member_count":2,"created_at":"*"}`)
		w.do(get("/v1/chats/team/members").with(alice)).wants(t, 200, `{"items":[{"user":"alice","acked":2,"joined_at":"*"},{"user":"bob","acked":0,"joined_at":"*"}]}`)

		hidden := problem(api.CodeNotFound, "there is no such chat, or you are not a member")
		for _, chat := range []string{"team", "nowhere"} { // a user who is not a member cannot tell them apart
			w.do(get("/v1/chats/"+chat).with(eve)).wants(t, 404, hidden)
			w.do(get("/v1/chats/"+chat+"/members").with(eve)).wants(t, 404, hidden)
			w.do(get("/v1/chats/"+chat+"/messages").with(eve)).wants(t, 404, hidden)
			w.post("/v1/chats/"+chat+"/messages", `{"text":"hi"}`, eve).wants(t, 404, hidden)
			w.post("/v1/users/eve/messages/ack", `{"acks":{"`+chat+`":1}}`, eve).wants(t, 404, hidden)
			w.do(call{method: "DELETE", path: "/v1/chats/" + chat + "/members/eve"}.with(eve)).wants(t, 204, "")
		}
		w.post("/v1/users/eve/messages/ack", `{"acks":{"nowhere":1,"team":1}}`, eve).
			wants(t, 200, `{"acked":{},"errors":{"nowhere":{"code":"not_found"},"team":{"code":"not_found"}}}`)
		w.do(put("/v1/chats/team/members/eve", "").with(eve)).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
		t.Run("for API keys nothing has changed", func(t *testing.T) {
			w.do(get("/v1/chats/team/messages").with(admin)).wants(t, 422, broken("user", "identifier", identifierRule))
			w.do(get("/v1/chats/team/messages?user=eve").with(admin)).wants(t, 403, problem(api.CodeNotAMember, "*"))
			w.post("/v1/chats/team/messages", `{"text":"hi"}`, admin).wants(t, 422, broken("sender", "required", "is required"))
		})
		t.Run("who leaves reads no more", func(t *testing.T) {
			w.do(call{method: "DELETE", path: "/v1/chats/team/members/alice"}.with(alice)).wants(t, 204, "")
			w.do(get("/v1/chats/team").with(alice)).wants(t, 404, hidden)
		})
	})
}

func TestU2_ReservationsOfTheirUser(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":3}]`)).with(admin))
		alice, eve := w.mustToken("alice"), w.mustToken("eve")
		foreign := problem(api.CodeForbidden, "a user token opens only what is its own user's")
		w.post("/v1/sales/spring/reservations", `{"user":"bob","lines":[{"sku":"shoe","quantity":1}]}`, alice).wants(t, 403, foreign)
		held := w.post("/v1/sales/spring/reservations", `{"lines":[{"sku":"shoe","quantity":1}]}`, alice).
			wants(t, 201, `{"id":"*","user":"alice","lines":[{"sku":"shoe","quantity":1}],"state":"held","expires_at":"*"}`)
		id := held.member(t, "id")
		w.do(get("/v1/sales/spring/reservations").with(alice)).wants(t, 200, `{"items":[`+held.body+`]}`)
		w.do(get("/v1/sales/spring/reservations?user=alice").with(eve)).wants(t, 403, foreign)
		w.do(get("/v1/sales/spring/reservations").with(eve)).wants(t, 200, `{"items":[]}`) // her own
		w.do(get("/v1/sales/spring/reservations/"+id).with(alice)).wants(t, 200, held.body)
		other := id[:len(id)-1] + map[bool]string{true: "1", false: "0"}[id[len(id)-1] == '0']
		for _, one := range []string{id, other} { // the reservation of another user looks as if it did not exist
			missing := problem(api.CodeNotFound, fmt.Sprintf("there is no reservation %q in this sale", one))
			w.do(get("/v1/sales/spring/reservations/"+one).with(eve)).wants(t, 404, missing)
			w.post("/v1/sales/spring/reservations/"+one+"/release", "", eve).wants(t, 404, missing)
		}
		w.post("/v1/sales/spring/reservations/"+id+"/release", "", alice).
			wants(t, 200, `{"id":"*","user":"alice","lines":[{"sku":"shoe","quantity":1}],"state":"released","expires_at":"*"}`)
	})
}

func TestU2_IdempotencyIsTheUsersOwn(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)
	key := "Idempotency-Key: 1"
	first := w.post("/v1/chats/team/messages", `{"text":"hi"}`, key, w.mustToken("alice"))
	again := w.post("/v1/chats/team/messages", `{"text":"hi"}`, key, w.mustToken("alice", api.UserScopeChat)) // another token
	if first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s, then with another token %s", first.body, again.body)
	}
	bob := w.post("/v1/chats/team/messages", `{"text":"hi"}`, key, w.mustToken("bob")).wants(t, 201, `{"id":2,"sent_at":"*"}`)
	if bob.header.Get("Idempotent-Replayed") != "" {
		t.Error("bob got alice's answer")
	}
	w.post("/v1/chats/team/messages", `{"sender":"alice","text":"hi"}`, key, admin).wants(t, 201, `{"id":3,"sent_at":"*"}`)
}

func TestU1_TokensOverHTTP(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	backend := "Authorization: Bearer " + w.mustKey(api.ScopeTokens)
	for _, key := range []string{admin, backend} {
		a := w.post("/v1/users/alice/tokens", `{"scopes":["chat"],"ttl_seconds":60}`, key).wants(t, 201, `{"token":"*","expires_at":"*"}`)
		token := "Authorization: Bearer " + a.member(t, "token")
		w.do(get("/v1/users/alice/chats").with(token)).wants(t, 200, `{"items":[]}`)
		w.do(get("/v1/users/alice/devices").with(token)).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"devices"`))
		at, err := time.Parse(time.RFC3339, a.member(t, "expires_at"))
		if left := time.Until(at); err != nil || left > time.Minute || left < 30*time.Second {
			t.Errorf("%v %v", at, err)
		}
		w.post("/v1/users/alice/tokens", `{"scopes":["chat"]}`, token).wants(t, 403, problem(api.CodeForbidden, "*"))
	}
	for name, c := range map[string]struct{ body, field string }{
		"no scopes":          {`{}`, "scopes"},
		"an empty list":      {`{"scopes":[]}`, "scopes"},
		"an unknown scope":   {`{"scopes":["admin"]}`, "scopes[0]"},
		"a scope twice":      {`{"scopes":["chat","chat"]}`, "scopes"},
		"longer than a day":  {`{"scopes":["chat"],"ttl_seconds":86401}`, "ttl_seconds"},
		"over before it was": {`{"scopes":["chat"],"ttl_seconds":0}`, "ttl_seconds"},
	} {
		a := w.post("/v1/users/alice/tokens", c.body, backend)
		if a.status != 422 || !strings.Contains(a.body, `"field":"`+c.field+`"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	t.Run("what is a secret takes no Idempotency-Key", func(t *testing.T) {
		refused := problem(api.CodeInvalidRequest, "this call takes no Idempotency-Key: its answer is a secret and is not kept")
		w.post("/v1/users/alice/tokens", `{"scopes":["chat"]}`, backend, "Idempotency-Key: 1").wants(t, 400, refused)
		w.post("/v1/users/alice/tickets", "", w.mustToken("alice"), "Idempotency-Key: 1").wants(t, 400, refused)
	})
	t.Run("revoked", func(t *testing.T) {
		alice, bob := w.mustToken("alice"), w.mustToken("bob")
		w.do(get("/v1/users/alice/chats").with(alice)).wants(t, 200, `{"items":[]}`)
		w.post("/v1/users/alice/tokens/revoke", "", backend).wants(t, 204, "")
		w.do(get("/v1/users/alice/chats").with(alice)).wants(t, 401, problem(api.CodeUnauthorized, "the user token is not valid"))
		w.do(get("/v1/users/bob/chats").with(bob)).wants(t, 200, `{"items":[]}`)
		w.do(get("/v1/users/alice/chats").with(w.mustToken("alice"))).wants(t, 200, `{"items":[]}`)
	})
	t.Run("neither by a user nor by a key without the scope", func(t *testing.T) {
		w.post("/v1/users/bob/tokens/revoke", "", w.mustToken("bob")).wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
		w.post("/v1/users/bob/tokens/revoke", "", "Authorization: Bearer "+w.mustKey(api.ScopeChat)).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"tokens"`))
	})
}

func TestU6_WhatIsWrongWithATokenIsNotTold(t *testing.T) {
	t.Parallel()
	w, _ := setupUsers(t)
	good := w.mustTokenOf("alice", time.Hour)
	for name, token := range map[string]string{
		"forged": forged(good), "no token": "a.b.c", "dots": "..", "of 9 KiB": strings.Repeat("x.", 4600),
	} {
		a := w.do(get("/v1/users/alice/chats").with("Authorization: Bearer "+token)).wants(t, 401, problem(api.CodeUnauthorized, "the user token is not valid"))
		if got := a.header.Get("WWW-Authenticate"); got != `Bearer error="invalid_token"` {
			t.Errorf("%s: WWW-Authenticate: %s", name, got)
		}
	}
}

// U6: wrong tokens from an address never lock out other users at that address.
func TestU6_StrangersLockNobodyOut(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	known := w.mustToken("alice")
	w.do(get("/v1/users/alice/chats").with(known)).wants(t, 200, `{"items":[]}`)
	removed := w.mustToken("carol")
	_, err := usertokens.Rotate(t.Context(), w.record, true)
	storetest.Must(t, err)
	storetest.Must(t, w.tokens.Load(t.Context()))
	known = w.mustToken("alice")
	w.do(get("/v1/users/alice/chats").with(known)).wants(t, 200, `{"items":[]}`)
	for name, stranger := range map[string]string{
		"of a known key with a false signature": forged(w.mustToken("bob")),
		"of a key that was removed":             removed,
		"that are no tokens":                    "Authorization: Bearer a.b.c",
	} {
		for range 50 {
			w.do(get("/v1/users/alice/chats").with(stranger)).wants(t, 401, problem(api.CodeUnauthorized, "the user token is not valid"))
		}
		w.do(get("/v1/users/bob/chats").with(w.mustToken("bob"))).wants(t, 200, `{"items":[]}`)
		if t.Failed() {
			t.Fatal("after tokens " + name)
		}
	}
	w.do(get("/v1/users/alice/chats").with(known)).wants(t, 200, `{"items":[]}`)
	w.do(get("/v1/users/alice/chats").with(admin)).wants(t, 200, `{"items":[]}`)
}

func TestU5_RatePerUser(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t, func(o *handlers.Options) { o.Web.UserRateLimit = web.RateLimit{Requests: 2, Window: time.Hour} })
	for left := 1; left >= 0; left-- { // with any token of the user
		a := w.do(get("/v1/users/alice/chats").with(w.mustToken("alice", api.UserScopes[:1+left]...))).wants(t, 200, `{"items":[]}`)
		wantHeader(t, a, "RateLimit-Policy", `"user";q=2;w=3600`)
		wantHeader(t, a, "RateLimit", fmt.Sprintf(`"user";r=%d;t=\d+`, left))
	}
	a := w.do(get("/v1/users/alice/chats").with(w.mustToken("alice"))).wants(t, 429, problem(api.CodeRateLimited, "this user may make 2/h requests", `"retry_after_ms":"*"`))
	wantHeader(t, a, "Retry-After", `1[78]\d\d`)
	w.do(get("/v1/users/bob/chats").with(w.mustToken("bob"))).wants(t, 200, `{"items":[]}`)
	for range 5 {
		w.do(get("/v1/users/alice/chats").with(admin)).wants(t, 200, `{"items":[]}`)
	}
}

// An ack of many chats costs Redis as much as many calls, so it counts as several requests.
func TestU5_AnAckOfManyChats(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t, func(o *handlers.Options) { o.Web.UserRateLimit = web.RateLimit{Requests: 5, Window: time.Hour} })
	acks := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"c%d":0`, i))
		}
		return `{"acks":{` + strings.Join(list, ",") + `}}`
	}
	ack := func(n int, user, token string) answer {
		return w.post("/v1/users/"+user+"/messages/ack", acks(n), token)
	}
	token := w.mustToken("alice")
	for _, step := range []struct{ chats, left int }{{50, 4}, {51, 2}, {2, 1}} {
		a := ack(step.chats, "alice", token).wants(t, 200, `{"acked":{},"errors":"*"}`)
		wantHeader(t, a, "RateLimit", fmt.Sprintf(`"user";r=%d;t=\d+`, step.left))
	}
	a := ack(51, "alice", token).wants(t, 429, problem(api.CodeRateLimited, "this user may make 5/h requests", `"retry_after_ms":"*"`))
	wantHeader(t, a, "Retry-After", `14[34]\d`) // two requests, at five an hour
	ack(1000, "bob", w.mustToken("bob")).wants(t, 200, `{"acked":{},"errors":"*"}`)
	for range 3 {
		ack(1000, "alice", admin).wants(t, 200, `{"acked":{},"errors":"*"}`)
	}
}

// mustTicket makes a ticket with a user token's header.
func (w *world) mustTicket(user, token string) string {
	w.t.Helper()
	a := w.post("/v1/users/"+user+"/tickets", "", token).wants(w.t, 201, `{"ticket":"*","expires_at":"*"}`)
	return a.member(w.t, "ticket")
}

// followURL opens a stream like an EventSource: only with its URL.
func (w *world) followURL(path string) *follower {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, "GET", w.url+path, nil)
	storetest.Must(w.t, err)
	res, err := w.streamClient().Do(r) //nolint:bodyclose // follower.close does
	storetest.Must(w.t, err)
	f := &follower{t: w.t, res: res, lines: bufio.NewReader(res.Body), cancel: cancel}
	w.t.Cleanup(f.close)
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("%s: %d", path, res.StatusCode)
	}
	return f
}

func TestU3_TicketsOpenOneStream(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"],"message":"one"}`, admin)
	bob := w.mustToken("bob", api.UserScopeChat)
	ticket := w.mustTicket("bob", bob)
	f := w.followURL("/v1/users/bob/messages/stream?ticket=" + ticket)
	e := f.wantData()
	if e.name != "message" || !strings.Contains(e.data, `"one"`) {
		t.Fatalf("%+v", e)
	}
	f.close()
	wrong := problem(api.CodeUnauthorized, "the ticket is not valid; each opens one stream within 60 s")
	a := w.get("/v1/users/bob/messages/stream?ticket="+ticket).wants(t, 401, wrong)
	if got := a.header.Get("WWW-Authenticate"); got != `Bearer error="invalid_token"` {
		t.Errorf("WWW-Authenticate: %s", got)
	}
	t.Run("goes on where the last one ended", func(t *testing.T) {
		w.post("/v1/chats/team/messages", `{"sender":"alice","text":"two"}`, admin)
		f := w.followURL("/v1/users/bob/messages/stream?last_event_id=" + e.id + "&ticket=" + w.mustTicket("bob", bob))
		if e := f.wantData(); !strings.Contains(e.data, `"two"`) {
			t.Errorf("%+v", e)
		}
	})
	t.Run("and the header of a browser that comes back counts more", func(t *testing.T) {
		f := w.follow("bob", e.id, admin)
		if e := f.wantData(); !strings.Contains(e.data, `"two"`) {
			t.Errorf("%+v", e)
		}
	})
	t.Run("a long poll", func(t *testing.T) {
		a := w.get("/v1/users/bob/messages/pending?limit=1&wait_ms=1&ticket=" + w.mustTicket("bob", bob))
		if a.status != 200 || !strings.Contains(a.body, `"one"`) {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
	t.Run("of a sale", func(t *testing.T) {
		w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":3}]`)).with(admin))
		f := w.followURL("/v1/sales/spring/stream?last_event_id=x&ticket=" + w.mustTicket("bob", w.mustToken("bob", api.UserScopeBuy)))
		if e := f.wantData(); e.name != "stock" {
			t.Errorf("%+v", e)
		}
	})
	t.Run("can do what its token can", func(t *testing.T) {
		w.get("/v1/sales/spring/stream?ticket="+w.mustTicket("bob", bob)).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"buy"`))
		w.get("/v1/users/alice/messages/stream?ticket="+w.mustTicket("bob", bob)).wants(t, 403, problem(api.CodeForbidden, "*"))
	})
	t.Run("nothing but streams and long polls", func(t *testing.T) {
		missing := problem(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one")
		w.get("/v1/users/bob/chats?ticket="+w.mustTicket("bob", bob)).wants(t, 401, missing)
		w.do(call{method: "DELETE", path: "/v1/chats/team/members/bob?ticket=" + w.mustTicket("bob", bob)}).wants(t, 401, missing)
		if status := w.headOf(call{method: "HEAD", path: "/v1/users/bob/messages/stream?ticket=" + w.mustTicket("bob", bob)}); status != 401 {
			t.Errorf("HEAD: %d", status)
		}
		w.do(get("/v1/users/bob/messages/stream?ticket=x").with(admin)).wants(t, 422, broken("ticket", "type", "is not a parameter of this call"))
	})
	t.Run("is made with a user token", func(t *testing.T) {
		w.post("/v1/users/bob/tickets", "", admin).wants(t, 400, problem(api.CodeInvalidRequest, "a ticket is made with a user token, not with an API key"))
		w.post("/v1/users/alice/tickets", "", bob).wants(t, 403, problem(api.CodeForbidden, "*"))
	})
}

func TestU3_NoTokenOrTicketIsWritten(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	token := w.mustTokenOf("bob", time.Hour)
	header := "Authorization: Bearer " + token
	ticket := w.mustTicket("bob", header)
	w.post("/v1/chats", `{"id":"team","creator":"bob"}`, admin)
	for _, c := range []call{
		get("/v1/users/bob/chats").with(header), get("/v1/users/alice/chats").with(header),
		get("/v1/users/bob/chats").with("Authorization: Bearer " + token[:len(token)-2]),
		get("/v1/users/bob/messages/pending?wait_ms=1&ticket=" + ticket), get("/v1/users/bob/messages/pending?wait_ms=1&ticket=" + ticket),
		get("/v1/users/bob/messages/stream?x=1&ticket=" + w.mustTicket("bob", header)), get("/v1/nothing?ticket=" + ticket),
	} {
		a := w.do(c)
		if a.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: Referrer-Policy %q", c.path, a.header.Get("Referrer-Policy"))
		}
		if strings.Contains(a.body, ticket) || strings.Contains(a.body, token[:40]) {
			t.Errorf("%s: %s", c.path, a.body)
		}
	}
	for where, text := range map[string]string{"the log": w.log.String(), "the metrics": w.get("/metrics").body} {
		if strings.Contains(text, ticket) || strings.Contains(text, token[:len(token)-2]) || strings.Contains(text, "bob") {
			t.Errorf("%s has it:\n%s", where, text)
		}
	}
}

func TestU5_StreamsEndWithTheirToken(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob","carol"],"message":"one"}`, admin)
	w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":3}]`)).with(admin))
	t.Run("at its exp", func(t *testing.T) {
		t.Parallel()
		ended := time.Now().Add(3 * time.Second)
		f := w.follow("bob", "", "Authorization: Bearer "+w.mustTokenOf("bob", 3*time.Second))
		if e := f.wantData(); !strings.Contains(e.data, `"one"`) {
			t.Fatalf("%+v", e)
		}
		f.wantsBye("expired", ended)
		w.post("/v1/chats/team/messages", `{"sender":"alice","text":"two"}`, admin)
		next := w.follow("bob", f.last, w.mustToken("bob"))
		if e := next.wantData(); !strings.Contains(e.data, `"two"`) {
			t.Errorf("the next stream begins with %+v", e)
		}
	})
	t.Run("at a revocation", func(t *testing.T) {
		t.Parallel()
		token := w.mustToken("carol")
		chats := w.follow("carol", "", token)
		chats.wantData()
		sale := w.followURL("/v1/sales/spring/stream?ticket=" + w.mustTicket("carol", token))
		sale.wantData()
		w.post("/v1/users/carol/tokens/revoke", "", admin).wants(t, 204, "")
		revoked := time.Now()
		chats.wantsBye("revoked", revoked)
		sale.wantsBye("revoked", revoked)
	})
}

func TestU5_ALongPollEndsWithItsToken(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "")
	reads := &readsOf{key: "ff:{chats:bob}:index"}
	db.Client().AddHook(reads)
	w := setupOn(t, db)
	admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)
	token := w.mustToken("bob")
	before := reads.n.Load()
	got := make(chan answer, 1)
	go func() {
		a, _ := w.try(get("/v1/users/bob/messages/pending?wait_ms=20000").with(token))
		got <- a
	}()
	storetest.Eventually(t, soon, "the poll to wait", func() bool {
		return strings.Contains(w.get("/metrics").body, "fanfare_open_streams 1") && reads.n.Load() > before
	})
	w.post("/v1/users/bob/tokens/revoke", "", admin).wants(t, 204, "")
	w.post("/v1/chats/team/messages", `{"sender":"alice","text":"not for him any more"}`, admin)
	a := (<-got).wants(t, 401, problem(api.CodeUnauthorized, "*"))
	wantHeader(t, a, "WWW-Authenticate", `Bearer error="invalid_token"`)
}

// readsOf counts the answered pipelines with a key.
type readsOf struct {
	key string
	n   atomic.Int64
}

func (r *readsOf) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *readsOf) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *readsOf) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if slices.ContainsFunc(cmds, func(c redis.Cmder) bool { return slices.Contains(c.Args(), any(r.key)) }) {
			r.n.Add(1)
		}
		return err
	}
}

// wantsBye reads to the end of the stream: a bye within 10 s of the given time, and nothing more.
func (f *follower) wantsBye(reason string, after time.Time) {
	f.t.Helper()
	defer time.AfterFunc(soon, f.close).Stop() // a stream that never ends is an error and must not let the test hang
	var last event
	for {
		e, err := f.next()
		if err != nil {
			break
		}
		if !e.comment {
			last = e
		}
	}
	if last.name != "bye" || last.data != `{"reason":"`+reason+`"}` {
		f.t.Errorf("the stream ended with %+v", last)
	}
	if late := time.Since(after); late > 10*time.Second {
		f.t.Errorf("%v late", late)
	}
}

func TestU4_Origins(t *testing.T) {
	t.Parallel()
	const app = "https://app.example.com"
	w, admin := setupUsers(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{app, "capacitor://localhost"} })
	alice := w.mustToken("alice")
	t.Run("may read answers and refusals", func(t *testing.T) {
		t.Parallel()
		for _, c := range []call{get("/v1/users/alice/chats").with(alice), get("/v1/users/bob/chats").with(alice), get("/v1/users/alice/chats"), get("/v1/users/alice/chats").with(admin)} {
			a := w.do(c.with("Origin: " + app))
			wantHeader(t, a, "Access-Control-Allow-Origin", app)
			wantHeader(t, a, "Vary", "Origin")
			wantHeader(t, a, "Access-Control-Expose-Headers", "ETag, Location, Retry-After, RateLimit, RateLimit-Policy, X-Request-Id")
			wantHeader(t, a, "Access-Control-Allow-Credentials", "")
		}
	})
	t.Run("are exact", func(t *testing.T) {
		t.Parallel()
		for _, origin := range []string{"https://app.example.com:8443", "http://app.example.com", "https://app.example.com.evil.com", "https://evil.com", "null", "http://localhost:3000", "*", ""} {
			c := get("/v1/users/alice/chats").with(alice)
			if origin != "" {
				c = c.with("Origin: " + origin)
			}
			a := w.do(c).wants(t, 200, `{"items":[]}`)
			wantHeader(t, a, "Access-Control-Allow-Origin", "")
			wantHeader(t, a, "Vary", "Origin")
		}
	})
	t.Run("see nothing of the other routes", func(t *testing.T) {
		t.Parallel()
		a := w.do(get("/v1/event-types").with(admin, "Origin: "+app)).wants(t, 200, `{"items":[]}`)
		wantHeader(t, a, "Access-Control-Allow-Origin", "")
		a = w.do(call{method: "OPTIONS", path: "/v1/event-types"}.with("Origin: "+app, "Access-Control-Request-Method: GET"))
		wantHeader(t, a, "Access-Control-Allow-Origin", "")
	})
	t.Run("preflights need no token and are remembered", func(t *testing.T) {
		t.Parallel()
		ask := call{method: "OPTIONS", path: "/v1/chats/team/messages"}
		a := w.do(ask.with("Origin: "+app, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type"))
		if a.status != 204 {
			t.Errorf("status %d", a.status)
		}
		for name, want := range map[string]string{
			"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, HEAD, POST", "Access-Control-Max-Age": "600", "Vary": "Origin",
			"Access-Control-Allow-Headers":     "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID",
			"Access-Control-Allow-Credentials": "",
		} {
			wantHeader(t, a, name, want)
		}
		for _, c := range []call{
			ask.with("Origin: https://evil.com", "Access-Control-Request-Method: POST"), ask.with("Origin: "+app, "Access-Control-Request-Method: PATCH"),
			{method: "OPTIONS", path: "/v1/chats/team/members/bob", headers: []string{"Origin: " + app, "Access-Control-Request-Method: PUT"}},
		} {
			wantHeader(t, w.do(c), "Access-Control-Allow-Origin", "")
		}
		b := w.do(call{method: "OPTIONS", path: "/v1/chats/team/members/bob"}.with("Origin: capacitor://localhost", "Access-Control-Request-Method: DELETE"))
		wantHeader(t, b, "Access-Control-Allow-Methods", "DELETE")
		wantHeader(t, b, "Access-Control-Allow-Origin", "capacitor://localhost")
	})
}

func TestU4_AnyOriginAndNone(t *testing.T) {
	t.Parallel()
	t.Run("any", func(t *testing.T) {
		t.Parallel()
		w, _ := setupUsers(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{web.AnyOrigin} })
		a := w.do(get("/v1/users/alice/chats").with(w.mustToken("alice"), "Origin: https://anywhere.example"))
		wantHeader(t, a, "Access-Control-Allow-Origin", `\*`)
		wantHeader(t, a, "Access-Control-Allow-Credentials", "")
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		w, _ := setupUsers(t)
		a := w.do(get("/v1/users/alice/chats").with(w.mustToken("alice"), "Origin: http://localhost:3000"))
		wantHeader(t, a, "Access-Control-Allow-Origin", "")
		wantHeader(t, a, "Vary", "")
	})
}

func TestU4_AnOpenServerAdmitsThisMachine(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{web.AnyOrigin} })
	foreign := problem(api.CodeForbidden, "without an API key this server answers no pages of other origins")
	for _, origin := range []string{"http://localhost:3000", "http://127.0.0.1:5173", "https://[::1]:8443", "http://localhost"} {
		a := w.do(get("/v1/users/alice/chats").with("Origin: "+origin)).wants(t, 200, `{"items":[]}`)
		if got := a.header.Get("Access-Control-Allow-Origin"); got != origin {
			t.Errorf("%s: %q", origin, got)
		}
		w.do(get("/v1/event-types").with("Origin: "+origin)).wants(t, 403, foreign)
		w.do(post("/v1/chats", `{"creator":"a"}`).with("Origin: "+origin)).wants(t, 403, foreign)
		p := w.do(call{method: "OPTIONS", path: "/v1/users/alice/tickets"}.with("Origin: "+origin, "Access-Control-Request-Method: POST"))
		if got := p.header.Get("Access-Control-Allow-Origin"); got != origin || p.status != 204 {
			t.Errorf("preflight of %s: %d %q", origin, p.status, got)
		}
		w.do(call{method: "OPTIONS", path: "/v1/event-types"}.with("Origin: "+origin, "Access-Control-Request-Method: GET")).wants(t, 403, foreign)
	}
	for _, origin := range []string{"https://evil.com", "http://localhost.evil.com", "http://localhost:3000/x", "null", "file://localhost", "http://user@localhost"} {
		w.do(get("/v1/users/alice/chats").with("Origin: "+origin)).wants(t, 403, foreign)
	}
	t.Run("a user token counts there too", func(t *testing.T) {
		a := w.post("/v1/users/alice/tokens", `{"scopes":["chat"]}`).wants(t, 201, `{"token":"*","expires_at":"*"}`)
		alice := "Authorization: Bearer " + a.member(t, "token")
		w.do(get("/v1/users/alice/chats").with(alice)).wants(t, 200, `{"items":[]}`)
		w.do(get("/v1/users/bob/chats").with(alice)).wants(t, 403, problem(api.CodeForbidden, "*"))
		w.do(get("/v1/users/bob/chats").with(alice+"x")).wants(t, 401, problem(api.CodeUnauthorized, "*"))
	})
}

// The script of a call itself checks the membership, so that there is no separate check that could
// be out of date. So the calls cost the same as with an API key, one script each.
func TestU2_MembershipIsCheckedInTheCallsOwnScript(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setupOn(t, storetest.OpenWith(t, redisdb.Options{URL: server.URL()}))
	admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
	w.post("/v1/chats", `{"id":"team","creator":"alice"}`, admin)
	alice := w.mustToken("alice")
	scripts := func(c call) int {
		w.do(c) // Redis has the script now
		before := storetest.Calls(t, server.Client(), "evalsha")
		if a := w.do(c); a.status >= 300 {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
		return storetest.Calls(t, server.Client(), "evalsha") - before
	}
	for _, c := range []call{get("/v1/chats/team"), get("/v1/chats/team/members"), get("/v1/chats/team/messages?user=alice"), post("/v1/chats/team/messages", `{"sender":"alice","text":"x"}`)} {
		if key, user := scripts(c.with(admin)), scripts(c.with(alice)); key != user || user != 1 {
			t.Errorf("%s %s: %d scripts with an API key, %d with a user token", c.method, c.path, key, user)
		}
	}
}
