package record_test

import (
	"maps"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

var rebuild = record.NewOperation{Action: api.ActionRebuild, Subject: "alice", Kind: record.KindRebuild, OutboxSubject: "alice"}

func mustStart(t testing.TB, db *record.DB, n record.NewOperation) string {
	t.Helper()
	id, replayed, err := db.StartOperation(t.Context(), n, api.Idempotency{})
	if err != nil || replayed {
		t.Fatal(replayed, err)
	}
	return id
}

func mustOperation(t testing.TB, db *record.DB, id string) *api.Operation {
	t.Helper()
	o, err := db.Operation(t.Context(), id)
	storetest.Must(t, err)
	return o
}

// mustCount counts the rows of a table where something is so.
func mustCountRows(t testing.TB, db *record.DB, where string, args ...any) (n int) {
	t.Helper()
	storetest.Must(t, db.SQL().Get(&n, "SELECT COUNT(*) FROM "+where, args...))
	return n
}

// An operation has a row of the outbox until it is done. Calls share it as long as it has its
// turn, and afterwards its row names nobody.
func TestE1_OperationsOnRecord(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx, once := t.Context(), api.Idempotency{Scope: "k /v1", Key: "x"}
		first := mustStart(t, db, rebuild)
		other := rebuild
		other.Subject = "bob"
		if again, bob := mustStart(t, db, rebuild), mustStart(t, db, other); again != first || bob == first {
			t.Errorf("operations %s, %s and for bob %s", first, again, bob)
		}
		shared, replayed, err := db.StartOperation(ctx, rebuild, once)
		if err != nil || replayed || shared != first {
			t.Errorf("with a key: %s, %t, %v", shared, replayed, err)
		}
		if open, err := db.EndTurn(ctx, first); err != nil || !open {
			t.Error(open, err)
		}
		second := mustStart(t, db, rebuild)
		if second == first {
			t.Error("an operation whose turn is over is shared")
		}
		if id, replayed, err := db.StartOperation(ctx, rebuild, once); err != nil || !replayed || id != first {
			t.Errorf("a repeat: %s, %t, %v", id, replayed, err)
		}
		if n := mustCountRows(t, db, "outbox WHERE kind = 'rebuild'"); n != 3 {
			t.Errorf("%d rows of the outbox, want 3", n)
		}
		storetest.Must(t, db.CountRemoved(ctx, first, map[string]int64{"devices": 2, "topics": 0}))
		storetest.Must(t, db.CountRemoved(ctx, first, map[string]int64{"devices": 1}))
		if o := mustOperation(t, db, first); o.State != api.OperationRunning || !maps.Equal(o.Removed, map[string]int64{"devices": 3}) {
			t.Errorf("%+v", o)
		}
		storetest.Must(t, db.EndOperation(ctx, first))
		storetest.Must(t, db.EndOperation(ctx, first))
		if o := mustOperation(t, db, first); o.State != api.OperationDone {
			t.Errorf("%+v", o)
		}
		if n := mustCountRows(t, db, "operations WHERE id = ? AND (subject <> '' OR turn IS NOT NULL)", first); n != 0 {
			t.Error("an operation that is done names its user")
		}
		if open, err := db.OutboxOpen(ctx, first); err != nil || open {
			t.Error(open, err)
		}
		if open, err := db.EndTurn(ctx, first); err != nil || open {
			t.Error(open, err)
		}
		if o, err := db.OpenOperation(ctx, first); err != nil || o != nil {
			t.Error(o, err)
		}
		_, err = db.SQL().Exec("UPDATE operations SET done_at = done_at - ?", (30*24*time.Hour - time.Minute).Milliseconds())
		storetest.Must(t, err)
		mustPurge(t, db)
		mustOperation(t, db, first)
		_, err = db.SQL().Exec("UPDATE operations SET done_at = done_at - ?", (2 * time.Minute).Milliseconds())
		storetest.Must(t, err)
		mustPurge(t, db)
		_, err = db.Operation(ctx, first)
		storetest.WantCode(t, err, api.CodeNotFound)
		mustOperation(t, db, second)
	})
}

