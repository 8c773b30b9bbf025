package record

import (
	"context"
	"math"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// TokenKey is one of fanfare's own keys that sign user tokens. Private is the hex of its secret
// part.
type TokenKey struct {
	ID      string `db:"id"`
	Private string `db:"private_key"`
	AgeMS   int64  `db:"age_ms"` // by the database's clock, when it was read
}

// Revocation ends a user's tokens that were issued up to a second, counted from the Unix epoch.
// Version is the value of VersionUserTokens when it was made.
type Revocation struct {
	User    string `db:"user_id"`
	UpTo    int64  `db:"up_to"`
	Version int64  `db:"version"`
}

// TokenKeys reads every key, oldest first.
func (db *DB) TokenKeys(ctx context.Context) (keys []TokenKey, err error) {
	err = db.list(ctx, &keys, "SELECT id, private_key, "+db.d.now+" - created_at AS age_ms FROM token_keys ORDER BY created_at, id")
	return keys, err
}

// AddFirstTokenKey records a key unless there is one; it raises VersionUserTokens.
func (db *DB) AddFirstTokenKey(ctx context.Context, k TokenKey) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raise(ctx, tx, VersionUserTokens); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO token_keys (id, private_key, created_at) SELECT ?, ?, "+db.d.now+
			" FROM versions WHERE name = ? AND NOT EXISTS (SELECT 1 FROM token_keys)", k.ID, k.Private, VersionUserTokens)
		return err
	})
}

// RotateTokenKey records one more key, and removes all others if only is set. It raises
// VersionUserTokens.
func (db *DB) RotateTokenKey(ctx context.Context, k TokenKey, only bool) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raise(ctx, tx, VersionUserTokens); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO token_keys (id, private_key, created_at) VALUES (?, ?, "+db.d.now+")", k.ID, k.Private); err != nil || !only {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM token_keys WHERE id <> ?", k.ID)
		return err
	})
}

// PurgeTokenKeys removes keys that a newer key has replaced, once every token that they signed
// has expired. It raises VersionUserTokens if it removed any.
func (db *DB) PurgeTokenKeys(ctx context.Context) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		err := changed(tx.ExecContext(ctx, "DELETE FROM token_keys WHERE created_at < (SELECT newest FROM"+
			" (SELECT MAX(created_at) AS newest FROM token_keys WHERE created_at < "+db.d.now+" - ?) AS replaced)", (RevocationTTL + TokenKeyRest).Milliseconds()))
		if err != nil {
			return err
		}
		return db.raise(ctx, tx, VersionUserTokens)
	})
}

// TokenKeyRest is how long a new key of fanfare's own is on record before it signs: by then
// every server has read it.
const TokenKeyRest = time.Minute

// RevokeTokens ends all tokens of a user that were issued up to a second, which is by the clock that
// tokens are issued by. Tokens that an earlier revocation ended stay ended.
// It raises VersionUserTokens. A replay of the same idempotency key ends no tokens that were
// issued since.
func (db *DB) RevokeTokens(ctx context.Context, user string, second int64, once api.Idempotency) (replayed bool, err error) {
	var done struct{}
	return db.once(ctx, once, &done, func(ctx context.Context, tx *sqlx.Tx) error {
		if err := db.raise(ctx, tx, VersionUserTokens); err != nil {
			return err
		}
		return db.revoke(ctx, tx, user, second)
	})
}

// revoke writes a revocation. VersionUserTokens was raised for it.
func (db *DB) revoke(ctx context.Context, tx *sqlx.Tx, user string, second int64) error {
	// Where a clock was set back, a token that was made since may be a second newer than the
	// last revocation.
	upTo, had := db.d.inserted("up_to"), "token_revocations.up_to"
	_, err := tx.ExecContext(ctx, "INSERT INTO token_revocations (user_id, up_to, version) SELECT ?, ?, version FROM versions WHERE name = ?"+
		db.d.onConflict("token_revocations", "user_id", []string{"version"})+", up_to = CASE WHEN "+upTo+" < "+had+" THEN "+had+" + 1 ELSE "+upTo+" END",
		user, second, VersionUserTokens)
	return err
}

// Revocations reads the first revocations that were made after a version, oldest first. It returns a few
// more than limit where revocations have one version, so that the next page may begin after the last version.
func (db *DB) Revocations(ctx context.Context, after int64, limit int) (list []Revocation, err error) {
	last := "SELECT version FROM token_revocations WHERE version > ? ORDER BY version LIMIT 1 OFFSET ?"
	err = db.list(ctx, &list, "SELECT user_id, up_to, version FROM token_revocations WHERE version > ? AND version <= COALESCE(("+last+"), ?) ORDER BY version",
		after, after, limit-1, math.MaxInt64)
	return list, err
}

// PurgeRevocations removes revocations of tokens that have expired by themselves. Their second is by Redis'
// clock. It looks only at the oldest.
func (db *DB) PurgeRevocations(ctx context.Context) (more bool, err error) {
	oldest, err := db.Revocations(ctx, 0, purgeBatch*purgeSteps)
	if err != nil || len(oldest) == 0 {
		return false, err
	}
	where := "version <= ? AND up_to < (" + db.d.now + " - " + purgeLate + ") / 1000 - ? ORDER BY version"
	return db.deleteOld(ctx, "token_revocations", "user_id", where, oldest[len(oldest)-1].Version, int64(RevocationTTL.Seconds()))
}

// RevocationTTL is how long a revocation counts: no token lasts longer.
const RevocationTTL = api.MaxTokenTTL + 2*api.MaxTokenAhead
