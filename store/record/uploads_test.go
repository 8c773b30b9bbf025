package record_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/api"
	"fanfare/store/record"
)

func upload(id, owner string, v api.Visibility, ms int64) *api.UploadRequest {
	at := api.AtMillis(ms)
	return &api.UploadRequest{ID: id, Owner: owner, Visibility: v, UploadedAt: &at}
}

func mustPutUpload(t testing.TB, db *record.DB, r *api.UploadRequest) record.UploadWrite {
	t.Helper()
	w, _, err := db.PutUpload(t.Context(), r, api.Idempotency{})
	storetest.Must(t, err)
	return w
}

func mustPutContact(t testing.TB, db *record.DB, owner, contact, relationship string) record.ContactWrite {
	t.Helper()
	w, err := db.PutContact(t.Context(), record.Contact{Owner: owner, Contact: contact, Relationship: relationship})
	storetest.Must(t, err)
	return w
}

func mustOpenRows(t testing.TB, db *record.DB, kind string) []record.OpenRow {
	t.Helper()
	page, err := db.OutboxPage(t.Context(), kind, 0, record.OpenRow{}, 1000)
	storetest.Must(t, err)
	return page
}

func TestPutUpload(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		first := mustPutUpload(t, db, upload("u1", "alice", api.VisibleFriends, 1000))
		if !first.Created || len(first.Outbox) != 1 || first.Upload.UploadedAt.UnixMilli() != 1000 {
			t.Fatalf("first: %+v", first)
		}
		again := mustPutUpload(t, db, upload("u1", "mallory", api.VisiblePublic, 2000))
		if again.Created || again.Upload.Owner != "alice" || again.Upload.Visibility != api.VisibleFriends {
			t.Fatalf("the same id again changed it: %+v", again.Upload)
		}
		if len(again.Outbox) != 1 || again.Outbox[0] != first.Outbox[0] {
			t.Fatalf("the open row %v is not announced again: %v", first.Outbox, again.Outbox)
		}
		storetest.Must(t, db.DeleteOutbox(t.Context(), first.Outbox...))
		if w := mustPutUpload(t, db, upload("u1", "alice", api.VisibleFriends, 1000)); len(w.Outbox) != 0 {
			t.Fatalf("nothing is open, yet %v is announced", w.Outbox)
		}
		if w := mustPutUpload(t, db, upload("u2", "alice", api.VisiblePrivate, 1000)); !w.Created || len(w.Outbox) != 0 {
			t.Fatalf("a private upload is nobody's business: %+v", w)
		}
	})
}

func TestPutUploadInTheFuture(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		now := time.Now()
		_, _, err := db.PutUpload(t.Context(), upload("far", "alice", "public", now.Add(6*time.Minute).UnixMilli()), api.Idempotency{})
		storetest.WantCode(t, err, api.CodeValidation)
		if got, err := db.Upload(t.Context(), "far"); err != nil || got != nil {
			t.Fatalf("a refused upload is on record: %+v, %v", got, err)
		}
		mustPutUpload(t, db, upload("near", "alice", "public", now.Add(4*time.Minute).UnixMilli()))
		w := mustPutUpload(t, db, &api.UploadRequest{ID: "now", Owner: "alice", Visibility: "public"})
		if d := w.Upload.UploadedAt.Sub(now).Abs(); d > time.Minute {
			t.Fatalf("an upload without a time is %v away from now", d)
		}
	})
}

