package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

const (
	// purgeEvery is how often each table is purged of old rows.
	purgeEvery = 10 * time.Minute
	// purgeBatch is how many old rows one transaction removes. purgeSteps is how many such
	// transactions run one after the other before it is the outbox's turn.
	purgeBatch, purgeSteps = 1000, 10
	// defaultDeletedRetention is how long deleted rows stay.
	defaultDeletedRetention = 30 * 24 * time.Hour
	// purgeLate is how many milliseconds the database's clock may be ahead of Redis' clock.
	purgeLate = "86400000"
)

// purge removes rows of one kind that no longer count, in bounded steps, and reports whether there
// may be more of them.
type purge struct {
	what string
	some func(context.Context) (more bool, err error)
	next time.Time // when the purge is due
}

// purges lists the kinds of rows that are removed.
func (db *DB) purges(deletedRetention time.Duration) []*purge {
	deleted := func(some func(context.Context, time.Duration) (bool, error)) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) { return some(ctx, deletedRetention) }
	}
	return []*purge{
		{what: "idempotency records", some: db.PurgeIdempotency},
		{what: "operations", some: db.PurgeOperations},
		{what: "restocks", some: db.PurgeRestocks},
		{what: "revocations", some: db.PurgeRevocations},
		{what: "activities", some: db.PurgeActivities},
		{what: "token keys", some: func(ctx context.Context) (bool, error) { return false, db.PurgeTokenKeys(ctx) }},
		{what: "deleted uploads", some: deleted(db.PurgeUploads)},
		{what: "deleted contacts", some: deleted(db.PurgeContacts)},
	}
}

// purge runs the purges that are due. A purge that fails runs again at its next time and holds
// up no other; a purge that has more to remove goes on in the next round.
func (r *Relay) purge(ctx context.Context) error {
	var all error
	for _, p := range r.purges {
		if time.Now().Before(p.next) {
			continue
		}
		more, err := p.some(ctx)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("remove old %s: %w", p.what, err))
		}
		if err != nil || !more {
			p.next = time.Now().Add(purgeEvery)
		}
	}
	return all
}

// PurgeIdempotency removes records that no longer count.
func (db *DB) PurgeIdempotency(ctx context.Context) (more bool, err error) {
	where := "created_at < " + db.d.now + " - ? ORDER BY created_at"
	return db.deleteOld(ctx, "idempotency", "id", where, api.IdempotencyTTL.Milliseconds())
}

// PurgeRestocks removes restocks that no longer count.
func (db *DB) PurgeRestocks(ctx context.Context) (more bool, err error) {
	where := "expires_at < " + db.d.now + " - " + purgeLate + " ORDER BY expires_at"
	return db.deleteOld(ctx, "restocks", "sale, name", where)
}

// PurgeUploads forgets uploads that were deleted that long ago and have no work left.
func (db *DB) PurgeUploads(ctx context.Context, ago time.Duration) (more bool, err error) {
	where := db.deletedBefore("kind = '" + KindUpload + "' AND subject = uploads.id")
	return db.deleteOld(ctx, "uploads", "id", where, ago.Milliseconds())
}

// PurgeContacts forgets relationships that ended that long ago, of owners without work left.
func (db *DB) PurgeContacts(ctx context.Context, ago time.Duration) (more bool, err error) {
	where := db.deletedBefore(contactKinds + " AND subject = contacts.owner")
	return db.deleteOld(ctx, "contacts", "owner, contact", where, ago.Milliseconds())
}

// deletedBefore selects, oldest first, the rows that were deleted so many ms ago and that no row
// of the outbox names. As long as a job works on a row, its outbox row is there.
func (db *DB) deletedBefore(named string) string {
	return "deleted = TRUE AND updated_at < " + db.d.now + " - ?" +
		" AND NOT EXISTS (SELECT 1 FROM outbox WHERE " + named + ") ORDER BY updated_at"
}

// deleteOld deletes the first rows of a selection, some in each transaction, and tells
// whether there may be more. key is the table's primary key.
func (db *DB) deleteOld(ctx context.Context, table, key, selection string, args ...any) (more bool, err error) {
	query := db.d.deleteSome(table, key, selection)
	args = append(args, purgeBatch)
	for range purgeSteps {
		var n int64
		err := db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) (err error) {
			n, err = affected(tx.ExecContext(ctx, query, args...))
			return err
		})
		if err != nil || n < purgeBatch {
			return false, err
		}
	}
	return true, nil
}

// deleteSome deletes as many of a selection's first rows as its last argument says. PostgreSQL locks the rows before
// it deletes them, and leaves those out that a change has taken out of the selection in the meantime.
func (d dialect) deleteSome(table, key, selection string) string {
	some := " FROM " + table + " WHERE " + selection + " LIMIT ?"
	switch {
	case d.mysql:
		return "DELETE" + some
	case d.postgres:
		return "DELETE FROM " + table + " WHERE ctid = ANY(ARRAY(SELECT ctid" + some + d.forUpdate + "))"
	}
	return "DELETE FROM " + table + " WHERE (" + key + ") IN (SELECT " + key + some + ")"
}
