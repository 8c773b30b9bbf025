package record

import (
	"context"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// StoredKey is an API key with the hash of its secret, lower-case hex SHA-256.
type StoredKey struct {
	api.Key
	SecretHash string
}

type keyRow struct {
	ID         string `db:"id"`
	Name       string `db:"name"`
	Scopes     string `db:"scopes"`
	SecretHash string `db:"secret_hash"`
	CreatedAt  int64  `db:"created_at"`
	LastUsedAt *int64 `db:"last_used_at"`
	RevokedAt  *int64 `db:"revoked_at"`
	ExpiresAt  *int64 `db:"expires_at"`
}

// CreateKey records a key under the id it carries, and returns the time. It raises VersionKeys.
func (db *DB) CreateKey(ctx context.Context, k StoredKey) (api.Time, error) {
	ms, err := db.createKey(ctx, k, false)
	return api.AtMillis(ms), err
}

// CreateFirstKey is CreateKey unless there ever was a key: then it changes nothing and returns
// false.
func (db *DB) CreateFirstKey(ctx context.Context, k StoredKey) (created bool, err error) {
	ms, err := db.createKey(ctx, k, true)
	return ms > 0, err
}

// createKey returns the time in ms; 0: first was set, and there was a key.
func (db *DB) createKey(ctx context.Context, k StoredKey, first bool) (created int64, err error) {
	scopes := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		scopes[i] = string(s)
	}
	var expires *int64
	if k.ExpiresAt != nil {
		expires = new(k.ExpiresAt.UnixMilli())
	}
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) (err error) {
		created = 0
		if err := db.raise(ctx, tx, VersionKeys); err != nil {
			return err
		}
		var keys int // the row lock of the version makes this count safe
		if err := tx.GetContext(ctx, &keys, "SELECT COUNT(*) FROM api_keys"); err != nil {
			return err
		}
		if first && keys > 0 {
			return errUnchanged
		}
		if created, err = db.now(ctx, tx); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO api_keys (id, name, scopes, secret_hash, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
			k.ID, k.Name, strings.Join(scopes, ","), k.SecretHash, created, expires)
		return err
	})
	return created, err
}

// Keys reads every key ever created, oldest first, revoked ones too.
func (db *DB) Keys(ctx context.Context) ([]StoredKey, error) {
	var list []keyRow
	err := db.list(ctx, &list, "SELECT id, name, scopes, secret_hash, created_at, last_used_at, revoked_at, expires_at FROM api_keys ORDER BY created_at, id")
	if err != nil {
		return nil, err
	}
	keys := make([]StoredKey, len(list))
	for i, r := range list {
		keys[i] = r.key()
	}
	return keys, nil
}

// RevokeKey ends a key for good; api.CodeNotFound when there is no such key.
// Revoking it again is no error. It raises VersionKeys.
func (db *DB) RevokeKey(ctx context.Context, id string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raise(ctx, tx, VersionKeys); err != nil {
			return err
		}
		query := "UPDATE api_keys SET revoked_at = COALESCE(revoked_at, " + db.d.now + ") WHERE id = ?"
		n, err := affected(tx.ExecContext(ctx, query, id))
		if err == nil && n == 0 { // the id is not told: it may be a whole key that was mistaken for one
			err = api.Errorf(api.CodeNotFound, "there is no such key")
		}
		return err
	})
}

// TouchKeys notes when keys were last used; a later time on record stays. It does not raise
// VersionKeys.
func (db *DB) TouchKeys(ctx context.Context, used map[string]time.Time) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		for id, at := range used {
			ms := at.UnixMilli()
			_, err := tx.ExecContext(ctx, "UPDATE api_keys SET last_used_at = ? WHERE id = ? AND (last_used_at IS NULL OR last_used_at < ?)", ms, id, ms)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (r keyRow) key() StoredKey {
	k := StoredKey{SecretHash: r.SecretHash, Key: api.Key{ID: r.ID, Name: r.Name, CreatedAt: api.AtMillis(r.CreatedAt),
		LastUsed: timeOf(r.LastUsedAt), ExpiresAt: timeOf(r.ExpiresAt), RevokedAt: timeOf(r.RevokedAt)}}
	for s := range strings.SplitSeq(r.Scopes, ",") {
		k.Scopes = append(k.Scopes, api.Scope(s))
	}
	return k
}
