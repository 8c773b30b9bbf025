package record_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// Keys are on record with all that they have; a revocation stays, and so does the latest use.
func TestKeysOnRecord(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		name, ends := "Schlüssel 🎉 'x' \\", api.At(time.Now().Add(time.Hour))
		key := func(id string) record.StoredKey {
			return record.StoredKey{SecretHash: strings.Repeat("a", 64), Key: api.Key{ID: id, Name: name, Scopes: []api.Scope{"push", "chats"}, ExpiresAt: &ends}}
		}
		var made [8]bool
		storetest.AtOnce(t, len(made), func(ctx context.Context, i int) (err error) {
			made[i], err = db.CreateFirstKey(ctx, key("first"))
			return err
		})
		n := 0
		for _, m := range made {
			if m {
				n++
			}
		}
		_, err := db.CreateKey(ctx, key("second"))
		storetest.Must(t, err)
		if v := mustVersion(t, db, record.VersionKeys); n != 1 || v != 2 {
			t.Errorf("%d first keys were made, version %d", n, v)
		}
		storetest.WantCode(t, db.RevokeKey(ctx, "First"), api.CodeNotFound)
		storetest.Must(t, db.RevokeKey(ctx, "first"))
		used := time.UnixMilli(5000)
		for _, at := range []time.Time{used, used.Add(-time.Second)} {
			storetest.Must(t, db.TouchKeys(ctx, map[string]time.Time{"second": at, "none": at}))
		}
		keys, err := db.Keys(ctx)
		if err != nil || len(keys) != 2 {
			t.Fatalf("%+v %v", keys, err)
		}
		first, second := keys[0], keys[1]
		if first.ID != "first" || first.Name != name || first.RevokedAt == nil || first.LastUsed != nil || first.SecretHash != strings.Repeat("a", 64) {
			t.Errorf("%+v", first)
		}
		if second.RevokedAt != nil || second.LastUsed == nil || second.LastUsed.UnixMilli() != 5000 || second.ExpiresAt.UnixMilli() != ends.UnixMilli() || len(second.Scopes) != 2 {
			t.Errorf("%+v", second)
		}
		before := first.RevokedAt.UnixMilli()
		storetest.Must(t, db.RevokeKey(ctx, "first"))
		if keys, err = db.Keys(ctx); err != nil || keys[0].RevokedAt.UnixMilli() != before {
			t.Errorf("%+v %v", keys, err)
		}
	})
}

// A later revocation never takes an earlier one back, and a repeat of its key has no effect.
func TestRevocationsOnRecord(t *testing.T) {
	t.Parallel()
	eachConnection(t, func(t *testing.T, db *record.DB) {
		ctx := t.Context()
		revoke := func(user string, second int64, key string) {
			t.Helper()
			_, err := db.RevokeTokens(ctx, user, second, api.Idempotency{Scope: "s", Key: key})
			storetest.Must(t, err)
		}
		upTo := func(user string) int64 {
			t.Helper()
			list, err := db.Revocations(ctx, 0, 100)
			storetest.Must(t, err)
			for _, r := range list {
				if r.User == user {
					return r.UpTo
				}
			}
			return 0
		}
		for _, step := range []struct {
			second int64
			key    string
			want   int64
		}{{100, "", 100}, {100, "", 100}, {200, "k", 200}, {150, "", 201}, {200, "k", 201}, {300, "", 300}} {
			revoke("bob", step.second, step.key)
			if got := upTo("bob"); got != step.want {
				t.Errorf("%+v: up to %d", step, got)
			}
		}
		revoke("Bob", 5, "")
		list, err := db.Revocations(ctx, 0, 1)
		if err != nil || len(list) != 1 || list[0].User != "bob" || upTo("Bob") != 5 {
			t.Errorf("%+v %v", list, err)
		}
		if list, err = db.Revocations(ctx, list[0].Version, 10); err != nil || len(list) != 1 || list[0].User != "Bob" {
			t.Errorf("%+v %v", list, err)
		}
	})
}
