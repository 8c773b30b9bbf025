package record

import (
	"context"
	"slices"

	"github.com/jmoiron/sqlx"
)

// Restock is a change of a sale's stock, by the name of its call: the result that a repeated
// call gets. Version is the sale's version after it. ExpiresAt is the end of the record in
// milliseconds since the Unix epoch, by Redis' clock.
type Restock struct {
	Name      string `db:"name"`
	Version   int64  `db:"version"`
	Answer    string `db:"answer"`
	ExpiresAt int64  `db:"expires_at"`
}

// restocksAtOnce is how many restocks one statement writes.
const restocksAtOnce = 200

// putRestocks writes changes of a sale's stock. A restock of an earlier use of a name no longer
// counts.
func (db *DB) putRestocks(ctx context.Context, tx *sqlx.Tx, sale string, restocks []Restock) error {
	verb, end := db.d.insertNew("sale, name")
	for some := range slices.Chunk(restocks, restocksAtOnce) {
		args := make([]any, 0, 5*len(some))
		for _, r := range some {
			_, err := tx.ExecContext(ctx, "DELETE FROM restocks WHERE sale = ? AND name = ? AND expires_at < ?",
				sale, r.Name, r.ExpiresAt)
			if err != nil {
				return err
			}
			args = append(args, sale, r.Name, r.Version, r.Answer, r.ExpiresAt)
		}
		into := " INTO restocks (sale, name, version, answer, expires_at) VALUES "
		if _, err := tx.ExecContext(ctx, verb+into+rows("(?, ?, ?, ?, ?)", len(some))+end, args...); err != nil {
			return err
		}
	}
	return nil
}

// Restocks lists the changes of a sale's stock up to a version of it, in the order of
// their names, at most limit of them, beginning after a name ("" for the first page).
func (db *DB) Restocks(ctx context.Context, sale string, version int64, after string, limit int) (found []Restock, err error) {
	err = db.list(ctx, &found, "SELECT name, version, answer, expires_at FROM restocks WHERE sale = ? AND version <= ? AND name > ? ORDER BY name LIMIT ?",
		sale, version, after, limit)
	return found, err
}
