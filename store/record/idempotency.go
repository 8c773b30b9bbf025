package record

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jmoiron/sqlx"

	"fanfare/api"
)

// once runs the transaction of a POST once for each idempotency key. It runs f and stores the
// result in the same transaction. A repeat gets the stored result in out instead. Another body with
// the same key is refused with CodeIdempotencyReused. If f refuses, everything is rolled back, so
// that the same key may succeed later. Without a key, once only runs f.
//
// out is a pointer to what f sets and JSON can carry.
func (db *DB) once(ctx context.Context, i api.Idempotency, out any, f func(context.Context, *sqlx.Tx) error) (replayed bool, err error) {
	err = db.inTx(ctx, func(ctx context.Context, tx *sqlx.Tx) error {
		if i.Key == "" {
			return f(ctx, tx)
		}
		replayed = false
		taken, err := db.takeKey(ctx, tx, i)
		if err != nil {
			return err
		}
		if !taken {
			replayed = true
			return db.storedAnswer(ctx, tx, i, out)
		}
		if err := f(ctx, tx); err != nil {
			return err
		}
		return db.storeAnswer(ctx, tx, i, out)
	})
	return replayed, err
}

// onceInTurn is once for a batch. Batches of this process wait for each other before they wait for
// the database.
func (db *DB) onceInTurn(ctx context.Context, i api.Idempotency, out any, f func(context.Context, *sqlx.Tx) error) (replayed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, db.timeout)
	defer cancel()
	select {
	case db.large <- struct{}{}:
		defer func() { <-db.large }()
	case <-ctx.Done():
		return false, fail("wait for other batches", ctx.Err())
	}
	return db.once(ctx, i, out, f)
}

// onceID names a key within its scope; neither is stored in the clear.
func onceID(i api.Idempotency) string {
	sum := i.Digest()
	return hex.EncodeToString(sum[:])
}

// takeKey claims a key; a second transaction with the same key waits here for the first. A
// record older than api.IdempotencyTTL does not count.
func (db *DB) takeKey(ctx context.Context, tx *sqlx.Tx, i api.Idempotency) (bool, error) {
	id := onceID(i)
	_, err := tx.ExecContext(ctx, "DELETE FROM idempotency WHERE id = ? AND created_at < "+db.d.now+" - ?", id, api.IdempotencyTTL.Milliseconds())
	if err != nil {
		return false, err
	}
	verb, end := db.d.insertNew("id")
	into := " INTO idempotency (id, body_hash, answer, created_at) VALUES (?, ?, '', " + db.d.now + ")"
	n, err := affected(tx.ExecContext(ctx, verb+into+end, id, hex.EncodeToString(i.Body[:])))
	return n > 0, err
}

// insertNew begins and ends an INSERT that changes nothing when a row with this key exists, but locks that row. No
// two rows of one such INSERT may have the same key.
//
// With PostgreSQL a transaction that locked a row waits at its end for synchronous standbys, as one that wrote. The row
// may be of an earlier try whose own wait was cancelled.
func (d dialect) insertNew(key string) (verb, end string) {
	switch {
	case d.mysql:
		return "INSERT IGNORE", ""
	case d.postgres:
		column, _, _ := strings.Cut(key, ",")
		return "INSERT", " ON CONFLICT (" + key + ") DO UPDATE SET " + column + " = excluded." + column + " WHERE FALSE"
	}
	return "INSERT", " ON CONFLICT (" + key + ") DO NOTHING"
}

func (db *DB) storeAnswer(ctx context.Context, tx *sqlx.Tx, i api.Idempotency, out any) error {
	answer, err := json.Marshal(out)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	_, err = tx.ExecContext(ctx, "UPDATE idempotency SET answer = ? WHERE id = ?", string(answer), onceID(i))
	return err
}

func (db *DB) storedAnswer(ctx context.Context, tx *sqlx.Tx, i api.Idempotency, out any) error {
	var row struct {
		Body   string `db:"body_hash"`
		Answer string `db:"answer"`
	}
	err := tx.GetContext(ctx, &row, "SELECT body_hash, answer FROM idempotency WHERE id = ?", onceID(i))
	if err != nil {
		return err
	}
	if row.Body != hex.EncodeToString(i.Body[:]) {
		return api.IdempotencyReused()
	}
	return json.Unmarshal([]byte(row.Answer), out)
}
