package record

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jmoiron/sqlx"
)

// Names of the counters that processes poll to see that something changed.
const (
	VersionEventTypes = "event_types"
	VersionKeys       = "api_keys"
	VersionUserTokens = "user_tokens"
	VersionBroadcasts = "broadcasts"
	VersionFacts      = "facts"
	VersionWebhooks   = "webhooks"
)

// versionSchedules is raised by each change of a schedule. Nobody polls it: changes take its row lock.
const versionSchedules = "schedules"

// Version reads one counter. When the number has changed, its data has changed. It is one read by
// primary key, cheap enough to poll.
func (db *DB) Version(ctx context.Context, name string) (int64, error) {
	var v int64
	err := db.get(ctx, &v, "SELECT version FROM versions WHERE name = ?", name)
	return v, fail("read version "+name, err)
}

// Follow calls load again and again until ctx ends, each time after a half to the whole of every. It
// logs one line when load cannot read, and one when it can again; keeps names the data that stays as
// it was meanwhile.
func Follow(ctx context.Context, log *slog.Logger, keeps string, every time.Duration, load func(context.Context) error) {
	var since time.Time // zero: load can read
	for {
		err := load(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && since.IsZero():
			since = time.Now()
			log.Warn("the database is away", "keeps", keeps, "error", err)
		case err == nil && !since.IsZero():
			log.Info("the database is back", "keeps", keeps, "away", time.Since(since).Round(time.Millisecond))
			since = time.Time{}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every/2 + rand.N(every/2)):
		}
	}
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
