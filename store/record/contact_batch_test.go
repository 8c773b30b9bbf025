package record_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func contact(owner, name, relationship string) record.Contact {
	return record.Contact{Owner: owner, Contact: name, Relationship: relationship, Version: 7}
}

// mustContacts lists the contacts of a user with their relationships.
func mustContacts(t testing.TB, db *record.DB, user string) (out []string) {
	t.Helper()
	list, err := db.Contacts(t.Context(), user, "", 10_000)
	storetest.Must(t, err)
	for _, c := range list {
		out = append(out, c.Contact+" "+string(c.Relationship))
	}
	return out
}

// TestR16_OneRowForABatch: it names the contacts that changed, and there is none if none did.
func TestR16_OneRowForABatch(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		mustPutContact(t, db, "me", "same", "friend")
		mustPutContact(t, db, "me", "more", "contact")
		mustPutContact(t, db, "me", "back", "friend")
		storetest.Must(t, db.DeleteContact(t.Context(), "me", "back"))
		before := mustCount(t, db, "outbox")
		batch := []record.Contact{contact("me", "same", "friend"), contact("me", "new", "family"), contact("me", "more", "friend"), contact("me", "back", "friend")}
		row, replayed, err := db.PutContactBatch(t.Context(), "me", batch, api.Idempotency{})
		if err != nil || replayed || row.Kind != record.KindContacts || row.Subject != "me" || row.Payload != `["back","more","new"]` {
			t.Fatalf("%+v, %t, %v", row, replayed, err)
		}
		if got := mustContacts(t, db, "me"); !slices.Equal(got, []string{"back friend", "more friend", "new family", "same friend"}) {
			t.Errorf("contacts %v", got)
		}
		for name, want := range map[string]int64{"same": 1, "more": 2, "back": 3, "new": 7} {
			var version int64
			storetest.Must(t, db.SQL().Get(&version, "SELECT version FROM contacts WHERE owner = 'me' AND contact = ?", name))
			if version != want {
				t.Errorf("%s has the version %d, want %d", name, version, want)
			}
		}
		none, _, err := db.PutContactBatch(t.Context(), "me", batch, api.Idempotency{})
		if err != nil || none.ID != "" || mustCount(t, db, "outbox") != before+1 {
			t.Errorf("again: %+v, %v", none, err)
		}
		t.Run("DeletedContactsStayAsLongAsTheRow", func(t *testing.T) {
			_, err := db.RemoveContact(t.Context(), "me", "new")
			storetest.Must(t, err)
			_, err = db.SQL().Exec("DELETE FROM outbox WHERE kind = 'contact'")
			storetest.Must(t, err)
			for _, want := range []int{4, 3} {
				_, err = db.PurgeContacts(t.Context(), -time.Hour)
				if storetest.Must(t, err); mustCount(t, db, "contacts") != want {
					t.Errorf("%d rows of contacts, want %d", mustCount(t, db, "contacts"), want)
				}
				storetest.Must(t, db.DeleteOutbox(t.Context(), row.ID))
			}
		})
	})
}

// TestR16_ABatchOnce: a repeat with the same key does not bring back what was deleted since.
func TestR16_ABatchOnce(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		once := api.Idempotency{Scope: "s", Key: "k", Body: [32]byte{1}}
		for n := range 2 {
			row, replayed, err := db.PutContactBatch(t.Context(), "me", []record.Contact{contact("me", "bob", "friend")}, once)
			if err != nil || replayed != (n == 1) || (row.ID == "") != replayed {
				t.Fatalf("call %d: %+v, %t, %v", n, row, replayed, err)
			}
			storetest.Must(t, db.DeleteContact(t.Context(), "me", "bob"))
			if got := mustContacts(t, db, "me"); len(got) != 0 {
				t.Errorf("call %d: contacts %v", n, got)
			}
		}
		once.Body = [32]byte{2}
		_, _, err := db.PutContactBatch(t.Context(), "me", []record.Contact{contact("me", "amy", "friend")}, once)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
	})
}

// TestR16_OppositeOrders: batches with the same contacts in opposite orders, at the same time.
func TestR16_OppositeOrders(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		const contacts = 600 // more than one statement
		storetest.AtOnce(t, 6, func(ctx context.Context, i int) error {
			list := make([]record.Contact, contacts)
			for k := range list {
				list[k] = contact("me", fmt.Sprintf("c%03d", k), []string{"friend", "family"}[i%2])
			}
			if i%2 == 0 {
				slices.Reverse(list)
			}
			_, _, err := db.PutContactBatch(ctx, "me", list, api.Idempotency{})
			return err
		})
		got := mustContacts(t, db, "me")
		for _, c := range got {
			if c[len("c000 "):] != got[0][len("c000 "):] {
				t.Fatalf("two batches are mixed: %s and %s", got[0], c)
			}
		}
		if len(got) != contacts {
			t.Errorf("%d contacts", len(got))
		}
	})
}
