package record

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Kinds of outbox rows. The package that relays a kind is named with it.
const (
	// KindSettings: a user's settings changed; subject is the user (store/devices).
	KindSettings = "settings"
	// KindGuard: a device changed hands or state; subject is the token (store/devices).
	KindGuard = "guard"
)

// OutboxRow is work that Redis still owes after a committed change.
type OutboxRow struct {
	ID      string `db:"id"`
	Kind    string `db:"kind"`
	Subject string `db:"subject"`
	Payload string `db:"payload"`
}

// NewOutboxRow makes a row with a new id that sorts by time.
func NewOutboxRow(kind, subject, payload string) (OutboxRow, error) {
	id, err := uuid.NewV7()
	return OutboxRow{ID: id.String(), Kind: kind, Subject: subject, Payload: payload}, err
}

// announce leaves rows in the outbox as part of the transaction.
func (db *DB) announce(ctx context.Context, tx *sqlx.Tx, out []OutboxRow) error {
	args := make([]any, 0, 4*len(out))
	for _, r := range out {
		args = append(args, r.ID, r.Kind, r.Subject, r.Payload)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO outbox (id, kind, subject, payload, created_at) VALUES "+
		rows("(?, ?, ?, ?, "+db.d.now+")", len(out)), args...)
	return err
}

// DeleteOutbox removes rows whose work is done; unknown ids are no error.
func (db *DB) DeleteOutbox(ctx context.Context, ids ...string) error {
	for part := range slices.Chunk(ids, chunk) {
		query, args, err := in("DELETE FROM outbox WHERE id IN (?)", part)
		if err == nil {
			err = db.exec(ctx, query, args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
