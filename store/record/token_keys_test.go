package record_test

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// U1: a key that another took the place of goes when no token of it can stand any more;
// the one that signs stays, however old.
func TestU1_ReplacedKeysGo(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		age := func(id string, d time.Duration) {
			_, err := db.SQL().ExecContext(ctx, "UPDATE token_keys SET created_at = created_at - ? WHERE id = ?", d.Milliseconds(), id)
			storetest.Must(t, err)
		}
		want := func(ids ...string) {
			t.Helper()
			before, err := db.Version(ctx, record.VersionUserTokens)
			storetest.Must(t, err)
			had, err := db.TokenKeys(ctx)
			storetest.Must(t, err)
			storetest.Must(t, db.PurgeTokenKeys(ctx))
			keys, err := db.TokenKeys(ctx)
			storetest.Must(t, err)
			after, err := db.Version(ctx, record.VersionUserTokens)
			storetest.Must(t, err)
			var got []string
			for _, k := range keys {
				got = append(got, k.ID)
			}
			if len(got) != len(ids) || (after > before) != (len(keys) < len(had)) {
				t.Errorf("left %v, want %v; version %d, before %d", got, ids, after, before)
			}
			for i := range min(len(got), len(ids)) {
				if got[i] != ids[i] {
					t.Errorf("left %v, want %v", got, ids)
				}
			}
		}
		lasts := api.MaxTokenTTL + 3*time.Minute // of a key's last token: a minute's rest, and clocks
		storetest.Must(t, db.AddFirstTokenKey(ctx, record.TokenKey{ID: "a", Private: "1"}))
		age("a", 100*24*time.Hour)
		want("a")
		storetest.Must(t, db.RotateTokenKey(ctx, record.TokenKey{ID: "b", Private: "2"}, false))
		want("a", "b")
		age("b", lasts-time.Minute)
		want("a", "b")
		age("b", 2*time.Minute)
		want("b")
		storetest.Must(t, db.RotateTokenKey(ctx, record.TokenKey{ID: "c", Private: "3"}, true))
		want("c")
	})
}
