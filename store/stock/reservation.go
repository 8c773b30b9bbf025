package stock

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Order is a reservation that was sold. CreatedAt is when, in milliseconds since
// the Unix epoch by Redis' clock.
type Order struct {
	Reservation string
	Sale        string
	User        string
	Lines       []api.Line
	CreatedAt   int64
}

// stored is a reservation as the ledger has it.
type stored struct {
	id, user                string
	state                   byte // h held, s sold, r released, e expired
	created, expires, ended int64
	lines                   []api.Line
}

const storedFields = 7

// parseStored reads "<state>|<user>|<created>|<expires>|<ended>|<prev>|<lines>", and
// perhaps "|<next>".
func parseStored(id, text string) (stored, error) {
	f := strings.Split(text, "|")
	if len(f) < storedFields || len(f[0]) != 1 || !strings.Contains("hsre", f[0]) {
		return stored{}, fmt.Errorf("read reservation %s: %q", id, text)
	}
	r := stored{id: id, state: f[0][0], user: f[1]}
	for i, n := range []*int64{&r.created, &r.expires, &r.ended} {
		v, err := strconv.ParseInt(f[2+i], 10, 64)
		if err != nil {
			return stored{}, fmt.Errorf("read reservation %s: %w", id, err)
		}
		*n = v
	}
	r.lines = parseLines(f[6])
	return r, nil
}

// parseLines reads "<sku>=<units>,...".
func parseLines(text string) []api.Line {
	parts := strings.Split(text, ",")
	lines := make([]api.Line, 0, len(parts))
	for _, part := range parts {
		sku, units, _ := strings.Cut(part, "=")
		n, _ := strconv.ParseInt(units, 10, 64)
		lines = append(lines, api.Line{SKU: sku, Quantity: n})
	}
	return lines
}

func linesText(lines []api.Line) string {
	text := make([]byte, 0, 64)
	for i, line := range lines {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(append(append(text, line.SKU...), '='), line.Quantity, 10)
	}
	return string(text)
}

// api is the reservation as clients see it at a moment of Redis' clock. A hold that is over
// shows as expired, even if no sweep has returned it yet.
func (r *stored) api(now int64) api.Reservation {
	out := api.Reservation{ID: r.id, User: r.user, Lines: r.lines, State: stateOf(r.state)}
	if r.state == 'h' && r.expires <= now {
		out.State = api.ReservationExpired
	}
	if r.expires > 0 {
		out.ExpiresAt = new(api.AtMillis(r.expires))
	}
	return out
}

func stateOf(letter byte) api.ReservationState {
	switch letter {
	case 's':
		return api.ReservationSold
	case 'r':
		return api.ReservationReleased
	case 'e':
		return api.ReservationExpired
	}
	return api.ReservationHeld
}

// order is a sold reservation as SQL records it.
func (r *stored) order(sale string) Order {
	return Order{Reservation: r.id, Sale: sale, User: r.user, Lines: r.lines, CreatedAt: r.ended}
}

// ErrNoReservation is the answer for a reservation that does not exist, or that another user
// made.
func ErrNoReservation(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no reservation %q in this sale", id)
}

// partitionByID finds the partition of a reservation's id; id comes from a client and may be
// any text.
func (rs *reservations) partitionByID(ctx context.Context, sale, id string) (*partition, error) {
	parts, err := rs.partitionsOf(ctx, sale)
	if err != nil {
		return nil, err
	}
	p, ok := partitionWith(parts, id)
	if !ok {
		return nil, ErrNoReservation(id)
	}
	return p, nil
}

// listNoCursor is the answer of reservation_list.lua to a cursor that no list gave.
const listNoCursor = 7

// Reservations lists a user's reservations, newest first, at most limit of them,
// beginning after a cursor ("" for the first page). A next of "" means that there
// are no more. A cursor that this method did not give is refused.
func (rs *reservations) Reservations(ctx context.Context, sale, user, cursor string, limit int) (items []api.Reservation, next string, err error) {
	parts, err := rs.partitionsOf(ctx, sale)
	if err != nil {
		return nil, "", err
	}
	p, script := parts[Home(user, len(parts))], rs.scripts.list
	if _, ok := PartitionOf(cursor); cursor != "" && !ok {
		return nil, "", errCursor()
	}
	cmd := script.Cmd(ctx, []string{p.settings, p.reservations}, rs.o.RunID, user, cursor, limit+1, p.of)
	answer, err := rs.db.List(ctx, redisdb.Read, cmd)
	if err != nil {
		return nil, "", err
	}
	if redisdb.NumberAt(answer, 0) == listNoCursor {
		return nil, "", errCursor()
	}
	if err := rs.usable(sale, redisdb.NumberAt(answer, 0)); err != nil {
		return nil, "", err
	}
	return readList(answer, limit)
}

func errCursor() error {
	return api.Invalid("cursor", "cursor", "is not one that this list gave")
}

// readList reads id and text in turn. If the answer has one more than limit, there is a next
// page.
func readList(answer []any, limit int) (items []api.Reservation, next string, err error) {
	items = []api.Reservation{}
	for i := 2; i+1 < len(answer); i += 2 {
		if len(items) == limit {
			return items, items[limit-1].ID, nil
		}
		r, err := parseStored(redisdb.TextAt(answer, i), redisdb.TextAt(answer, i+1))
		if err != nil {
			return nil, "", err
		}
		items = append(items, r.api(redisdb.NumberAt(answer, 1)))
	}
	return items, "", nil
}

// Reservation reads one reservation; not_found when the sale has none of that id.
func (rs *reservations) Reservation(ctx context.Context, sale, id string) (*api.Reservation, error) {
	p, err := rs.partitionByID(ctx, sale, id)
	if err != nil {
		return nil, err
	}
	found, now, err := rs.read(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if found[0] == nil {
		return nil, ErrNoReservation(id)
	}
	out := found[0].api(now)
	return &out, nil
}

// read reads some reservations of one partition, nil for each that does not exist, and Redis'
// time in ms.
func (rs *reservations) read(ctx context.Context, p *partition, ids ...string) ([]*stored, int64, error) {
	args := []any{rs.o.RunID, p.of}
	for _, id := range ids {
		args = append(args, id)
	}
	cmd := rs.scripts.get.Cmd(ctx, []string{p.settings, p.reservations}, args...)
	answer, err := rs.db.List(ctx, redisdb.Read, cmd)
	if err != nil {
		return nil, 0, err
	}
	if err := rs.usable(p.sale, redisdb.NumberAt(answer, 0)); err != nil {
		return nil, 0, err
	}
	found := make([]*stored, len(ids))
	for i, id := range ids {
		if t := redisdb.TextAt(answer, 2+i); t != "" {
			r, err := parseStored(id, t)
			if err != nil {
				return nil, 0, err
			}
			found[i] = &r
		}
	}
	return found, redisdb.NumberAt(answer, 1), nil
}