func mustPurge(t testing.TB, db *record.DB) {
	t.Helper()
	_, err := db.PurgeOperations(t.Context())
	storetest.Must(t, err)
}

// mustErase begins to erase a user at a later moment than anything before it, and makes sure that
// what comes after is later still.
func mustErase(t testing.TB, db *record.DB, user string) *record.Operation {
	t.Helper()
	id, err := db.StartErasure(t.Context(), user, time.Now().UnixMilli())
	storetest.Must(t, err)
	o, err := db.OpenOperation(t.Context(), id)
	storetest.Must(t, err)
	<-time.After(time.Until(time.UnixMilli(o.CreatedAt + 2)))
	return o
}

// What a user had when the operation began goes, and what is new since stays. The names of others
// that look alike are theirs.
func TestE2_OnlyWhatWasThereIsErased(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"alice", "1", "a.b_c:d@e-f"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			each := eachRecord
			if user == "alice" {
				each = eachConnection
			}
			each(t, func(t *testing.T, db *record.DB) { testErase(t, db, user) })
		})
	}
}

func testErase(t *testing.T, db *record.DB, user string) {
	ctx := t.Context()
	fill := func(user, kind string, device int) {
		mustPut(t, db, user, token(device))
		_, err := db.PutOptOut(ctx, user, kind)
		storetest.Must(t, err)
		_, err = db.PutMute(ctx, user, kind, nil)
		storetest.Must(t, err)
		mustJoin(t, db, user, kind)
		mustPutContact(t, db, user, "friend-"+kind, "friend")
		mustPutContact(t, db, "friend-"+kind, user, "friend")
		once := api.Idempotency{Scope: "k /v1", Key: user + kind}
		_, _, err = db.PutUpload(ctx, &api.UploadRequest{ID: user + kind, Owner: user, Visibility: api.VisiblePublic}, once)
		storetest.Must(t, err)
	}
	alike := user + "2"
	fill(user, "old", 1)
	fill(alike, "old", 2)
	mustPutContact(t, db, user, "ended", "friend")
	_, err := db.RemoveContact(ctx, user, "ended")
	storetest.Must(t, err)
	o := mustErase(t, db, user)
	if again, err := db.StartErasure(ctx, user, time.Now().UnixMilli()); err != nil || again != o.ID {
		t.Errorf("operation %s, %v; want %s again", again, err, o.ID)
	}
	fill(user, "new", 3)

	for range 2 { // a repeat finds nothing
		_, err = db.EraseSettings(ctx, o)
		storetest.Must(t, err)
		_, err = db.EraseUploads(ctx, o)
		storetest.Must(t, err)
		_, pairs, err := db.EraseContacts(ctx, o)
		storetest.Must(t, err)
		for row := range pairs {
			storetest.Must(t, db.DeleteOutbox(ctx, row))
		}
		_, _, err = db.EraseAnswers(ctx, o, "")
		storetest.Must(t, err)
	}
	want := map[string]int64{"devices": 1, "settings": 2, "topics": 1, "contacts": 3, "uploads": 1, "idempotency_records": 1}
	if got := mustOperation(t, db, o.ID).Removed; !maps.Equal(got, want) {
		t.Errorf("removed %v, want %v", got, want)
	}
	for _, who := range []string{user, alike} {
		for where, n := range map[string]int{
			"devices WHERE user_id = ?": 1, "opt_outs WHERE user_id = ?": 1, "mutes WHERE user_id = ?": 1, "topic_members WHERE user_id = ?": 1,
			"contacts WHERE owner = ?": 1, "contacts WHERE contact = ?": 1, "uploads WHERE owner = ?": 1,
		} {
			if got := mustCountRows(t, db, where, who); got != n {
				t.Errorf("%d in %s, of %s, want %d", got, where, who, n)
			}
		}
		if n := mustCountRows(t, db, "idempotency WHERE REPLACE(answer, ?, '') <> answer", `"`+who+`"`); n != 1 {
			t.Errorf("%d answers name %s, want 1", n, who)
		}
	}
	if gone, _, err := db.ForgetSettings(ctx, user); err != nil || gone {
		t.Errorf("the settings of a user who is back are forgotten: %v", err)
	}
}

