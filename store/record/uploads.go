package record

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// KindUpload says that an upload became visible to someone; subject is its id
// (store/contacts).
const KindUpload = "upload"

type uploadRow struct {
	ID         string `db:"id"`
	Owner      string `db:"owner"`
	Visibility string `db:"visibility"`
	Deleted    bool   `db:"deleted"`
	UploadedAt int64  `db:"uploaded_at"`
}

const uploadColumns = "id, owner, visibility, deleted, uploaded_at"

func (r uploadRow) upload() *api.Upload {
	return &api.Upload{ID: r.ID, Owner: r.Owner, Visibility: api.Visibility(r.Visibility), UploadedAt: api.AtMillis(r.UploadedAt)}
}

// UploadWrite is the work that remains after a committed write of an upload: the outbox rows to
// announce, none if there is nothing to fan out.
type UploadWrite struct {
	Upload *api.Upload `json:"upload"`
	// Created is false when the id was there already.
	Created bool     `json:"created"`
	Outbox  []string `json:"-"`
}

// PutUpload writes an upload, once for each id. If the id was used before, even by a deleted
// upload, the row stays unchanged, and its open outbox rows are returned so that they are announced
// again. replayed says that the result is from an earlier call with this idempotency key.
func (db *DB) PutUpload(ctx context.Context, r *api.UploadRequest, i api.Idempotency) (w UploadWrite, replayed bool, err error) {
	out := newOutboxRow(KindUpload, r.ID, "")
	replayed, err = db.once(ctx, i, &w, func(ctx context.Context, tx *sqlx.Tx) error {
		w, err = db.putUpload(ctx, tx, r, out)
		return err
	})
	if err != nil {
		return UploadWrite{}, false, err
	}
	if !w.Created || replayed {
		w.Outbox, err = db.openOutbox(ctx, KindUpload, r.ID)
	}
	return w, replayed, err
}

func (db *DB) putUpload(ctx context.Context, tx *sqlx.Tx, r *api.UploadRequest, out OutboxRow) (UploadWrite, error) {
	now, err := db.now(ctx, tx)
	if err != nil {
		return UploadWrite{}, err
	}
	row := uploadRow{ID: r.ID, Owner: r.Owner, Visibility: string(r.Visibility), UploadedAt: now}
	if r.UploadedAt != nil {
		row.UploadedAt = r.UploadedAt.UnixMilli()
	}
	created, err := db.insertUpload(ctx, tx, row, now)
	if err != nil {
		return UploadWrite{}, err
	}
	if !created {
		old, err := db.lockUpload(ctx, tx, r.ID)
		if err != nil {
			return UploadWrite{}, err
		}
		return UploadWrite{Upload: old.upload()}, nil
	}
	if row.UploadedAt > now+api.MaxUploadAhead.Milliseconds() {
		return UploadWrite{}, api.Invalid("uploaded_at", "future", "must be at most %v in the future", api.MaxUploadAhead)
	}
	w := UploadWrite{Upload: row.upload(), Created: true}
	if r.Visibility == api.VisiblePrivate {
		return w, nil
	}
	w.Outbox = []string{out.ID}
	return w, db.announce(ctx, tx, []OutboxRow{out})
}

// insertUpload reports whether the id was free.
func (db *DB) insertUpload(ctx context.Context, tx *sqlx.Tx, row uploadRow, now int64) (bool, error) {
	verb, end := db.d.insertNew("id")
	into := " INTO uploads (" + uploadColumns + ", created_at, updated_at) VALUES (?, ?, ?, FALSE, ?, ?, ?)"
	n, err := affected(tx.ExecContext(ctx, verb+into+end, row.ID, row.Owner, row.Visibility, row.UploadedAt, now, now))
	return n > 0, err
}

// lockUpload reads an upload's row under its lock; sql.ErrNoRows without one.
func (db *DB) lockUpload(ctx context.Context, tx *sqlx.Tx, id string) (uploadRow, error) {
	var row uploadRow
	err := tx.GetContext(ctx, &row, "SELECT "+uploadColumns+" FROM uploads WHERE id = ?"+db.d.forUpdate, id)
	return row, err
}

// Upload reads an upload; nil when there is none or it was deleted.
func (db *DB) Upload(ctx context.Context, id string) (*api.Upload, error) {
	var row uploadRow
	err := db.get(ctx, &row, "SELECT "+uploadColumns+" FROM uploads WHERE id = ? AND deleted = FALSE", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return row.upload(), nil
}

// SetVisibility changes who may see an upload; CodeNotFound when there is none.
// A change that shows it to someone new leaves an outbox row.
func (db *DB) SetVisibility(ctx context.Context, id string, v api.Visibility) (w UploadWrite, err error) {
	out := newOutboxRow(KindUpload, id, "")
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		w, err = db.setVisibility(ctx, tx, id, v, out)
		return err
	})
	return w, err
}

func (db *DB) setVisibility(ctx context.Context, tx *sqlx.Tx, id string, v api.Visibility, out OutboxRow) (UploadWrite, error) {
	row, err := db.lockUpload(ctx, tx, id)
	if errors.Is(err, sql.ErrNoRows) || (err == nil && row.Deleted) {
		return UploadWrite{}, api.Errorf(api.CodeNotFound, "there is no upload %s", id)
	}
	if err != nil {
		return UploadWrite{}, err
	}
	old := api.Visibility(row.Visibility)
	row.Visibility = string(v)
	w := UploadWrite{Upload: row.upload()}
	if old == v {
		return w, errUnchanged
	}
	if _, err := tx.ExecContext(ctx, "UPDATE uploads SET visibility = ?, updated_at = "+db.d.now+" WHERE id = ?", string(v), id); err != nil {
		return w, err
	}
	if !v.Widens(old) {
		return w, nil
	}
	w.Outbox = []string{out.ID}
	return w, db.announce(ctx, tx, []OutboxRow{out})
}

// DeleteUpload removes an upload. If there is none, nothing changes. The row stays for a while, so
// that a late repeat of the POST does not bring the upload back.
func (db *DB) DeleteUpload(ctx context.Context, id string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		return changed(tx.ExecContext(ctx, "UPDATE uploads SET deleted = TRUE, updated_at = "+db.d.now+" WHERE id = ? AND deleted = FALSE", id))
	})
}
