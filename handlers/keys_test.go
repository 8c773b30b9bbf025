package handlers_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/apikeys"
	"fanfare/store/storetest"
)

// admin makes an API key of a server, as a header, and its id.
func (w *world) admin() (header, id string) {
	w.t.Helper()
	secret := w.mustKey(api.ScopeAdmin)
	return "Authorization: Bearer " + secret, apikeys.IDOf(secret)
}

// changes are the lines about changes in the log so far, as "action target key".
func (w *world) changes() (out []string) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		var l struct{ Level, Msg, Action, Target, Key string }
		storetest.Must(w.t, json.Unmarshal([]byte(line), &l))
		if l.Msg == "change" && l.Level == "INFO" {
			out = append(out, l.Action+" "+l.Target+" "+l.Key)
		}
	}
	return out
}

func TestN19_KeysAreMadeListedAndRevoked(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, url string) {
		w := setupSQL(t, storetest.Open(t, "embedded"), url)
		admin, own := w.admin()
		const at = `,"created_at":"*"`
		end := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")
		first := `{"id":"` + own + `","name":"test","scopes":["admin"]` + at
		w.do(get("/v1/keys").with(admin)).wants(t, 200, `{"items":[`+first+`}]}`)

		now := time.Now()
		storetest.Eventually(t, time.Minute, "a later millisecond", func() bool { return time.Since(now) > 2*time.Millisecond })
		a := w.post("/v1/keys", `{"name":" looks on ","scopes":["ops:read","chat"],"expires_at":"`+end+`"}`, admin)
		id, secret := a.member(t, "id"), a.member(t, "key")
		made := `{"id":"` + id + `","name":"looks on","scopes":["ops:read","chat"]` + at + `,"expires_at":"` + end + `"`
		a.wants(t, 201, made+`,"key":"`+secret+`"}`)
		if !strings.HasPrefix(secret, "ff_"+id+"_") || len(secret) < 60 {
			t.Errorf("the key %s of %s", secret, id)
		}
		bearer := "Authorization: Bearer " + secret
		w.do(get("/v1/dead-letters").with(bearer)).wants(t, 200, `{"items":[]}`)
		w.do(get("/v1/keys").with(bearer)).wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope admin", `"scope":"admin"`))

		page := w.do(get("/v1/keys?limit=1").with(admin))
		next := page.member(t, "next")
		page.wants(t, 200, `{"items":[`+first+`}],"next":"`+next+`"}`)
		w.do(get("/v1/keys?cursor="+next).with(admin)).wants(t, 200, `{"items":[`+made+`}]}`)

		w.do(call{method: "DELETE", path: "/v1/keys/" + id}.with(admin)).wants(t, 204, "")
		w.do(get("/v1/dead-letters").with(bearer)).wants(t, 401, problem(api.CodeUnauthorized, "the API key is unknown or revoked"))
		w.do(get("/v1/keys").with(admin)).wants(t, 200, `{"items":[`+first+`},`+made+`,"revoked_at":"*"}]}`)
		w.do(call{method: "DELETE", path: "/v1/keys/" + id}.with(admin)).wants(t, 204, "")

		unknown := problem(api.CodeNotFound, "there is no such key")
		w.do(call{method: "DELETE", path: "/v1/keys/unknown"}.with(admin)).wants(t, 404, unknown)
		w.do(call{method: "DELETE", path: "/v1/keys/" + own}.with(admin)).wants(t, 204, "")
		w.do(get("/v1/keys").with(admin)).wants(t, 401, problem(api.CodeUnauthorized, "the API key is unknown or revoked"))
	})
}

