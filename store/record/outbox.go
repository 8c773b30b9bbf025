package record

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
)

// Kinds of outbox rows. The package that relays a kind is named with it.
const (
	// KindSettings: a user's settings changed; subject is the user (store/devices). If activities made room, the payload has
	// their tokens (OutboxRow.Gone), and the row is done after those of their guards that are not later.
	KindSettings = "settings"
	// KindGuard: a device changed hands or state; subject is the token (store/devices). The row names no user.
	KindGuard = "guard"
)

// OutboxRow is a committed change that still has to be relayed to Redis.
type OutboxRow struct {
	ID      string `db:"id"`
	Kind    string `db:"kind"`
	Subject string `db:"subject"`
	Payload string `db:"payload"`
}

// Gone lists the tokens of activities that made room, which a row of KindSettings may have.
func (r OutboxRow) Gone() (tokens []string) {
	_ = json.Unmarshal([]byte(r.Payload), &tokens) // other payloads are no lists
	return tokens
}

// newOutboxRow makes a row with a new id that sorts by time.
func newOutboxRow(kind, subject, payload string) OutboxRow {
	id, _ := uuid.NewV7() // random bits never fail
	return OutboxRow{ID: id.String(), Kind: kind, Subject: subject, Payload: payload}
}

// announce writes rows to the outbox as part of the transaction.
func (db *DB) announce(ctx context.Context, tx *sqlx.Tx, out []OutboxRow) error {
	for part := range slices.Chunk(out, chunk) {
		args := make([]any, 0, 4*len(part))
		for _, r := range part {
			args = append(args, r.ID, r.Kind, r.Subject, r.Payload)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO outbox (id, kind, subject, payload, created_at) VALUES "+
			rows("(?, ?, ?, ?, "+db.d.now+")", len(part)), args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteOutbox removes rows whose work is done; unknown ids are no error.
func (db *DB) DeleteOutbox(ctx context.Context, ids ...string) error {
	for part := range slices.Chunk(ids, chunk) {
		if err := db.exec(ctx, "DELETE FROM outbox WHERE id IN (?)", part); err != nil {
			return err
		}
	}
	return nil
}

// OpenRow is an outbox row whose work is not done, with its age.
type OpenRow struct {
	OutboxRow
	CreatedAt int64 `db:"created_at"`
}

// OutboxPage reads open rows of one kind that have waited longer than ageMS, in the order they
// were made. It returns at most limit rows, beginning after a row (the zero row for the first
// page). A sweeper that reads page after page is not held up by rows whose work takes long.
func (db *DB) OutboxPage(ctx context.Context, kind string, ageMS int64, after OpenRow, limit int) ([]OpenRow, error) {
	var out []OpenRow
	err := db.list(ctx, &out, "SELECT id, kind, subject, payload, created_at FROM outbox WHERE kind = ? AND created_at <= "+db.d.now+
		" - ? AND created_at >= ? AND (created_at > ? OR id > ?) ORDER BY created_at, id LIMIT ?",
		kind, ageMS, after.CreatedAt, after.CreatedAt, after.ID, limit)
	return out, err
}

// OutboxLag returns the number of open rows of one kind and the age of the oldest.
func (db *DB) OutboxLag(ctx context.Context, kind string) (open, ageMS int64, err error) {
	var row struct {
		Open int64 `db:"open_rows"`
		Age  int64 `db:"age"`
	}
	err = db.get(ctx, &row, "SELECT COUNT(*) AS open_rows, COALESCE("+db.d.now+" - MIN(created_at), 0) AS age FROM outbox WHERE kind = ?", kind)
	return row.Open, max(row.Age, 0), err
}

// OutboxOpen reports whether a row is still open.
func (db *DB) OutboxOpen(ctx context.Context, id string) (bool, error) {
	var n int
	err := db.get(ctx, &n, "SELECT COUNT(*) FROM outbox WHERE id = ?", id)
	return n > 0, err
}

// OldestGuards returns the id of the oldest row of each token's guard that has not been relayed yet, by token; tokens without
// one are absent.
func (db *DB) OldestGuards(ctx context.Context, tokens []string) (map[string]string, error) {
	oldest := map[string]string{}
	for part := range slices.Chunk(tokens, chunk) {
		var found []OutboxRow
		err := db.list(ctx, &found, "SELECT subject, MIN(id) AS id FROM outbox WHERE kind = ? AND subject IN (?) GROUP BY subject", KindGuard, part)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			oldest[r.Subject] = r.ID
		}
	}
	return oldest, nil
}

// openOutbox names the open rows of one kind about one subject.
func (db *DB) openOutbox(ctx context.Context, kind, subject string) ([]string, error) {
	var ids []string
	err := db.list(ctx, &ids, "SELECT id FROM outbox WHERE kind = ? AND subject = ? ORDER BY created_at, id LIMIT ?", kind, subject, chunk)
	return ids, err
}

// OpenGuards returns those of the tokens that are on record, or whose guard has not been relayed yet.
func (db *DB) OpenGuards(ctx context.Context, tokens []string) (open []string, err error) {
	for part := range slices.Chunk(tokens, chunk) {
		var found []string
		err := db.list(ctx, &found, "SELECT token FROM devices WHERE token IN (?) UNION SELECT subject FROM outbox WHERE kind = ? AND subject IN (?)", part, KindGuard, part)
		if err != nil {
			return nil, err
		}
		open = append(open, found...)
	}
	return open, nil
}
