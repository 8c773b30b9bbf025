package stock

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"fanfare/store/redisdb"
)

// eraseStep is how many reservations one script looks at.
const eraseStep = 100

// Erased counts what EraseUser did.
type Erased struct {
	Released  int64 // holds, whose units came back
	Forgotten int64 // reservations that had ended
	Sold      int64 // reservations that stay
	Waiting   int64 // those of Sold that were sold up to the time, and whose orders are not on record yet
}

// EraseUser releases the holds of a user in a sale, and forgets the user's ended reservations, as
// far as they were made up to a time in ms by Redis' clock. Sold reservations stay. A sale that
// Redis does not have has none.
func (rs *reservations) EraseUser(ctx context.Context, sale, user string, until int64) (e Erased, err error) {
	parts, err := rs.partitionsOf(ctx, sale)
	if errors.Is(err, ErrAbsent) {
		return e, nil
	}
	if err != nil {
		return e, err
	}
	p, script := parts[Home(user, len(parts))], rs.scripts.erase
	for next := ""; ; {
		cmd := script.Cmd(ctx, p.core(p.orders), rs.o.RunID, user, until, next, eraseStep, p.of)
		answer, err := rs.db.List(ctx, redisdb.Write, cmd)
		if err == nil {
			err = rs.usable(sale, redisdb.NumberAt(answer, 0))
		}
		if errors.Is(err, ErrAbsent) && p.index == 0 {
			return e, nil
		}
		if errors.Is(err, ErrAbsent) {
			return e, ErrStaleRun // the sale may have been made anew with fewer partitions
		}
		if err != nil {
			return e, err
		}
		e.Released += redisdb.NumberAt(answer, 2)
		e.Forgotten += redisdb.NumberAt(answer, 3)
		e.Sold += redisdb.NumberAt(answer, 4)
		e.Waiting += redisdb.NumberAt(answer, 5)
		if next = redisdb.TextAt(answer, 1); next == "" {
			return e, nil
		}
	}
}

// RecordOf reports whether the value of an idempotency record is a reservation that a user made up
// to a time in ms.
func RecordOf(value, user string, until int64) bool {
	_, after, found := strings.Cut(value, "|"+user+"|")
	if !found {
		return false
	}
	created, _, _ := strings.Cut(after, "|")
	at, err := strconv.ParseInt(created, 10, 64)
	return err == nil && at <= until
}
