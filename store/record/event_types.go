package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// eventTypeRow is a row of event_types. A deleted type keeps its row, so that
// a type made again never repeats a revision.
type eventTypeRow struct {
	Type       string `db:"type"`
	Revision   int64  `db:"revision"`
	Definition string `db:"definition"`
	Deleted    bool   `db:"deleted"`
	CreatedAt  int64  `db:"created_at"`
	UpdatedAt  int64  `db:"updated_at"`
}

const eventTypeColumns = "type, revision, definition, deleted, created_at, updated_at"

// PutEventType creates or replaces a type and raises its revision, if the condition holds for the
// present revision; otherwise api.CodeVersionMismatch. The same definition again changes nothing.
// Every change raises VersionEventTypes.
func (db *DB) PutEventType(ctx context.Context, typ string, r *api.EventTypeRequest, m api.Match) (*api.EventType, bool, error) {
	definition, err := json.Marshal(r)
	if err != nil {
		return nil, false, fmt.Errorf("put event type %s: %w", typ, err)
	}
	var row eventTypeRow
	var created bool
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		row, created, err = db.putEventType(ctx, tx, typ, string(definition), m)
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("put event type %s: %w", typ, err)
	}
	t, err := row.decode()
	return t, created, err
}

func (db *DB) putEventType(ctx context.Context, tx *sqlx.Tx, typ, definition string, m api.Match) (eventTypeRow, bool, error) {
	row, err := db.eventTypeToChange(ctx, tx, typ, m)
	if err != nil {
		return row, false, err
	}
	now, err := db.now(ctx, tx)
	if err != nil {
		return row, false, err
	}
	created := row.present() == 0
	if !created && row.Definition == definition {
		return row, false, errUnchanged
	}
	if created {
		row.CreatedAt = now
	}
	row.Type, row.Definition, row.Deleted, row.UpdatedAt = typ, definition, false, now
	row.Revision++
	_, err = tx.NamedExecContext(ctx, "INSERT INTO event_types ("+eventTypeColumns+
		") VALUES (:type, :revision, :definition, :deleted, :created_at, :updated_at)"+
		db.d.onConflict("event_types", "type", []string{"revision", "definition", "deleted", "created_at", "updated_at"}), row)
	return row, created, err
}

// eventTypeToChange reads a type's row, which may be none or that of a deleted type, and checks the
// condition of a change. Raising the version first makes other changes wait.
func (db *DB) eventTypeToChange(ctx context.Context, tx *sqlx.Tx, typ string, m api.Match) (row eventTypeRow, err error) {
	if err := db.raise(ctx, tx, VersionEventTypes); err != nil {
		return row, err
	}
	err = tx.GetContext(ctx, &row, "SELECT "+eventTypeColumns+" FROM event_types WHERE type = ?", typ)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return row, err
	}
	if !m.Holds(row.present()) {
		return row, row.mismatch()
	}
	return row, nil
}

// present is the revision of a type that is there, and 0 of one that is not.
func (r eventTypeRow) present() int64 {
	if r.Deleted {
		return 0
	}
	return r.Revision
}

// mismatch is the error of a condition that does not hold, with the present type and its revision.
func (r eventTypeRow) mismatch() error {
	e := api.Errorf(api.CodeVersionMismatch, "the event type is not the one that the condition asks for")
	if r.present() == 0 {
		return e
	}
	t, err := r.decode()
	if err != nil {
		return err
	}
	return e.With("version", t.Revision).With("event_type", t.InForce())
}

// EventType reads one type; api.CodeNotFound when there is none.
func (db *DB) EventType(ctx context.Context, typ string) (*api.EventType, error) {
	var row eventTypeRow
	err := db.get(ctx, &row, "SELECT "+eventTypeColumns+" FROM event_types WHERE type = ? AND deleted = FALSE", typ)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, api.Errorf(api.CodeNotFound, "there is no event type %s", typ)
	}
	if err != nil {
		return nil, err
	}
	return row.decode()
}

// EventTypes reads all types, by name.
func (db *DB) EventTypes(ctx context.Context) ([]api.EventType, error) {
	var found []eventTypeRow
	err := db.list(ctx, &found, "SELECT "+eventTypeColumns+" FROM event_types WHERE deleted = FALSE ORDER BY type")
	if err != nil {
		return nil, err
	}
	types := make([]api.EventType, 0, len(found))
	for _, row := range found {
		t, err := row.decode()
		if err != nil {
			return nil, err
		}
		types = append(types, *t)
	}
	return types, nil
}

// DeleteEventType removes a type, if the condition holds for the present revision; otherwise
// api.CodeVersionMismatch. Without a condition, removing one that is not there is no error and
// changes nothing. Events that were accepted are not changed.
func (db *DB) DeleteEventType(ctx context.Context, typ string, m api.Match) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		row, err := db.eventTypeToChange(ctx, tx, typ, m)
		if err == nil && row.present() == 0 {
			return errUnchanged
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "UPDATE event_types SET deleted = TRUE, updated_at = "+db.d.now+" WHERE type = ?", typ)
		}
		return err
	})
}

func (r eventTypeRow) decode() (*api.EventType, error) {
	t := &api.EventType{Type: r.Type, Revision: r.Revision, CreatedAt: api.AtMillis(r.CreatedAt), UpdatedAt: api.AtMillis(r.UpdatedAt)}
	if err := json.Unmarshal([]byte(r.Definition), &t.EventTypeRequest); err != nil {
		return nil, fmt.Errorf("decode event type %s: %w", r.Type, err)
	}
	return t, nil
}
