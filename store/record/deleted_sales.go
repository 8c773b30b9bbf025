package record

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// DeletedSale is what stays of a sale that was deleted, also while a later sale has its id.
type DeletedSale struct {
	ID string `db:"id"`
	// Deletion names the last deletion of a sale with this id. The Loading of a later sale begins with
	// it, which tells that sale from what a Redis that lost the deletion still has.
	Deletion string `db:"deletion"`
	// Used: a reservation was made in the sale, so that no other sale may have its id.
	Used bool `db:"used"`
}

// ErrDeleted says that the settings to be written are those of a sale that was deleted.
var ErrDeleted = api.Errorf(api.CodeUnavailable, "the sale was deleted meanwhile")

// DeleteSale deletes a sale's settings and changes of stock. Its orders stay. If the loading is not the
// sale's on record, or the sale is not on record, it returns ErrFenced and changes nothing.
func (db *DB) DeleteSale(ctx context.Context, d DeletedSale, loading string) error {
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		var present string
		err := tx.GetContext(ctx, &present, "SELECT loading FROM sales WHERE id = ?"+db.d.forUpdate, d.ID)
		if errors.Is(err, sql.ErrNoRows) || err == nil && present != loading {
			return ErrFenced
		}
		if err != nil {
			return err
		}
		for _, table := range []string{"restocks WHERE sale", "sales WHERE id", "deleted_sales WHERE id"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" = ?", d.ID); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO deleted_sales (id, deletion, used, deleted_at) VALUES (?, ?, ?, "+db.d.now+")", d.ID, d.Deletion, d.Used)
		return err
	})
}

// DeletedSale reads what stays of a sale that was deleted; nil if there is nothing. A sale with orders
// counts as used.
func (db *DB) DeletedSale(ctx context.Context, id string) (*DeletedSale, error) {
	var d DeletedSale
	err := db.get(ctx, &d, "SELECT id, deletion, used OR EXISTS (SELECT 1 FROM orders WHERE sale = deleted_sales.id) AS used"+
		" FROM deleted_sales WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return &d, err
}

// mayBeNew lets a sale be new on record unless it was deleted: its id is not used up, and its loading
// begins with the name of the last deletion, if there was one.
func (db *DB) mayBeNew(ctx context.Context, tx *sqlx.Tx, s *Sale) error {
	var d DeletedSale
	err := tx.GetContext(ctx, &d, "SELECT id, deletion, used FROM deleted_sales WHERE id = ?"+db.d.forUpdate, s.ID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && (d.Used || !strings.HasPrefix(s.Loading, d.Deletion)) {
		return ErrDeleted
	}
	return err
}
