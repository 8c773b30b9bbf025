package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jmoiron/sqlx"
)

// Sale is a sale's settings as they are on record. Times are milliseconds since
// the Unix epoch; a PerUserLimit or IdleMS of 0 is none.
type Sale struct {
	ID           string     `db:"id" json:"id"`
	Version      int64      `db:"version" json:"version"`
	Items        []SaleItem `db:"-" json:"items"`
	StartsAt     int64      `db:"starts_at" json:"starts_at"`
	EndsAt       int64      `db:"ends_at" json:"ends_at"`
	PerUserLimit int64      `db:"per_user_limit" json:"per_user_limit"`
	HoldMS       int64      `db:"hold_ms" json:"hold_ms"`
	IdleMS       int64      `db:"idle_ms" json:"idle_ms"`
	Partitions   int        `db:"partitions" json:"partitions"`
}

// SaleItem is the total of a sku.
type SaleItem struct {
	SKU   string `json:"sku"`
	Total int64  `json:"total"`
}

const saleColumns = "id, version, starts_at, ends_at, per_user_limit, hold_ms, idle_ms, partitions"

// PutSale writes a sale's settings unless the same or a newer version is on
// record, so that late and repeated writes do no harm; and with them the changes of
// stock that they have come from.
func (db *DB) PutSale(ctx context.Context, s Sale, restocks ...Restock) error {
	items, err := json.Marshal(s.Items)
	if err != nil {
		return fmt.Errorf("encode items of sale %s: %w", s.ID, err)
	}
	return db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		verb, end := db.d.insertNew("id")
		_, err := tx.ExecContext(ctx, verb+" INTO sales ("+saleColumns+", items, created_at, updated_at) VALUES (?, 0, 0, 0, 0, 0, 0, 0, '[]', "+
			db.d.now+", "+db.d.now+")"+end, s.ID)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE sales SET version = ?, items = ?, starts_at = ?, ends_at = ?, per_user_limit = ?, hold_ms = ?, idle_ms = ?, partitions = ?, updated_at = "+
			db.d.now+" WHERE id = ? AND version < ?",
			s.Version, string(items), s.StartsAt, s.EndsAt, s.PerUserLimit, s.HoldMS, s.IdleMS, s.Partitions, s.ID, s.Version)
		for some := range slices.Chunk(restocks, restocksAtOnce) {
			args := make([]any, 0, 5*len(some))
			for _, r := range some { // one of an earlier use of the name counts no more
				_, e := tx.ExecContext(ctx, "DELETE FROM restocks WHERE sale = ? AND name = ? AND expires_at < ?", s.ID, r.Name, r.ExpiresAt)
				args, err = append(args, s.ID, r.Name, r.Version, r.Answer, r.ExpiresAt), errors.Join(err, e)
			}
			verb, end := db.d.insertNew("sale, name")
			_, e := tx.ExecContext(ctx, verb+" INTO restocks (sale, name, version, answer, expires_at) VALUES "+rows("(?, ?, ?, ?, ?)", len(some))+end, args...)
			err = errors.Join(err, e)
		}
		return err
	})
}

// Sale reads a sale's settings; nil when there is none.
func (db *DB) Sale(ctx context.Context, id string) (*Sale, error) {
	var row struct {
		Sale
		Encoded string `db:"items"`
	}
	err := db.get(ctx, &row, "SELECT "+saleColumns+", items FROM sales WHERE id = ?", id)
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
