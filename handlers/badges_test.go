package handlers_test

import (
	"strings"
	"testing"

	"fanfare/api"
)

// B1: a badge by HTTP, with a key and with the user's own token.
func TestB1_Badges(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		admin := "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
		const path = "/v1/users/bob/badge"
		bob, eve := w.mustToken("bob", api.UserScopeDevices), w.mustToken("eve", api.UserScopeDevices)
		w.do(get(path).with(bob)).wants(t, 200, `{"count":0,"version":0}`)
		put := func(body string) call { return call{method: "PUT", path: path, body: body} }
		if a := w.do(put(`{"count":3}`).with(bob)); a.status != 200 || !strings.HasPrefix(a.body, `{"count":3,"version":1`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		first := w.do(post(path, `{"delta":-1}`).with(admin, "Idempotency-Key: k"))
		again := w.do(post(path, `{"delta":-1}`).with(admin, "Idempotency-Key: k"))
		if first.body != again.body || !strings.HasPrefix(first.body, `{"count":2,`) {
			t.Errorf("%s, again %s", first.body, again.body)
		}
		wantHeader(t, again, "Idempotent-Replayed", "true")
		w.do(post(path, `{"delta":-2}`).with(admin, "Idempotency-Key: k")).wants(t, 422, problem(api.CodeIdempotencyReused, "*"))
		w.do(get(path).with(eve)).wants(t, 403, problem(api.CodeForbidden, "*"))
		w.do(get(path).with(w.mustToken("bob", api.UserScopeChat))).wants(t, 403, problem(api.CodeForbidden, "*", `"scope":"devices"`))
		for _, row := range []struct {
			call
			field, rule string
		}{
			{put(`{}`), "count", "required"}, {put(`{"count":-1}`), "count", "min"}, {put(`{"count":100000}`), "count", "max"},
			{post(path, `{}`), "delta", "required"}, {post(path, `{"delta":100000}`), "delta", "max"},
		} {
			w.do(row.with(admin)).wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"`+row.field+`","rule":"`+row.rule+`","message":"*"}]`))
		}
		w.do(call{method: "PUT", path: "/v1/event-types/photo", body: `{"title":"x","badge":"unread"}`}.with(admin)).
			wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"badge","rule":"unread","message":"*"}]`))
		w.do(call{method: "PUT", path: "/v1/event-types/photo", body: `{"title":"x","badge":"many"}`}.with(admin)).
			wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"badge","rule":"oneof","message":"*"}]`))
	})
}

// B2: a number is shown without a text at most once a minute: what is set after that is shown a minute later, in one event.
func TestB2_Clear(t *testing.T) {
	t.Parallel()
	w := setup(t)
	put := func(body string) {
		t.Helper()
		if a := w.do(call{method: "PUT", path: "/v1/users/bob/badge", body: body}); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	events := func() (now, later int) {
		list := w.get("/v1/events?type=fanfare.badge").body
		later = strings.Count(list, `"state":"scheduled"`)
		return strings.Count(list, `"id":`) - later, later
	}
	put(`{"count":3}`)
	if now, later := events(); now+later != 0 {
		t.Errorf("%d events and %d for later without clear", now, later)
	}
	for n := range 3 {
		put(`{"count":0,"clear":true}`)
		if now, later := events(); now != 1 || later != min(n, 1) {
			t.Errorf("%d events and %d for later after %d calls", now, later, n+1)
		}
	}
}
