package record

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// Kinds of outbox rows of operations. The row has the id of its operation and is there until the
// operation is done.
const (
	// KindErase: a user is to be erased; subject and payload are empty (store/erasure).
	KindErase = "erase"
	// KindRebuild: an index is to be built again; subject is the user (store/contacts).
	KindRebuild = "rebuild"
)

// Operation is an operation that is not done.
type Operation struct {
	ID string `db:"id"`
	// Subject is the user whom the operation is about.
	Subject string `db:"subject"`
	// Since is Redis' clock when the operation was begun, and CreatedAt the database's, both in ms
	// since the Unix epoch.
	Since     int64 `db:"since"`
	CreatedAt int64 `db:"created_at"`
	// SettledAt is when an erasure removed settings of the user last, by the database's clock; CreatedAt before it does, and 0 if
	// the user has never had any.
	SettledAt int64 `db:"settled_at"`
}

// Settling is how long after the beginning of an erasure the user's settings were removed.
func (o *Operation) Settling() time.Duration {
	return time.Duration(max(o.SettledAt-o.CreatedAt, 0)) * time.Millisecond
}

// NewOperation describes an operation that begins.
type NewOperation struct {
	Action  api.Action
	Subject string
	// Kind is the kind of the outbox row, and OutboxSubject its subject.
	Kind, OutboxSubject string
	// Since is Redis' clock in ms since the Unix epoch.
	Since int64
}

// StartOperation puts an operation on record, with an outbox row of the same id, and returns the
// id. While another operation with this action and subject has its turn, nothing is written, and
// its id is returned. replayed says that the id is from an earlier call with this idempotency key.
func (db *DB) StartOperation(ctx context.Context, n NewOperation, once api.Idempotency) (id string, replayed bool, err error) {
	return db.startOperation(ctx, n, once, func(context.Context, *sqlx.Tx, string, int64) error { return nil })
}

// startOperation calls also, with the operation's id and the database's clock, in the transaction in
// which an operation begins.
func (db *DB) startOperation(ctx context.Context, n NewOperation, once api.Idempotency, also func(context.Context, *sqlx.Tx, string, int64) error) (id string, replayed bool, err error) {
	out := newOutboxRow(n.Kind, n.OutboxSubject, "")
	verb, end := db.d.insertNew("turn")
	turn := string(n.Action) + ":" + n.Subject
	replayed, err = db.once(ctx, once, &id, func(ctx context.Context, tx *sqlx.Tx) error {
		id = out.ID
		now, err := db.now(ctx, tx)
		if err != nil {
			return err
		}
		into := " INTO operations (id, action, subject, turn, since, removed, kept, created_at) VALUES (?, ?, ?, ?, ?, '{}', '{}', ?)"
		made, err := affected(tx.ExecContext(ctx, verb+into+end, id, n.Action, n.Subject, turn, n.Since, now))
		if err != nil || made == 0 {
			return cmp.Or(err, tx.GetContext(ctx, &id, "SELECT id FROM operations WHERE turn = ?"+db.d.forShare, turn))
		}
		if err := also(ctx, tx, id, now); err != nil {
			return err
		}
		return db.announce(ctx, tx, []OutboxRow{out})
	})
	return id, replayed, err
}

// EndTurn lets the next call of StartOperation begin another operation, although this one is not
// done. It says whether the operation is on record and not done.
func (db *DB) EndTurn(ctx context.Context, id string) (open bool, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		err := changed(tx.ExecContext(ctx, "UPDATE operations SET turn = NULL WHERE id = ? AND done_at IS NULL", id))
		open = err == nil
		return err
	})
	return open, err
}

// EndOperation puts on record that an operation is done, and removes its outbox row. From then on
// the row of the operation does not name its subject.
func (db *DB) EndOperation(ctx context.Context, id string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return db.endOperation(ctx, tx, id) })
}

