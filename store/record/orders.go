package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fanfare/api"
)

// Order is a reservation that was sold. CreatedAt is the time of the sale, in milliseconds since
// the Unix epoch by Redis' clock.
type Order struct {
	Reservation string     `json:"reservation"`
	Sale        string     `json:"sale"`
	User        string     `json:"user"`
	Lines       []api.Line `json:"lines"`
	CreatedAt   int64      `json:"created_at"`
}

type orderRow struct {
	Reservation string `db:"reservation"`
	Sale        string `db:"sale"`
	User        string `db:"user_id"`
	Lines       string `db:"order_lines"`
	CreatedAt   int64  `db:"created_at"`
}

const orderColumns = "reservation, sale, user_id, order_lines, created_at"

func (r orderRow) order() (o Order, err error) {
	o = Order{Reservation: r.Reservation, Sale: r.Sale, User: r.User, CreatedAt: r.CreatedAt}
	if err = json.Unmarshal([]byte(r.Lines), &o.Lines); err != nil {
		err = fmt.Errorf("decode lines of order %s: %w", r.Reservation, err)
	}
	return o, err
}

// ordersAtOnce is the most orders that one statement writes.
const ordersAtOnce = 100

// PutOrders writes at most 100 orders, each at most once: if a reservation's order is on record
// already, it stays as it is. When it returns nil, the synchronous standbys of PostgreSQL have all of them, too.
func (db *DB) PutOrders(ctx context.Context, orders []Order) error {
	if len(orders) == 0 {
		return nil
	}
	if len(orders) > ordersAtOnce {
		return fmt.Errorf("put orders: %d at once, at most %d", len(orders), ordersAtOnce)
	}
	orders = slices.Clone(orders)
	slices.SortStableFunc(orders, func(a, b Order) int { return strings.Compare(a.Reservation, b.Reservation) }) // so that writers of the same orders do not deadlock
	orders = slices.CompactFunc(orders, func(a, b Order) bool { return a.Reservation == b.Reservation })
	var args []any
	for _, o := range orders {
		lines, _ := json.Marshal(o.Lines) // strings and numbers always marshal
		args = append(args, o.Reservation, o.Sale, o.User, string(lines), o.CreatedAt)
	}
	verb, end := db.d.insertNew("reservation")
	return db.exec(ctx, verb+" INTO orders ("+orderColumns+") VALUES "+rows("(?, ?, ?, ?, ?)", len(orders))+end, args...)
}

// Order reads the order of a reservation of a sale; nil when there is none.
func (db *DB) Order(ctx context.Context, sale, reservation string) (*Order, error) {
	var row orderRow
	err := db.get(ctx, &row, "SELECT "+orderColumns+" FROM orders WHERE reservation = ? AND sale = ?", reservation, sale)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := row.order()
	return &o, err
}

// Orders lists a sale's orders, oldest first, at most limit of them, beginning
// after an order (its CreatedAt and Reservation; the zero Order for the first
// page).
func (db *DB) Orders(ctx context.Context, sale string, after Order, limit int) ([]Order, error) {
	var found []orderRow
	err := db.list(ctx, &found, "SELECT "+orderColumns+" FROM orders WHERE sale = ? AND created_at >= ? AND (created_at > ? OR reservation > ?)"+
		" ORDER BY created_at, reservation LIMIT ?", sale, after.CreatedAt, after.CreatedAt, after.Reservation, limit)
	if err != nil {
		return nil, err
	}
	out := make([]Order, len(found))
	for i, row := range found {
		if out[i], err = row.order(); err != nil {
			return nil, err
		}
	}
	return out, nil
}
