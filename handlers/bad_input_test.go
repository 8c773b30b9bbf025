package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
)

// bad is a refused call and its whole answer.
type bad struct {
	name   string
	call   call
	status int
	want   string
}

// run sends every call and compares status and whole body.
func run(t *testing.T, w *world, table []bad) {
	t.Helper()
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := w.do(c.call)
			a.wants(t, c.status, c.want)
			if got := a.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type: %s", got)
			}
			if a.header.Get("X-Request-Id") != a.member(t, "request_id") {
				t.Errorf("X-Request-Id %q, body %s", a.header.Get("X-Request-Id"), a.body)
			}
		})
	}
}

// errorsOf writes the member "errors" for fields, each with its rule and message.
func errorsOf(fields ...string) string {
	var list []api.FieldError
	for i := 0; i+2 < len(fields); i += 3 {
		list = append(list, api.FieldError{Field: fields[i], Rule: fields[i+1], Message: fields[i+2]})
	}
	b, _ := json.Marshal(list)
	return `"errors":` + string(b)
}

// badJSON is the answer to JSON that names a wrong field.
func badJSON(field, message string) string {
	return problem(api.CodeInvalidJSON, field+" "+message, errorsOf(field, "json", message))
}

// broken is the answer to a request that breaks one rule.
func broken(field, rule, message string) string {
	return problem(api.CodeValidation, field+" "+message, errorsOf(field, rule, message))
}

const localeRule = "must be a language, perhaps with a region, such as de or de-AT, at most 35 bytes"