func (db *DB) endOperation(ctx context.Context, tx *sqlx.Tx, id string) error {
	_, err := tx.ExecContext(ctx, "UPDATE operations SET subject = '', turn = NULL, done_at = "+db.d.now+" WHERE id = ? AND done_at IS NULL", id)
	if err == nil {
		_, err = tx.ExecContext(ctx, "DELETE FROM outbox WHERE id = ?", id)
	}
	return err
}

// OpenOperation reads an operation that is not done; nil if there is none.
func (db *DB) OpenOperation(ctx context.Context, id string) (*Operation, error) {
	var o Operation
	err := db.get(ctx, &o, "SELECT id, subject, since, created_at, COALESCE(settled_at, 0) AS settled_at FROM operations WHERE id = ? AND done_at IS NULL", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &o, err
}

type operationRow struct {
	ID      string     `db:"id"`
	Action  api.Action `db:"action"`
	Done    bool       `db:"done"`
	Created int64      `db:"created_at"`
	Removed string     `db:"removed"`
	Kept    string     `db:"kept"`
}

// Operation shows an operation; api.CodeNotFound when there is none, or it was done more than
// api.OperationsKept ago.
func (db *DB) Operation(ctx context.Context, id string) (*api.Operation, error) {
	var row operationRow
	err := db.get(ctx, &row, selectOperations+" WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, api.Errorf(api.CodeNotFound, "there is no operation %s, or it is no longer kept", id)
	}
	if err != nil {
		return nil, err
	}
	return row.operation()
}

const selectOperations = "SELECT id, action, done_at IS NOT NULL AS done, removed, kept, created_at FROM operations"

// Operations shows n operations, fewer at the end of the list, those that began last first. The list begins behind the
// operation with the id after; "": at its begin. Ids begin with the time at which they were made.
func (db *DB) Operations(ctx context.Context, after string, n int) ([]api.Operation, error) {
	var rows []operationRow
	if err := db.list(ctx, &rows, selectOperations+" WHERE id < ? ORDER BY id DESC LIMIT ?", cmp.Or(after, "~"), n); err != nil {
		return nil, err
	}
	all := make([]api.Operation, len(rows))
	for i := range rows {
		o, err := rows[i].operation()
		if err != nil {
			return nil, err
		}
		all[i] = *o
	}
	return all, nil
}

func (row *operationRow) operation() (*api.Operation, error) {
	o := &api.Operation{ID: row.ID, Action: row.Action, State: api.OperationRunning, BegunAt: new(api.AtMillis(row.Created))}
	if row.Done {
		o.State = api.OperationDone
	}
	var err error
	if o.Removed, err = readCounts(row.Removed); err == nil {
		o.Kept, err = readCounts(row.Kept)
	}
	return o, err
}

// CountRemoved adds to what an operation has removed, by kind.
func (db *DB) CountRemoved(ctx context.Context, id string, more map[string]int64) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error { return db.countRemoved(ctx, tx, id, more) })
}

func (db *DB) countRemoved(ctx context.Context, tx *sqlx.Tx, id string, more map[string]int64) error {
	var text string
	if err := tx.GetContext(ctx, &text, "SELECT removed FROM operations WHERE id = ?"+db.d.forUpdate, id); err != nil {
		return err
	}
	counts, err := readCounts(text)
	if err != nil {
		return err
	}
	for kind, n := range more {
		if n > 0 {
			counts[kind] += n
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE operations SET removed = ? WHERE id = ?", countsText(counts), id)
	return err
}

func countsText(counts map[string]int64) string {
	text, _ := json.Marshal(counts) // numbers always marshal
	return string(text)
}

func readCounts(text string) (counts map[string]int64, err error) {
	if err = json.Unmarshal([]byte(text), &counts); err != nil {
		return nil, fmt.Errorf("read counts of an operation: %w", err)
	}
	return counts, nil
}

// PurgeOperations removes operations that are no longer kept.
func (db *DB) PurgeOperations(ctx context.Context) (more bool, err error) {
	where := "done_at < " + db.d.now + " - ? ORDER BY done_at"
	return db.deleteOld(ctx, "operations", "id", where, api.OperationsKept.Milliseconds())
}
