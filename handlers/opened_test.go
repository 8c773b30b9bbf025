package handlers_test

import (
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/events"
	"fanfare/store/storetest"
)

// mustOpened posts an event whose type counts who opens its notifications, of which users got one.
func (w *world) mustOpened(users ...string) (id string) {
	w.t.Helper()
	admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
	w.do(call{method: "PUT", path: "/v1/event-types/seen", body: `{"title":"New","opened":true}`}.with(admin))
	id = w.do(post("/v1/events", `{"type":"seen","audience":{"users":["`+strings.Join(users, `","`)+`"]}}`).with(admin)).member(w.t, "id")
	for _, err := range w.events.NoteRecipients(w.t.Context(), time.Hour, events.Recipients{Event: id, Users: users}) {
		storetest.Must(w.t, err)
	}
	return id
}

// O1: the calls by HTTP, with a key and with the user's own token. A repeat is answered the same, and the Idempotency-Key has no
// effect. Everybody who does not count is refused.
func TestO1_OpenedOverHTTP(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		id := w.mustOpened("bob", "eve")
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		bob, zoe := w.mustToken("bob", api.UserScopeDevices), w.mustToken("zoe", api.UserScopeDevices)
		opened, dismissed := "/v1/events/"+id+"/opened", "/v1/events/"+id+"/dismissed"
		report := func(numbers string) {
			t.Helper()
			w.do(get("/v1/events/"+id).with(admin)).wants(t, 200, `{"id":"`+id+`","type":"seen","state":"queued","accepted_at":"*","recipients":0,"notifications":0,
				"delivered":0,"failed":0,"expired":0,"cancelled":0,"retrying":0,`+numbers+`"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":0,"live":0}}`)
		}
		report(`"opened":0,"dismissed":0,`)
		for range 2 {
			a := w.do(post(opened, `{"user":"bob","token":"`+token+`"}`).with(bob, "Idempotency-Key: k")).wants(t, 204, "")
			if a.header.Get("Idempotent-Replayed") != "" {
				t.Error("the key was kept")
			}
			w.do(post(opened, `{}`).with(bob, "Idempotency-Key: k")).wants(t, 204, "")
			w.do(post(dismissed, `{"user":"eve"}`).with(admin)).wants(t, 204, "")
		}
		report(`"opened":1,"dismissed":1,`)
		w.do(post(opened, `{"user":"eve"}`).with(admin)).wants(t, 204, "")
		report(`"opened":2,"dismissed":1,`)

		plain := w.do(post("/v1/events", anEvent).with(admin)).member(t, "id")
		for _, path := range []string{"/opened", "/dismissed"} {
			w.do(post("/v1/events/"+plain+path, `{"user":"bob"}`).with(admin)).wants(t, 409, problem(api.CodeNotCounted, "*"))
			w.do(post("/v1/events/unknown"+path, `{"user":"bob"}`).with(admin)).wants(t, 404, problem(api.CodeNotFound, "*"))
			w.do(post("/v1/events/"+id+path, `{"user":"zoe"}`).with(admin)).wants(t, 404, problem(api.CodeNotFound, "*"))
			w.do(post("/v1/events/"+id+path, `{}`).with(zoe)).wants(t, 404, problem(api.CodeNotFound, "*"))
			w.do(post("/v1/events/"+id+path, `{"user":"bob"}`).with(zoe)).wants(t, 403, problem(api.CodeForbidden, "*"))
			w.do(post("/v1/events/"+id+path, `{}`).with(w.mustToken("bob", api.UserScopeChat))).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"devices"`))
			for body, field := range map[string]string{`{}`: "user", `{"user":"a b"}`: "user", `{"user":"bob","token":"x y"}`: "token"} {
				if a := w.do(post("/v1/events/"+id+path, body).with(admin)); a.status != 422 || !strings.Contains(a.body, `"field":"`+field+`"`) {
					t.Errorf("%s: %d %s", body, a.status, a.body)
				}
			}
		}
		report(`"opened":2,"dismissed":1,`)
		w.do(call{method: "PUT", path: "/v1/event-types/silent", body: `{"push_type":"background","opened":true}`}.with(admin)).
			wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"opened","rule":"alert","message":"*"}]`))
	})
}

// O1: a page of another origin makes the calls with its user's token.
func TestO1_APageCalls(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{"https://shop.example"} })
	id := w.mustOpened("bob")
	own, page := w.mustToken("bob", api.UserScopeDevices), "Origin: https://shop.example"
	for _, path := range []string{"/v1/events/" + id + "/opened", "/v1/events/" + id + "/dismissed"} {
		asked := w.do(call{method: "OPTIONS", path: path}.with(page, "Access-Control-Request-Method: POST"))
		wantHeader(t, asked, "Access-Control-Allow-Methods", "POST")
		wantHeader(t, asked, "Access-Control-Allow-Origin", "https://shop.example")
		a := w.do(post(path, `{}`).with(own, page)).wants(t, 204, "")
		wantHeader(t, a, "Access-Control-Allow-Origin", "https://shop.example")
	}
}

// O1: while Redis is nearly full the calls are refused as overloaded, and nothing is counted.
func TestO1_NearlyFull(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, storetest.Redis(t).URL()))
	id := w.mustOpened("bob")
	bob := w.mustToken("bob", api.UserScopeDevices)
	w.mustNearlyFill(t)
	a := w.do(post("/v1/events/"+id+"/opened", `{}`).with(bob))
	if a.status != 503 || !strings.Contains(a.body, `"code":"overloaded"`) || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if r, err := w.events.Report(t.Context(), id); err != nil || *r.Opened != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
