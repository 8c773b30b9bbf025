package record

import (
	"context"

	"github.com/jmoiron/sqlx"
)

// Names of the counters that processes poll to see that something changed.
const (
	VersionEventTypes = "event_types"
	VersionKeys       = "api_keys"
	VersionUserTokens = "user_tokens"
)

// Version reads one counter. When the number has changed, its data has changed. It is one read by
// primary key, cheap enough to poll.
func (db *DB) Version(ctx context.Context, name string) (int64, error) {
	var v int64
	err := db.get(ctx, &v, "SELECT version FROM versions WHERE name = ?", name)
	return v, fail("read version "+name, err)
}

// raise takes the counter's row lock and raises it, so that changes of one
// kind come one after the other and versions rise in the order of commits.
func (db *DB) raise(ctx context.Context, tx *sqlx.Tx, name string) error {
	_, err := tx.ExecContext(ctx, "UPDATE versions SET version = version + 1 WHERE name = ?", name)
	return err
}

// now reads the database's clock, ms since the Unix epoch.
func (db *DB) now(ctx context.Context, tx *sqlx.Tx) (int64, error) {
	var ms int64
	err := tx.GetContext(ctx, &ms, "SELECT "+db.d.now)
	return ms, err
}
