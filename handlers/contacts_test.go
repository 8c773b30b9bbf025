package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// workContacts runs the jobs of the recent contacts until the test ends.
func (w *world) workContacts() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.jobs.Run(ctx, queue.ByType(w.contacts.Jobs())) }()
	w.t.Cleanup(func() {
		cancel()
		storetest.Must(w.t, <-done)
	})
}

// want sends a call and compares status and whole body.
func (w *world) want(method, path, body string, status int, answer string) {
	w.t.Helper()
	a := w.do(call{method: method, path: path, body: body})
	if a.status != status || strings.TrimSpace(a.body) != answer {
		w.t.Fatalf("%s %s %s: %d %s\nwant %d %s", method, path, body, a.status, a.body, status, answer)
	}
}

func TestContacts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want("PUT", "/v1/users/alice/contacts/bob", `{"relationship":"friend"}`, 201, `{"contact":"bob","relationship":"friend"}`)
	w.want("PUT", "/v1/users/alice/contacts/bob", `{"relationship":"family"}`, 200, `{"contact":"bob","relationship":"family"}`)
	w.want("PUT", "/v1/users/alice/contacts/amy", `{"relationship":"contact"}`, 201, `{"contact":"amy","relationship":"contact"}`)
	w.want("GET", "/v1/users/alice/contacts", "", 200, `{"items":[{"contact":"amy","relationship":"contact"},{"contact":"bob","relationship":"family"}]}`)
	var page api.ContactList
	storetest.Must(t, json.Unmarshal([]byte(w.get("/v1/users/alice/contacts?limit=1").body), &page))
	w.want("GET", "/v1/users/alice/contacts?limit=1&cursor="+page.Next, "", 200, `{"items":[{"contact":"bob","relationship":"family"}]}`)
	for range 2 {
		w.want("DELETE", "/v1/users/alice/contacts/bob", "", 204, "")
	}
	w.want("GET", "/v1/users/alice/contacts", "", 200, `{"items":[{"contact":"amy","relationship":"contact"}]}`)
	w.want("GET", "/v1/users/nobody/contacts", "", 200, `{"items":[]}`)
}

func TestUploads(t *testing.T) {
	t.Parallel()
	w := setup(t)
	first := `{"id":"p1","owner":"bob","visibility":"friends","uploaded_at":"2026-01-02T03:04:05.678Z"}`
	w.want("POST", "/v1/uploads", `{"id":"p1","owner":"bob","visibility":"friends","uploaded_at":"2026-01-02T04:04:05.6789+01:00"}`, 202, first)
	w.want("POST", "/v1/uploads", `{"id":"p1","owner":"eve","visibility":"public"}`, 200, first)
	w.want("PATCH", "/v1/uploads/p1", `{"visibility":"public"}`, 200, strings.Replace(first, "friends", "public", 1))
	if a := w.do(call{method: "PATCH", path: "/v1/uploads/p2", body: `{"visibility":"public"}`}); a.status != 404 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for range 2 {
		w.want("DELETE", "/v1/uploads/p1", "", 204, "")
	}
	for body, field := range map[string]string{
		`{"id":"p 3","owner":"bob","visibility":"public"}`:                                                                       "id",
		`{"id":"p3","owner":"","visibility":"public"}`:                                                                           "owner",
		`{"id":"p3","owner":"bob","visibility":"acquaintances"}`:                                                                 "visibility",
		`{"id":"p3","owner":"bob","visibility":"public","uploaded_at":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`: "uploaded_at",
	} {
		a := w.do(call{method: "POST", path: "/v1/uploads", body: body})
		if a.status != 422 || !strings.Contains(a.body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	t.Run("IdempotencyKey", func(t *testing.T) {
		post := call{method: "POST", path: "/v1/uploads", body: `{"id":"p4","owner":"bob","visibility":"public"}`, headers: []string{"Idempotency-Key: k"}}
		one, two := w.do(post), w.do(post)
		if one.status != 202 || two.status != 202 || one.body != two.body || two.header.Get("Idempotent-Replayed") != "true" || one.header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%+v, then %+v", one, two)
		}
		post.body = `{"id":"p5","owner":"bob","visibility":"public"}`
		if a := w.do(post); a.status != 422 || !strings.Contains(a.body, "idempotency_key_reused") {
			t.Fatalf("%d %s", a.status, a.body)
		}
	})
}

func TestRecentContacts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.want("GET", "/v1/users/me/recent-contacts", "", 200, `{"items":[],"complete":true}`)
	w.want("GET", "/v1/users/me/recent-contacts/uploads", "", 200, `{"contact":null,"items":[]}`)
	for i, c := range []string{"amy", "bob"} {
		w.do(call{method: "PUT", path: "/v1/users/me/contacts/" + c, body: `{"relationship":"friend"}`})
		a := w.do(call{method: "POST", path: "/v1/uploads",
			body: fmt.Sprintf(`{"id":"up-%s","owner":"%s","visibility":"public","uploaded_at":"2026-01-02T03:04:0%d.000Z"}`, c, c, i)})
		if a.status != 202 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	stats := w.get("/v1/stats")
	if !strings.Contains(stats.body, `"contacts":{"pending":4,`) {
		t.Fatalf("the lag is not in the stats: %s", stats.body)
	}
	w.workContacts()
	bob := `{"contact":"bob","relationship":"friend","last_upload_at":"2026-01-02T03:04:01.000Z"}`
	amy := `{"contact":"amy","relationship":"friend","last_upload_at":"2026-01-02T03:04:00.000Z"}`
	storetest.Eventually(t, 30*time.Second, "the fan-out is done", func() bool {
		return strings.Contains(w.get("/v1/stats").body, `"contacts":{"pending":0,`)
	})
	w.want("GET", "/v1/users/me/recent-contacts", "", 200, `{"items":[`+bob+`,`+amy+`],"complete":true}`)
	w.want("GET", "/v1/users/me/recent-contacts?limit=1", "", 200, `{"items":[`+bob+`],"complete":true}`)
	w.want("GET", "/v1/users/me/recent-contacts/uploads", "", 200,
		`{"contact":"bob","items":[{"id":"up-bob","uploaded_at":"2026-01-02T03:04:01.000Z","visibility":"public"}]}`)
	for limit, message := range map[string]string{
		"0": "must be at least 1", "121": "must be at most 120 (FANFARE_CONTACTS_MAX)", "x": "must be an integer",
	} {
		a := w.get("/v1/users/me/recent-contacts?limit=" + limit)
		if a.status != 422 || !strings.Contains(a.body, `"field":"limit"`) || !strings.Contains(a.body, `"message":"`+message+`"`) {
			t.Errorf("limit=%s: %d %s", limit, a.status, a.body)
		}
	}
	rebuild := call{method: "POST", path: "/v1/users/me/recent-contacts/rebuild", headers: []string{"Idempotency-Key: r"}}
	empty := rebuild
	empty.body = "{}" // an empty object is the same as no body, so it is the same request
	one, two := w.do(rebuild), w.do(empty)
	wantHeader(t, one, "Location", "/v1/operations/"+one.member(t, "id"))
	if one.status != 202 || two.body != one.body || two.header.Get("Idempotent-Replayed") != "true" {
		t.Fatalf("%+v, then %+v", one, two)
	}
}
