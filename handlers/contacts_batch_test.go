package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
)

func contactBatch(user string, list ...string) call {
	return post("/v1/users/"+user+"/contacts/batch", `{"contacts":[`+strings.Join(list, ",")+`]}`)
}

func aContact(name, relationship string) string {
	return `{"contact":"` + name + `","relationship":"` + relationship + `"}`
}

// TestR16_Batch: the contacts of a batch are there, each as a single call makes it.
func TestR16_Batch(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.put("/v1/users/me/contacts/bob", `{"relationship":"contact"}`).wants(t, 201, aContact("bob", "contact"))
		w.post("/v1/uploads", `{"id":"1","owner":"carl","visibility":"public","uploaded_at":"2026-01-02T15:04:05.000Z"}`).wants(t, 202, `"*"`)
		w.do(contactBatch("me", aContact("carl", "family"), aContact("bob", "friend"), aContact("batch", "contact"))).wants(t, 204, "")
		w.get("/v1/users/me/contacts").wants(t, 200, `{"items":[`+aContact("batch", "contact")+`,`+aContact("bob", "friend")+`,`+aContact("carl", "family")+`]}`)
		w.get("/v1/users/me/recent-contacts").wants(t, 200,
			`{"items":[{"contact":"carl","relationship":"family","last_upload_at":"2026-01-02T15:04:05.000Z"}],"complete":true}`)
		t.Run("a contact may be called batch", func(t *testing.T) {
			w.put("/v1/users/me/contacts/batch", `{"relationship":"friend"}`).wants(t, 200, aContact("batch", "friend"))
			w.del("/v1/users/me/contacts/batch").wants(t, 204, "")
			w.put("/v1/users/me/contacts/batch", `{"relationship":"friend"}`).wants(t, 201, aContact("batch", "friend"))
		})
	})
}

func TestR16_BatchesAreIdempotent(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const key = "Idempotency-Key: 1"
		w.do(contactBatch("me", aContact("bob", "friend")).with(key)).wants(t, 204, "")
		w.del("/v1/users/me/contacts/bob").wants(t, 204, "")
		again := w.do(contactBatch("me", aContact("bob", "friend")).with(key)).wants(t, 204, "")
		wantHeader(t, again, "Idempotent-Replayed", "true")
		w.get("/v1/users/me/contacts").wants(t, 200, `{"items":[]}`)
		w.do(contactBatch("amy", aContact("bob", "friend")).with(key)).wants(t, 204, "") // another user
		w.get("/v1/users/amy/contacts").wants(t, 200, `{"items":[`+aContact("bob", "friend")+`]}`)
		if a := w.do(contactBatch("me", aContact("carl", "friend")).with(key)); a.status != 422 || a.member(t, "code") != "idempotency_key_reused" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestBadContactBatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const batch, relations = "/v1/users/me/contacts/batch", "must be one of contact, friend, family"
	run(t, w, []bad{
		{"nothing", post(batch, `{}`), 422, broken("contacts", "required", "is required")},
		{"no contact", contactBatch("me"), 422, broken("contacts", "min", "must have at least 1 item")},
		{"1,001 contacts", contactBatch("me", strings.Split(strings.Repeat("{} ", 1001), " ")[:1001]...), 422, broken("contacts", "max", "must have at most 1000 items")},
		{"an unknown field", post(batch, `{"contacts":[{"user":"x"}]}`), 400, badJSON("contacts[0].user", "is not a field of this call")},
		{"a bad user", contactBatch("a%20b", aContact("bob", "friend")), 422, broken("user", "identifier", identifierRule)},
		{"a bad contact", contactBatch("me", aContact("bob", "friend"), aContact("{x}", "friend")), 422, broken("contacts[1].contact", "identifier", identifierRule)},
		{"an unknown relationship", contactBatch("me", aContact("bob", "foe")), 422, broken("contacts[0].relationship", "oneof", relations)},
		{"no relationship", contactBatch("me", `{"contact":"bob"}`), 422, broken("contacts[0].relationship", "required", "is required")},
		{"a contact twice", contactBatch("me", aContact("bob", "friend"), aContact("amy", "friend"), aContact("bob", "family")), 422,
			broken("contacts[2].contact", "unique", "repeats contacts[0]")},
	})
	w.get("/v1/users/me/contacts").wants(t, 200, `{"items":[]}`)
}

// TestR16_TheLargestBatch is below the limit of its body.
func TestR16_TheLargestBatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := make([]string, api.MaxContactBatch)
	for i := range list {
		list[i] = aContact(fmt.Sprintf("%s%04d", strings.Repeat("u", api.MaxIdentifier-4), i), "contact")
	}
	w.do(contactBatch("me", list...)).wants(t, 204, "")
	if n := strings.Count(w.get("/v1/users/me/contacts?limit=500").body, `"contact":"`); n != 500 {
		t.Errorf("%d contacts on the first page", n)
	}
}

// TestR16_NotForUserTokens: an API key needs the scope, and a user token does not open the call.
func TestR16_NotForUserTokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(contactBatch("bob", aContact("amy", "friend")).with("Authorization: Bearer "+w.mustKey(api.ScopeContacts))).wants(t, 204, "")
	w.do(contactBatch("bob", aContact("amy", "friend")).with("Authorization: Bearer "+w.mustKey(api.ScopePush))).
		wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope contacts", `"scope":"contacts"`))
	w.do(contactBatch("bob", aContact("amy", "friend")).with(w.mustToken("bob", api.UserScopeContacts))).
		wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
}