// E7: it is on record whether the erased user has had settings, and when the operation removed them, because requests to push
// services may be under way since then.
func TestE7_WhenSettingsWereRemoved(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		if o := mustErase(t, db, "nobody"); o.SettledAt != 0 || o.Settling() != 0 {
			t.Errorf("of a user who never had settings: %+v", o)
		}
		mustPut(t, db, "alice", token(1))
		o := mustErase(t, db, "alice")
		if o.SettledAt != o.CreatedAt || o.Settling() != 0 {
			t.Errorf("before they are removed: %+v", o)
		}
		var before int64
		for i := range 2 { // a repeat finds nothing
			_, err := db.EraseSettings(ctx, o)
			storetest.Must(t, err)
			late, err := db.OpenOperation(ctx, o.ID)
			storetest.Must(t, err)
			if late.Settling() <= 0 || late.Settling() > time.Minute || i > 0 && late.SettledAt != before {
				t.Errorf("when they were removed: %+v, before %d", late, before)
			}
			before = late.SettledAt
		}
		gone := mustErase(t, db, "alice")
		if storetest.Must(t, db.EndOperation(ctx, o.ID)); gone.ID != o.ID {
			t.Errorf("another operation %s", gone.ID)
		}
		if gone = mustErase(t, db, "alice"); gone.SettledAt != gone.CreatedAt {
			t.Errorf("of a user whose settings were removed before: %+v", gone)
		}
	})
}

// Who registers again has settings of a higher version than before, or caches would not take them.
func TestE2_SettingsGoOnAboveTheirVersions(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		mustPut(t, db, "alice", token(1))
		_, _, before := mustPut(t, db, "alice", token(1))
		o := mustErase(t, db, "alice")
		c, err := db.EraseSettings(ctx, o)
		if err != nil || len(c.Users) != 1 {
			t.Fatal(c, err)
		}
		if n, err := db.OpenErasure(ctx, o, 0); err != nil || n < 2 {
			t.Errorf("%d rows of the outbox, %v; want those of settings and guard", n, err)
		}
		gone, bound, err := db.ForgetSettings(ctx, "alice")
		if err != nil || !gone || bound <= before.Users[0].Version {
			t.Fatal(gone, bound, err)
		}
		if n := mustCountRows(t, db, "user_settings WHERE user_id = 'alice'"); n != 0 {
			t.Error("the row with the version is there")
		}
		_, _, after := mustPut(t, db, "alice", token(1))
		if after.Users[0].Version < bound {
			t.Errorf("version %d after %d", after.Users[0].Version, bound)
		}
	})
}

// The revocation outlives the operation, without the user's name.
func TestE3_TheRevocationStaysWithoutTheName(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		version := mustVersion(t, db, record.VersionUserTokens)
		o := mustErase(t, db, "alice")
		list, err := db.Revocations(ctx, version, 10)
		if err != nil || len(list) != 2 || list[0].UpTo != list[1].UpTo {
			t.Fatal(list, err)
		}
		storetest.Must(t, db.EndErasure(ctx, o, map[string]int64{"orders": 3}))
		got, err := db.Revocations(ctx, version, 10)
		if err != nil || len(got) != 1 || got[0].User != record.ErasedName("alice") || got[0].UpTo != list[0].UpTo || got[0].Version <= list[0].Version {
			t.Errorf("%+v, %v", got, err)
		}
		shown := mustOperation(t, db, o.ID)
		if shown.State != api.OperationDone || !maps.Equal(shown.Kept, map[string]int64{"orders": 3}) {
			t.Errorf("%+v", shown)
		}
		if again := mustErase(t, db, "alice"); again.ID == o.ID {
			t.Error("an operation that is done is shared")
		}
	})
}

// Orders are counted, however many others there are.
func TestE2_OrdersAreCounted(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		mustInsert(t, db, "orders (reservation, sale, user_id, order_lines, created_at)", 12_000, func(i int) string {
			user := "bob"
			if i%4000 == 7 {
				user = "alice"
			}
			return "('" + token(i) + "', 'spring', '" + user + "', 'a=1', 1)"
		})
		if n, err := db.OrdersOf(t.Context(), "alice"); err != nil || n != 3 {
			t.Error(n, err)
		}
	})
}
