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

// Sale is a sale's settings as they are on record. Times are milliseconds since
// the Unix epoch; a PerUserLimit, IdleMS or MaxHoldMS of 0 is none.
type Sale struct {
	ID           string     `db:"id" json:"id"`
	Version      int64      `db:"version" json:"version"`
	Items        []SaleItem `db:"-" json:"items"`
	StartsAt     int64      `db:"starts_at" json:"starts_at"`
	EndsAt       int64      `db:"ends_at" json:"ends_at"`
	PerUserLimit int64      `db:"per_user_limit" json:"per_user_limit"`
	HoldMS       int64      `db:"hold_ms" json:"hold_ms"`
	MaxHoldMS    int64      `db:"max_hold_ms" json:"max_hold_ms"`
	IdleMS       int64      `db:"idle_ms" json:"idle_ms"`
	Partitions   int        `db:"partitions" json:"partitions"`
	// Loading identifies the load from which the settings come: the last time that Redis read the
	// sale from SQL, or the making of the sale.
	Loading string `db:"loading" json:"loading"`
}

// SaleItem is the total of a sku.
type SaleItem struct {
	SKU   string `json:"sku"`
	Total int64  `json:"total"`
	LowAt *int64 `json:"low_at,omitempty"`
}

const saleColumns = "id, version, starts_at, ends_at, per_user_limit, hold_ms, max_hold_ms, idle_ms, partitions, loading"

// ErrFenced says that the settings to be written come from a Redis that is not the one that last
// loaded the sale.
var ErrFenced = api.Errorf(api.CodeUnavailable, "the sale was read from the record by another Redis since")

// PutSale writes a sale's settings, and with them the changes of stock that they result from,
// unless the same or a newer version is on record. Late and repeated writes therefore do no
// harm. It writes nothing and returns ErrFenced if the loading of the settings is not the sale's on
// record, and ErrDeleted if the sale was deleted and these are not the settings of a later one.
func (db *DB) PutSale(ctx context.Context, s Sale, restocks ...Restock) error {
	items, _ := json.Marshal(s.Items) // strings and numbers always marshal
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		verb, end := db.d.insertNew("id")
		_, err := tx.ExecContext(ctx, verb+" INTO sales ("+saleColumns+", item_totals, created_at, updated_at) "+
			"VALUES (?, 0, 0, 0, 0, 0, 0, 0, 0, ?, '[]', "+db.d.now+", "+db.d.now+")"+end, s.ID, s.Loading)
		if err != nil {
			return err
		}
		var present Sale
		err = tx.GetContext(ctx, &present, "SELECT version, loading FROM sales WHERE id = ?"+db.d.forUpdate, s.ID)
		if err != nil {
			return err
		}
		if present.Loading != s.Loading {
			return ErrFenced
		}
		if present.Version == 0 { // the row was made just now
			if err := db.mayBeNew(ctx, tx, &s); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "UPDATE sales SET version = ?, item_totals = ?, starts_at = ?, ends_at = ?, "+
			"per_user_limit = ?, hold_ms = ?, max_hold_ms = ?, idle_ms = ?, partitions = ?, updated_at = "+db.d.now+" WHERE id = ? AND version < ?",
			s.Version, string(items), s.StartsAt, s.EndsAt, s.PerUserLimit, s.HoldMS, s.MaxHoldMS, s.IdleMS, s.Partitions, s.ID, s.Version)
		if err != nil {
			return err
		}
		return db.putRestocks(ctx, tx, s.ID, restocks)
	})
}

// LoadSale reads a sale's settings for a load. From then on settings of an earlier load are
// refused. It returns nil if there is no such sale.
func (db *DB) LoadSale(ctx context.Context, id, loading string) (s *Sale, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		s = nil
		n, err := affected(tx.ExecContext(ctx, "UPDATE sales SET loading = ? WHERE id = ?", loading, id))
		if err != nil || n == 0 { // a sale that is made from now on is of another loading
			return err
		}
		s, err = readSale(ctx, id, tx.GetContext)
		return err
	})
	return s, err
}

// Sales lists sales by id, at most limit of them, beginning after an id ("" for the first page). It
// leaves out their items.
func (db *DB) Sales(ctx context.Context, after string, limit int) (found []Sale, err error) {
	err = db.list(ctx, &found, "SELECT "+saleColumns+" FROM sales WHERE id > ? ORDER BY id LIMIT ?", after, limit)
	return found, err
}

// Sale reads a sale's settings; nil when there is none.
func (db *DB) Sale(ctx context.Context, id string) (*Sale, error) {
	return readSale(ctx, id, db.get)
}

func readSale(ctx context.Context, id string, get func(context.Context, any, string, ...any) error) (*Sale, error) {
	var row struct {
		Sale
		Encoded string `db:"item_totals"`
	}
	err := get(ctx, &row, "SELECT "+saleColumns+", item_totals FROM sales WHERE id = ?", id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(row.Encoded), &row.Items); err != nil {
		return nil, fmt.Errorf("decode items of sale %s: %w", id, err)
	}
	return &row.Sale, nil
}