func TestN19_KeysThatCannotBeMade(t *testing.T) {
	t.Parallel()
	w := setup(t)
	admin, own := w.admin()
	key := func(name, scopes, more string) call {
		return post("/v1/keys", `{"name":`+name+`,"scopes":`+scopes+more+`}`).with(admin)
	}
	const all = "must be one of push, push:all, contacts, chat, sales, sales:buy, jobs, jobs:work, locks, values, values:read, tokens, users:erase, ops:read, ops, admin"
	run(t, w, []bad{
		{"no name", post("/v1/keys", `{"scopes":["ops"]}`).with(admin), 422, broken("name", "required", "is required")},
		{"blanks", key(`"  "`, `["ops"]`, ""), 422, broken("name", "required", "must be 1 to 255 bytes")},
		{"a long name", key(`"`+strings.Repeat("\u00fc", 128)+`"`, `["ops"]`, ""), 422, broken("name", "max", "must be at most 255 bytes")},
		{"two lines", key(`"a\nb"`, `["ops"]`, ""), 422, broken("name", "printable", "may not hold control characters")},
		{"no scope", key(`"a"`, `[]`, ""), 422, broken("scopes", "min", "must have at least 1 item")},
		{"an unknown scope", key(`"a"`, `["root"]`, ""), 422, broken("scopes[0]", "oneof", all)},
		{"a scope twice", key(`"a"`, `["ops","ops"]`, ""), 422, broken("scopes", "unique", "must name each value once")},
		{"over already", key(`"a"`, `["ops"]`, `,"expires_at":"2026-01-01T00:00:00Z"`), 422, broken("expires_at", "future", "must be in the future")},
		{"its own secret", key(`"a"`, `["ops"]`, `,"key":"ff_a_b"`), 400, badJSON("key", "is not a field of this call")},
		{"an Idempotency-Key", key(`"a"`, `["ops"]`, "").with("Idempotency-Key: once"), 400,
			problem(api.CodeInvalidRequest, "this call takes no Idempotency-Key: its answer is a secret and is not kept")},
		{"a broken cursor", get("/v1/keys?cursor=x").with(admin), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
	})
	t.Cleanup(func() { // all subtests are done
		keys, err := w.keys.List(context.WithoutCancel(t.Context()))
		if err != nil || len(keys) != 1 || keys[0].ID != own || len(w.changes()) != 0 {
			t.Errorf("a refused call made %v, %v; changes: %v", keys, err, w.changes())
		}
	})
	if want := "must be one of " + strings.Join(names(api.Scopes), ", "); all != want {
		t.Errorf("there are other scopes: %s", want)
	}
}

func names[T ~string](list []T) (out []string) {
	for _, one := range list {
		out = append(out, string(one))
	}
	return out
}

// While SQL is away no key is made, and the list is not empty but refused.
func TestN19_SQLAway(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.MySQL(t))
	w := setupSQL(t, storetest.Open(t, "embedded"), url)
	admin, own := w.admin()
	proxy.Cut()
	for _, c := range []call{get("/v1/keys"), post("/v1/keys", `{"name":"a","scopes":["ops"]}`), {method: "DELETE", path: "/v1/keys/" + own}} {
		if a := w.do(c.with(admin)); a.status != 503 || strings.Contains(a.body, "ff_") {
			t.Errorf("%s: %d %s", c.method, a.status, a.body)
		}
	}
	proxy.Mend()
	storetest.Eventually(t, 30*time.Second, "the list is back", func() bool {
		return w.do(get("/v1/keys").with(admin)).status == 200
	})
}

// On a server that never had a key, the first one is made without one, and closes the server.
func TestN19_TheFirstKey(t *testing.T) {
	t.Parallel()
	w := setup(t)
	a := w.post("/v1/keys", `{"name":"first","scopes":["admin"]}`)
	bearer := "Authorization: Bearer " + a.member(t, "key")
	if a.status != 201 {
		t.Fatal(a.body)
	}
	w.get("/v1/keys").wants(t, 401, problem(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one"))
	w.do(get("/v1/keys").with(bearer)).wants(t, 200, `{"items":[{"id":"`+a.member(t, "id")+`","name":"first","scopes":["admin"],"created_at":"*"}]}`)
}

// N4: every change is in the log, with who made it, and nothing else is. No key is in the log, even if
// somebody takes a key for its id.
func TestN4_ChangesAreLogged(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		admin, own := w.admin()
		made := w.post("/v1/keys", `{"name":"a","scopes":["ops"]}`, admin)
		id, secret := made.member(t, "id"), made.member(t, "key")
		bearer, by := "Authorization: Bearer "+secret, apikeys.IDOf(secret)
		mustDie(t, w.jobs, 2)
		letters := deadIDs(w.do(get("/v1/dead-letters").with(bearer)))
		for range 2 { // the second is a replay
			w.post("/v1/dead-letters/"+letters[0]+"/retry", "", bearer, "Idempotency-Key: once")
		}
		w.post("/v1/dead-letters/unknown/retry", "", bearer)
		w.do(call{method: "DELETE", path: "/v1/dead-letters/" + letters[1]}.with(bearer))
		w.do(call{method: "DELETE", path: "/v1/dead-letters/" + letters[1]}.with(bearer))
		w.post("/v1/keys", `{"name":"b","scopes":["admin"]}`, bearer) // 403
		wrong := strings.Replace(secret, "ff_", "ff_x", 1)
		for path, want := range map[string]int{secret: 204, wrong: 404, secret + "~": 422} {
			if a := w.do(call{method: "DELETE", path: "/v1/keys/" + path}.with(admin)); a.status != want || strings.Contains(a.body, secret[len(secret)-20:]) {
				t.Errorf("%d, want %d: %s", a.status, want, a.body)
			}
		}
		want := []string{
			"keys.create " + id + " " + own, "dead_letters.retry " + letters[0] + " " + by,
			"dead_letters.delete " + letters[1] + " " + by, "keys.revoke " + id + " " + own,
		}
		if got := w.changes(); !slices.Equal(got, want) {
			t.Errorf("changes\n%v\nwant\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, part := range []string{secret[len(secret)-20:], strings.TrimPrefix(admin, "Authorization: Bearer ff_"+own+"_")} {
			if strings.Contains(w.log.String(), part) {
				t.Errorf("a key is in the log:\n%s", w.log)
			}
		}
	})
}