func TestSetVisibility(t *testing.T) {
	t.Parallel()
	order := []api.Visibility{api.VisiblePublic, api.VisibleContacts, api.VisibleFriends, api.VisibleFamily, api.VisiblePrivate}
	// widens[from][to]: does someone see it who did not before?
	widens := [5][5]bool{
		{false, false, false, false, false},
		{true, false, false, false, false},
		{true, true, false, true, false},
		{true, true, true, false, false},
		{true, true, true, true, false},
	}
	eachConnection(t, func(t *testing.T, db *record.DB) {
		for i, from := range order {
			for j, to := range order {
				id := fmt.Sprintf("%s-%s", from, to)
				mustPutUpload(t, db, upload(id, "alice", from, 1000))
				w, err := db.SetVisibility(t.Context(), id, to)
				storetest.Must(t, err)
				if got := len(w.Outbox) == 1; got != widens[i][j] {
					t.Errorf("%s: fan-out %t, want %t", id, got, widens[i][j])
				}
				if got, _ := db.Upload(t.Context(), id); got.Visibility != to {
					t.Errorf("%s: is %s", id, got.Visibility)
				}
			}
		}
		_, err := db.SetVisibility(t.Context(), "unknown", "public")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

func TestDeleteUpload(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		mustPutUpload(t, db, upload("u1", "alice", "public", 1000))
		storetest.Must(t, db.DeleteUpload(t.Context(), "u1"))
		storetest.Must(t, db.DeleteUpload(t.Context(), "u1"))
		storetest.Must(t, db.DeleteUpload(t.Context(), "unknown"))
		if w := mustPutUpload(t, db, upload("u1", "alice", "public", 1000)); w.Created {
			t.Fatal("a late repeat brought a deleted upload back")
		}
		if got, err := db.Upload(t.Context(), "u1"); err != nil || got != nil {
			t.Fatalf("deleted, yet there: %+v, %v", got, err)
		}
		_, err := db.SetVisibility(t.Context(), "u1", "public")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

func TestIdempotentUpload(t *testing.T) {
	t.Parallel()
	key := func(name, body string) api.Idempotency {
		return api.Idempotency{Scope: "k POST /v1/uploads", Key: name, Body: sha256.Sum256([]byte(body))}
	}
	put := func(t *testing.T, db *record.DB, r *api.UploadRequest, i api.Idempotency) (record.UploadWrite, bool, error) {
		t.Helper()
		return db.PutUpload(t.Context(), r, i)
	}
	eachConnection(t, func(t *testing.T, db *record.DB) {
		first, replayed, err := put(t, db, &api.UploadRequest{ID: "u1", Owner: "alice", Visibility: "public"}, key("a", "1"))
		if err != nil || replayed || !first.Created {
			t.Fatalf("first: %+v, %t, %v", first, replayed, err)
		}
		t.Run("ReplayGivesTheFirstAnswer", func(t *testing.T) {
			again, replayed, err := put(t, db, &api.UploadRequest{ID: "u1", Owner: "alice", Visibility: "public"}, key("a", "1"))
			if err != nil || !replayed || !again.Created || *again.Upload != *first.Upload {
				t.Fatalf("%+v, %t, %v; want %+v", again, replayed, err, first)
			}
		})
		t.Run("OtherBodyIsRefused", func(t *testing.T) {
			_, _, err := put(t, db, upload("u9", "alice", "public", 1), key("a", "2"))
			storetest.WantCode(t, err, api.CodeIdempotencyReused)
		})
		t.Run("OtherScopeIsAnotherKey", func(t *testing.T) {
			i := key("a", "2")
			i.Scope = "other"
			if w, replayed, err := put(t, db, upload("u2", "alice", "public", 1), i); err != nil || replayed || !w.Created {
				t.Fatalf("%+v, %t, %v", w, replayed, err)
			}
		})
		t.Run("ARefusalIsNotKept", func(t *testing.T) {
			_, _, err := put(t, db, upload("u3", "alice", "public", time.Now().Add(time.Hour).UnixMilli()), key("b", "3"))
			storetest.WantCode(t, err, api.CodeValidation)
			if w, replayed, err := put(t, db, upload("u3", "alice", "public", 1), key("b", "4")); err != nil || replayed || !w.Created {
				t.Fatalf("%+v, %t, %v", w, replayed, err)
			}
		})
		t.Run("ManyAtOnceMakeOne", func(t *testing.T) {
			made := make(chan bool, 16)
			storetest.AtOnce(t, 16, func(ctx context.Context, i int) error {
				w, replayed, err := db.PutUpload(ctx, upload("u4", "alice", "public", 7), key("c", "5"))
				made <- w.Created && !replayed
				return err
			})
			close(made)
			n := 0
			for m := range made {
				if m {
					n++
				}
			}
			if n != 1 {
				t.Fatalf("%d of 16 say that they made it", n)
			}
		})
		t.Run("ForgottenAfterADay", func(t *testing.T) {
			_, err := db.SQL().Exec("UPDATE idempotency SET created_at = created_at - 86400001")
			storetest.Must(t, err)
			if w, replayed, err := put(t, db, upload("u5", "alice", "public", 1), key("a", "9")); err != nil || replayed || !w.Created {
				t.Fatalf("%+v, %t, %v", w, replayed, err)
			}
			more, err := db.PurgeIdempotency(t.Context())
			var left int
			storetest.Must(t, errors.Join(err, db.SQL().Get(&left, "SELECT COUNT(*) FROM idempotency")))
			if more || left != 1 {
				t.Fatalf("%d left, more to purge: %t; want the fresh one", left, more)
			}
		})
	})
}