// languages are n members of an event type's localized, each with a body of this size.
func languages(n, size int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"x%c":{"body":"%s"}`, 'a'+i, strings.Repeat("b", size))
	}
	return strings.Join(all, ",")
}

const identifierRule = "must be 1 to 128 bytes of A-Z a-z 0-9 . _ : @ -"

func post(path, body string) call { return call{method: "POST", path: path, body: body} }
func put(path, body string) call  { return call{method: "PUT", path: path, body: body} }
func get(path string) call        { return call{method: "GET", path: path} }

func (c call) with(headers ...string) call {
	c.headers = append(c.headers, headers...)
	return c
}

func TestBadJSON(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const events, types = "/v1/events", "/v1/event-types/photo.shared"
	run(t, w, []bad{
		{"unknown field", put(types, `{"titel":"x"}`), 400, badJSON("titel", "is not a field of this call")},
		{"unknown field further in", post(events, `{"type":"a","audience":{"user":["bob"]}}`), 400, badJSON("audience.user", "is not a field of this call")},
		{"names are case-sensitive", put(types, `{"Title":"x"}`), 400, badJSON("Title", "is not a field of this call")},
		{"duplicate key", put(types, `{"title":"x","body":"y","title":"z"}`), 400, badJSON("title", "appears twice")},
		{"duplicate key in free-form JSON", put(types, `{"title":"x","aps":{"badge":1,"badge":2}}`), 400, badJSON("aps.badge", "appears twice")},
		{"duplicate key in a map", post(events, `{"type":"a","audience":{"users":["b"]},"data":{"x":"1","x":"2"}}`), 400, badJSON("data.x", "appears twice")},
		{"number for a string", put(types, `{"title":7}`), 400, badJSON("title", "must be a string, not a number")},
		{"string for a number", put(types, `{"priority":"5"}`), 400, badJSON("priority", "must be an integer, not a string")},
		{"1.5 for an integer", put(types, `{"priority":1.5}`), 400, badJSON("priority", "must be an integer, not the number 1.5")},
		{"integer out of range", put(types, `{"ttl_seconds":99999999999999999999}`), 400, badJSON("ttl_seconds", "must be an integer, not the number 99999999999999999999")},
		{"string for true or false", put(types, `{"collapse":"yes"}`), 400, badJSON("collapse", "must be true or false, not a string")},
		{"object for an array", post(events, `{"type":"a","audience":{"users":{}}}`), 400, badJSON("audience.users", "must be an array, not an object")},
		{"wrong type in an array", post(events, `{"type":"a","audience":{"users":["bob",7]}}`), 400, badJSON("audience.users[1]", "must be a string, not a number")},
		{"wrong type in a batch", post(events+"/batch", `{"events":[{"type":"a","audience":{"users":["b"]}},{"type":true}]}`), 400, badJSON("events[1].type", "must be a string, not true or false")},
		{"nested data", post(events, `{"type":"a","audience":{"users":["b"]},"data":{"x":{}}}`), 400, badJSON("data.x", "must be a string, not an object")},
		{"array for an object", post(events, `{"type":"a","audience":[]}`), 400, badJSON("audience", "must be an object, not an array")},
		{"not a time", put("/v1/users/bob/mutes/x", `{"until":"tomorrow"}`), 400, badJSON("until", "must be an RFC 3339 time such as 2026-01-02T15:04:05.000Z")},
		{"a number for a time", put("/v1/users/bob/mutes/x", `{"until":12}`), 400, badJSON("until", "must be an RFC 3339 time such as 2026-01-02T15:04:05.000Z")},
		{"two values", put(types, `{"title":"x"} {"title":"y"}`), 400, problem(api.CodeInvalidJSON, "the body must be one JSON value, but more follows at byte 14")},
		{"more after the value", put(types, `{"title":"x"}]`), 400, problem(api.CodeInvalidJSON, "the body must be one JSON value, but more follows at byte 13")},
		{"cut off", put(types, `{"title":"x"`), 400, problem(api.CodeInvalidJSON, "the body ends before the JSON does")},
		{"not JSON", put(types, `title=x`), 400, problem(api.CodeInvalidJSON, "the body is not valid JSON at byte 1")},
		{"white space alone", put(types, "  "), 400, problem(api.CodeInvalidJSON, "the body ends before the JSON does")},
		{"an array", put(types, `[]`), 400, problem(api.CodeInvalidJSON, "the body must be an object, not an array")},
		{"null", put(types, `null`), 400, problem(api.CodeInvalidJSON, "the body must be an object, not null")},
		{"not UTF-8", put(types, "{\"title\":\"\xff\"}"), 400, badJSON("title", "is not UTF-8 at byte 10")},
		{"half a surrogate pair", put(types, `{"title":"\ud800"}`), 400, badJSON("title", "is not valid JSON at byte 10")},
		{"no body", post(events, "").with("Content-Type: application/json"), 400, problem(api.CodeInvalidJSON, "the body is empty; this call takes a JSON object")},
		{"a field where none is taken", put("/v1/users/bob/opt-outs/x", `{"until":"2126-01-01T00:00:00Z"}`), 400, badJSON("until", "is not a field of this call")},
		{"the same of a POST", post("/v1/dead-letters/events.0.x/retry", `{"id":1}`), 400, badJSON("id", "is not a field of this call")},
		{"the same of a DELETE", call{method: "DELETE", path: types, body: `{"force":true}`}, 400, badJSON("force", "is not a field of this call")},
		{"a list where no body is taken", put("/v1/users/bob/opt-outs/x", `[]`), 400, problem(api.CodeInvalidJSON, "the body must be an object, not an array")},
	})
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const types = "/v1/event-types/photo.shared"
	pad := func(n int) string { return `{"title":"` + strings.Repeat("x", n) + `"}` }
	big := func(limit int64) string {
		return problem(api.CodePayloadTooLarge, fmt.Sprintf("the body may have at most %d bytes", limit), fmt.Sprintf(`"max_bytes":%d`, limit))
	}
	json415 := problem(api.CodeUnsupportedMedia, "the body must be sent as Content-Type: application/json")
	chunked := func(c call) call { c.chunked = true; return c }
	run(t, w, []bad{
		{"no Content-Type", put(types, `{}`).with("Content-Type: "), 415, json415},
		{"another Content-Type", put(types, `{}`).with("Content-Type: text/plain"), 415, json415},
		{"a form", put(types, `title=x`).with("Content-Type: application/x-www-form-urlencoded"), 415, json415},
		{"another charset", put(types, `{}`).with("Content-Type: application/json; charset=latin1"), 415, problem(api.CodeUnsupportedMedia, "JSON is sent in UTF-8, not in another charset")},
		{"UTF-8 by another name", put(types, `{"titel":"x"}`).with("Content-Type: application/json; charset=UTF8"), 400, badJSON("titel", "is not a field of this call")},
		{"compressed", put(types, `{}`).with("Content-Encoding: gzip"), 415, problem(api.CodeUnsupportedMedia, "the body must be sent without Content-Encoding")},
		{"neither body nor Content-Type", call{method: "PUT", path: types}, 415, json415},
		{"no Content-Type on an optional body", put("/v1/users/bob/mutes/x", `{}`).with("Content-Type: "), 415, json415},
		{"no Content-Type on an optional chunked body", chunked(put("/v1/users/bob/mutes/x", `{}`)).with("Content-Type: "), 415, json415},
		{"no Content-Type on a body where none is taken", put("/v1/users/bob/opt-outs/x", `{}`).with("Content-Type: "), 415, json415},
		{"the same in chunks", chunked(put("/v1/users/bob/opt-outs/x", `{}`)).with("Content-Type: "), 415, json415},
		{"over 64 KiB where none is taken", chunked(put("/v1/users/bob/opt-outs/x", pad(64<<10))), 413, big(64 << 10)},
		{"over 64 KiB", put(types, pad(64<<10)), 413, big(64 << 10)},
		{"over 64 KiB in chunks", chunked(put(types, pad(64<<10))), 413, big(64 << 10)},
		{"a batch of devices over 4 MiB", post("/v1/devices/batch", pad(4<<20)), 413, big(4 << 20)},
		{"a batch of contacts over 1 MiB", post("/v1/users/bob/contacts/batch", pad(1<<20)), 413, big(1 << 20)},
		{"users of a topic over 1 MiB", post("/v1/topics/news/users", pad(1<<20)), 413, big(1 << 20)},
		{"a job over 256 KiB", post("/v1/queues/q/jobs", pad(256<<10)), 413, big(256 << 10)},
		{"a batch of jobs over 4 MiB", post("/v1/queues/q/jobs/batch", pad(4<<20)), 413, big(4 << 20)},
		{"a claim over 64 KiB", post("/v1/queues/q/claims", pad(64<<10)), 413, big(64 << 10)},
		{"results of jobs over 1 MiB", post("/v1/queues/q/results", pad(1<<20)), 413, big(1 << 20)},
		{"an event over 1 MiB", post("/v1/events", pad(1<<20)), 413, big(1 << 20)},
		{"an event over 1 MiB in chunks", chunked(post("/v1/events", pad(1<<20))), 413, big(1 << 20)},
		{"a batch over 4 MiB", post("/v1/events/batch", pad(4<<20)), 413, big(4 << 20)},
		{"a batch over 4 MiB in chunks", chunked(post("/v1/events/batch", pad(4<<20))), 413, big(4 << 20)},
	})
}

func TestBadFields(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const events, device = "/v1/events", `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`
	long := strings.Repeat("x", 129)
	audience := `"audience":{"users":["bob"]}`
	run(t, w, []bad{
		{"user with a brace", put("/v1/users/%7Bbob%7D/devices/"+token, device), 422, broken("user", "identifier", identifierRule)},
		{"user that a path folds away", get("/v1/users/%2e%2e/devices"), 422, broken("user", "identifier", identifierRule)},
		{"user with a space", get("/v1/users/a%20b/devices"), 422, broken("user", "identifier", identifierRule)},
		{"user with a slash", get("/v1/users/a%2Fb/devices"), 422, broken("user", "identifier", identifierRule)},
		{"user in another script", get("/v1/users/b%C3%B6b/devices"), 422, broken("user", "identifier", identifierRule)},
		{"user of 129 bytes", get("/v1/users/" + long + "/devices"), 422, broken("user", "identifier", identifierRule)},
		{"event type of 129 bytes", put("/v1/event-types/"+long, `{"title":"x"}`), 422, broken("type", "identifier", identifierRule)},
		{"object with a star", put("/v1/users/bob/mutes/a*", ""), 422, broken("object", "identifier", identifierRule)},
		{"token too short", put("/v1/users/bob/devices/abcd", device), 422, broken("token", "token", tokenRule)},
		{"token of odd length", put("/v1/users/bob/devices/"+token+"a", device), 422, broken("token", "token", "is not a token of apns")},
		{"token that is not hex", put("/v1/users/bob/devices/"+token[:62]+"zz", device), 422, broken("token", "token", "is not a token of apns")},
		{"token of a browser", put("/v1/users/bob/devices/wp."+token[:43], device), 422, broken("token", "token", "is not a token of apns")},
		{"token of APNs for FCM", put("/v1/users/bob/devices/"+token, `{"platform":"fcm","topic":"x"}`), 422, broken("token", "token", "is not a token of fcm")},
		{"an environment on FCM", put("/v1/users/bob/devices/"+fcmToken, `{"platform":"fcm","topic":"x","environment":"sandbox"}`), 422, broken("environment", "apns", "is for the platform apns alone")},
		{"no environment on APNs", put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"x"}`), 422, broken("environment", "required", "is required")},
		{"a bad token to replace", put("/v1/users/bob/devices/"+token, strings.Replace(device, "{", `{"replaces":"x",`, 1)), 422, broken("replaces", "token", tokenRule)},
		{"a ttl in fcm", put("/v1/event-types/a", `{"title":"x","fcm":{"ttl":"1s"}}`), 422, broken("fcm.ttl", "reserved", "is set by ttl_seconds or expires_at")},
		{"fcm as a list", put("/v1/event-types/a", `{"title":"x","fcm":[]}`), 422, broken("fcm", "object", "must be a JSON object")},
		{"fcm over 2 KiB", put("/v1/event-types/a", `{"title":"x","fcm":{"a":"`+strings.Repeat("a", 2048)+`"}}`), 422, broken("fcm", "max", "must be at most 2048 bytes as JSON")},
		{"every failing field at once", put("/v1/users/a%20b/devices/"+token, `{"platform":"pigeon","environment":"test"}`), 422,
			problem(api.CodeValidation, "user "+identifierRule+" (and 3 more)", errorsOf("user", "identifier", identifierRule,
				"platform", "oneof", "must be one of apns, fcm", "topic", "required", "is required", "environment", "oneof", "must be one of production, sandbox"))},
		{"no audience", post(events, `{"type":"a"}`), 422, broken("audience", "exactly_one", "must hold exactly one of users, contacts_of, chat, topic, all, activities_of, broadcast")},
		{"two audiences", post(events, `{"type":"a","audience":{"users":["bob"],"chat":"c"}}`), 422, broken("audience", "exactly_one", "must hold exactly one of users, contacts_of, chat, topic, all, activities_of, broadcast")},
		{"no users", post(events, `{"type":"a","audience":{"users":[]}}`), 422, broken("audience.users", "min", "must have at least 1 item")},
		{"a bad user", post(events, `{"type":"a","audience":{"users":["bob","{x}"]}}`), 422, broken("audience.users[1]", "identifier", identifierRule)},
		{"10,001 users", post(events, `{"type":"a","audience":{"users":["b"`+strings.Repeat(`,"b"`, 10_000)+`]}}`), 422, broken("audience.users", "max", "must have at most 10000 items")},
		{"no type", post(events, `{`+audience+`}`), 422, broken("type", "required", "is required")},
		{"a collapse id over 64 bytes", post(events, `{"type":"a",`+audience+`,"collapse_id":"`+strings.Repeat("ü", 33)+`"}`), 422, broken("collapse_id", "max", "must be at most 64 bytes")},
		{"data over 2 KiB", post(events, `{"type":"a",`+audience+`,"data":{"x":"`+strings.Repeat("x", 2048)+`"}}`), 422, broken("data", "max", "must be at most 2048 bytes as JSON")},
		{"aps over 2 KiB", post(events, `{"type":"a",`+audience+`,"aps":{"x":"`+strings.Repeat("x", 2048)+`"}}`), 422, broken("aps", "max", "must be at most 2048 bytes as JSON")},
		{"aps that is no object", post(events, `{"type":"a",`+audience+`,"aps":[1]}`), 422, broken("aps", "object", "must be a JSON object")},
		{"an empty alert", post(events, `{"type":"a",`+audience+`,"alert":{}}`), 422, broken("alert", "required", "needs title or body")},
		{"an empty batch", post(events+"/batch", `{"events":[]}`), 422, broken("events", "min", "must have at least 1 item")},
		{"1,001 events", post(events+"/batch", `{"events":[`+strings.Repeat(`{"type":"a",`+audience+`},`, 1000)+`{"type":"a",`+audience+`}]}`), 422, broken("events", "max", "must have at most 1000 items")},
		{"a bad event in a batch", post(events+"/batch", `{"events":[{"type":"a",`+audience+`},{"type":"a b",`+audience+`}]}`), 422, broken("events[1].type", "identifier", identifierRule)},
		{"a title over 256 bytes", put("/v1/event-types/a", `{"title":"`+strings.Repeat("ü", 129)+`"}`), 422, broken("title", "max", "must be at most 256 bytes")},
		{"a background push of priority 10", put("/v1/event-types/a", `{"push_type":"background","priority":10}`), 422, broken("priority", "background", "must not be 10 for a background push")},
		{"an unknown push type", put("/v1/event-types/a", `{"title":"x","push_type":"loud"}`), 422,
			broken("push_type", "oneof", "must be one of alert, background, location, voip, complication, liveactivity, pushtotalk, widgets, controls")},
		{"a language that is none", put("/v1/event-types/a", `{"title":"x","localized":{"d":{"title":"y"}}}`), 422, broken("localized[d]", "locale", localeRule)},
		{"a language without a text", put("/v1/event-types/a", `{"title":"x","localized":{"de":{}}}`), 422, broken("localized[de]", "required", "needs title or body")},
		{"a language twice", put("/v1/event-types/a", `{"title":"x","localized":{"de":{"title":"y"},"DE":{"title":"y"}}}`), 422, broken("localized[de]", "unique", "repeats DE")},
		{"21 languages", put("/v1/event-types/a", `{"title":"x","localized":{`+languages(21, 1)+`}}`), 422, broken("localized", "max", "must have at most 20 items")},
		{"languages of more than 8 KiB", put("/v1/event-types/a", `{"title":"x","localized":{`+languages(8, 1024)+`}}`), 422, broken("localized", "max", "must be at most 8192 bytes as JSON")},
		{"a text over 2,048 bytes in a language", put("/v1/event-types/a", `{"title":"x","localized":{`+languages(1, 2049)+`}}`), 422, broken("localized[xa].body", "max", "must be at most 2048 bytes")},
		{"an unknown member of a language", put("/v1/event-types/a", `{"title":"x","localized":{"de":{"titel":"y"}}}`), 400, badJSON("localized.de.titel", "is not a field of this call")},
		{"webpush over 2 KiB", put("/v1/event-types/x", `{"title":"x","webpush":{"icon":"`+strings.Repeat("i", 2048)+`"}}`), 422, broken("webpush", "max", "must be at most 2048 bytes as JSON")},
		{"webpush of an event over 2 KiB", post(events, `{"type":"a",`+audience+`,"webpush":{"url":"`+strings.Repeat("u", 2048)+`"}}`), 422, broken("webpush", "max", "must be at most 2048 bytes as JSON")},
		{"an unknown member of webpush", put("/v1/event-types/x", `{"title":"x","webpush":{"title":"y"}}`), 400, badJSON("webpush.title", "is not a field of this call")},
		{"a button without a text", put("/v1/event-types/x", `{"title":"x","webpush":{"actions":[{"action":"a"}]}}`), 422, broken("webpush.actions[0].title", "required", "is required")},
		{"a locale that is none", put("/v1/users/bob/devices/"+token, strings.Replace(device, "{", `{"locale":"de_AT",`, 1)), 422, broken("locale", "locale", localeRule)},
		{"a locale of 36 bytes", put("/v1/users/bob/devices/"+token, strings.Replace(device, "{", `{"locale":"de`+strings.Repeat("-a", 17)+`",`, 1)), 422, broken("locale", "locale", localeRule)},
		{"a priority there is not", put("/v1/event-types/a", `{"title":"x","priority":7}`), 422, broken("priority", "oneof", "must be one of 1, 5, 10")},
		{"a negative time to live", put("/v1/event-types/a", `{"title":"x","ttl_seconds":-1}`), 422, broken("ttl_seconds", "min", "must be at least 0")},
	})
}

