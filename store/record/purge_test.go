package record_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

const month = 30 * 24 * time.Hour

// Deleted uploads and contacts are forgotten after their time, unless the outbox names them.
func TestPurgeDeleted(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		names := func(query string) (all []string) {
			storetest.Must(t, db.SQL().Select(&all, query))
			return all
		}
		for _, name := range []string{"kept", "new", "old", "owed"} {
			mustPutUpload(t, db, upload(name, name, "public", 1))
			w := mustPutContact(t, db, name, "bob", "friend")
			storetest.Must(t, db.DeleteOutbox(ctx, w.Outbox))
			if name == "kept" {
				continue
			}
			storetest.Must(t, db.DeleteUpload(ctx, name))
			w, err := db.RemoveContact(ctx, name, "bob")
			storetest.Must(t, err)
			if name != "owed" {
				storetest.Must(t, db.DeleteOutbox(ctx, w.Outbox))
				_, err = db.SQL().Exec("DELETE FROM outbox WHERE subject = '" + name + "'")
				storetest.Must(t, err)
			}
		}
		for _, table := range []string{"uploads", "contacts"} {
			_, err := db.SQL().Exec("UPDATE " + table + " SET updated_at = updated_at - 2592000001 WHERE owner <> 'new'")
			storetest.Must(t, err)
		}
		purge := func(uploads, contacts string) {
			t.Helper()
			for _, purge := range []func(context.Context, time.Duration) (bool, error){db.PurgeUploads, db.PurgeContacts} {
				more, err := purge(ctx, month)
				if storetest.Must(t, err); more {
					t.Error("there is more")
				}
			}
			if got := fmt.Sprint(names("SELECT id FROM uploads ORDER BY id")); got != uploads {
				t.Errorf("uploads %s, want %s", got, uploads)
			}
			if got := fmt.Sprint(names("SELECT owner FROM contacts ORDER BY owner")); got != contacts {
				t.Errorf("contacts %s, want %s", got, contacts)
			}
		}
		purge("[kept new owed]", "[kept new owed]")
		_, err := db.SQL().Exec("DELETE FROM outbox WHERE subject = 'owed'")
		storetest.Must(t, err)
		purge("[kept new]", "[kept new]")
		if w := mustPutUpload(t, db, upload("new", "new", "public", 1)); w.Created {
			t.Error("the id of an upload that was deleted a moment ago is taken for a new one")
		}
		if w := mustPutUpload(t, db, upload("old", "old", "public", 1)); !w.Created {
			t.Error("the id of an upload that is forgotten is still known")
		}
	})
}

// What a purge removes it finds by an index, however much there is, and in several steps.
func TestPurgesAreBounded(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		var values []string
		for i := range 2500 {
			values = append(values, fmt.Sprintf("('%064d', '', '', %d)", i, i))
		}
		for part := range slices.Chunk(values, 500) {
			_, err := db.SQL().Exec("INSERT INTO idempotency (id, body_hash, answer, created_at) VALUES " + strings.Join(part, ", "))
			storetest.Must(t, err)
		}
		if _, _, err := db.PutUpload(t.Context(), upload("u", "a", "public", 1), api.Idempotency{Scope: "s", Key: "k"}); err != nil {
			t.Fatal(err)
		}
		more, err := db.PurgeIdempotency(t.Context())
		if n := mustCount(t, db, "idempotency"); err != nil || more || n != 1 {
			t.Errorf("%d records are left, more: %t, %v", n, more, err)
		}
	})
	db := setup(t, storetest.SQLite(t))
	if plan := mustPlan(t, db, db.EndedActivities(), 1000); !strings.Contains(plan, "devices_by_end") {
		t.Errorf("ended activities: %s", plan)
	}
	for query, index := range db.PurgePlans() {
		if plan := mustPlan(t, db, query, month.Milliseconds(), 1000); !strings.Contains(plan, index) || !strings.Contains(plan, "outbox_by_subject") || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: %s", query, plan)
		}
	}
}

// Revocations are removed in steps too, oldest first, and a purge looks at no more than it could remove.
func TestRevocationsArePurgedInSteps(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		fresh := time.Now().Unix()
		add := func(from, n int, upTo int64) {
			t.Helper()
			var values []string
			for i := range n {
				values = append(values, fmt.Sprintf("('u%d', %d, %d)", from+i, upTo, from+i))
			}
			for part := range slices.Chunk(values, 1000) {
				_, err := db.SQL().Exec("INSERT INTO token_revocations (user_id, up_to, version) VALUES " + strings.Join(part, ", "))
				storetest.Must(t, err)
			}
		}
		add(0, 10_500, 1)
		add(20_000, 100, fresh)
		add(30_000, 5, 1)
		for i, want := range []struct {
			left int
			more bool
		}{{605, true}, {100, false}, {100, false}} {
			more, err := db.PurgeRevocations(t.Context())
			if n := mustCount(t, db, "token_revocations"); err != nil || more != want.more || n != want.left {
				t.Errorf("purge %d: %d are left, more: %t, %v; want %+v", i, n, more, err, want)
			}
		}
		add(40_000, 10_000, fresh)
		add(60_000, 1, 1) // behind ten thousand that count still: its time comes when they are gone
		more, err := db.PurgeRevocations(t.Context())
		if n := mustCount(t, db, "token_revocations"); err != nil || more || n != 10_101 {
			t.Errorf("%d are left, more: %t, %v", n, more, err)
		}
	})
}

// A purge that fails holds up no other and waits for its next time; one that is not done
// goes on in the next round.
func TestPurgesGoOnByThemselves(t *testing.T) {
	t.Parallel()
	var failed, busy, done int
	round := record.NewPurge(
		func(context.Context) (bool, error) { failed++; return true, errHeldUp },
		func(context.Context) (bool, error) { busy++; return busy < 3, nil },
		func(context.Context) (bool, error) { done++; return false, nil },
	)
	if err := round(t.Context()); err == nil || !strings.Contains(err.Error(), errHeldUp.Error()) {
		t.Errorf("%v", err)
	}
	for range 4 {
		storetest.Must(t, round(t.Context()))
	}
	if failed != 1 || busy != 3 || done != 1 {
		t.Errorf("run %d, %d and %d times, want 1, 3 and 1", failed, busy, done)
	}
}