func TestBadQueries(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const types = "/v1/event-types"
	run(t, w, []bad{
		{"limit 0", get(types + "?limit=0"), 422, broken("limit", "min", "must be at least 1")},
		{"limit 501", get(types + "?limit=501"), 422, broken("limit", "max", "must be at most 500")},
		{"a limit that is no number", get(types + "?limit=many"), 422, broken("limit", "type", "must be an integer")},
		{"a limit of 1.5", get(types + "?limit=1.5"), 422, broken("limit", "type", "must be an integer")},
		{"two limits", get(types + "?limit=1&limit=2"), 422, broken("limit", "type", "must be given once")},
		{"a limit out of range", get(types + "?limit=99999999999999999999"), 422, broken("limit", "type", "must be an integer")},
		{"a cursor of one's own", get(types + "?cursor=abc"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor with U+0000", get("/v1/operations?cursor=MSBhAA"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a cursor of another list", get("/v1/dead-letters?cursor=MWE"), 422, broken("cursor", "cursor", "is not a cursor that a list gave as next")},
		{"a kind there is not", get("/v1/dead-letters?kind=letter"), 422, broken("kind", "oneof", "must be one of event, notification, task, job")},
		{"a malformed query", get(types + "?limit=%zz"), 422, broken("query", "query", "is not a well-formed query string")},
		{"both at once", get("/v1/dead-letters?kind=letter&limit=x"), 422, problem(api.CodeValidation, "limit must be an integer (and 1 more)",
			errorsOf("limit", "type", "must be an integer", "kind", "oneof", "must be one of event, notification, task, job"))},
	})
}

func TestBadPaths(t *testing.T) {
	t.Parallel()
	w := setup(t)
	nothing := problem(api.CodeNotFound, "there is nothing at this path; /openapi.json has all paths")
	run(t, w, []bad{
		{"an unknown path", get("/v1/nothing"), 404, nothing},
		{"another version", post("/v2/events", `{}`), 404, nothing},
		{"a slash too many", get("/v1/event-types/"), 404, nothing},
		{"an empty name", get("/v1/users//devices"), 422, broken("user", "identifier", identifierRule)},
		{"a method there is not", call{method: "BREW", path: "/v1/nothing"}, 404, nothing},
	})
	t.Run("another method names those that are taken", func(t *testing.T) {
		t.Parallel()
		for path, allow := range map[string]string{
			"/v1/uploads":            "POST, OPTIONS",
			"/v1/event-types":        "GET, HEAD, OPTIONS",
			"/v1/event-types/a":      "DELETE, GET, HEAD, PUT, OPTIONS",
			"/healthz":               "GET, HEAD, OPTIONS",
			"/v1/users/b%40c/mutes/": "",
		} {
			a := w.do(call{method: "PATCH", path: path})
			if allow == "" {
				a.wants(t, 404, nothing)
				continue
			}
			a.wants(t, 405, problem(api.CodeMethodNotAllowed, "this path takes "+allow))
			if a.header.Get("Allow") != allow {
				t.Errorf("%s: Allow: %s, want %s", path, a.header.Get("Allow"), allow)
			}
		}
	})
	t.Run("OPTIONS says what a path takes", func(t *testing.T) {
		t.Parallel()
		a := w.do(call{method: "OPTIONS", path: "/v1/uploads"}).wants(t, 204, "")
		if a.header.Get("Allow") != "POST, OPTIONS" || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("headers %v", a.header)
		}
	})
	t.Run("HEAD is GET without the body", func(t *testing.T) {
		t.Parallel()
		a, g := w.do(call{method: "HEAD", path: "/v1/event-types"}), w.get("/v1/event-types")
		if length := a.header.Get("Content-Length"); a.status != 200 || a.body != "" || length == "" || length != g.header.Get("Content-Length") {
			t.Errorf("%d %q, Content-Length %s", a.status, a.body, a.header.Get("Content-Length"))
		}
	})
}

func TestIdentifiersThatAreFine(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, user := range []string{"bob", "b.o_b:1@x-y", "b%40example.com", "b@example.com", strings.Repeat("x", 128), "...", "%2ea"} {
		w.get("/v1/users/"+user+"/devices").wants(t, 200, `{"items":[]}`)
	}
}
