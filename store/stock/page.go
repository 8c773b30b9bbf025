package stock

import (
	"context"
	"strconv"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// place is a place in a sorted set of reservations: right after one of them. The zero place is the
// beginning.
type place struct {
	score int64 // ms
	id    string
}

// placed is a reservation and its score in a sorted set.
type placed struct {
	stored
	score int64
}

// page reads at most limit reservations in the order of a sorted set of their partition, and Redis'
// time in ms. One whose score changes meanwhile may come again, or not at all; none that keeps its score is left out.
func (b *base) page(ctx context.Context, p *partition, set string, after place, limit int) (found []placed, now int64, err error) {
	cmd := b.scripts.page.Cmd(ctx, []string{p.settings, set, p.reservations}, b.o.RunID, limit, after.id, after.score, p.of)
	answer, err := b.db.List(ctx, redisdb.Read, cmd)
	if err != nil {
		return nil, 0, err
	}
	if err := b.usable(p.sale, redisdb.NumberAt(answer, 0)); err != nil {
		return nil, 0, err
	}
	for i := 2; i+2 < len(answer); i += 3 {
		r, err := parseStored(redisdb.TextAt(answer, i), redisdb.TextAt(answer, i+2))
		if err != nil {
			return nil, 0, err
		}
		score, err := strconv.ParseInt(redisdb.TextAt(answer, i+1), 10, 64)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, placed{r, score})
	}
	return found, redisdb.NumberAt(answer, 1), nil
}

// ListAt is a place in the list of all reservations of a sale that are not on record as orders: right
// after one of them. The zero value is the beginning.
type ListAt struct {
	// Set numbers the sorted sets that are read one after the other: that of the holds in each
	// partition, then that of the orders in each.
	Set   int
	Score int64
	ID    string
}

// EveryReservation lists the reservations of all users that are not on record as orders: those that are
// held, and that were released or have expired, as long as they are known; then those that were sold.
// It gives at most limit, and where the list goes on; nil: nowhere. sold skips all that were not
// sold, and unsold leaves out the others. A reservation that changes meanwhile may come again;
// none that was there from the beginning is left out, unless its order went on record, or it was a hold
// with more than an hour left and was released: then it moves to an earlier place.
func (rs *reservations) EveryReservation(ctx context.Context, sale string, at ListAt, sold, unsold bool, limit int) (items []api.Reservation, next *ListAt, err error) {
	parts, err := rs.partitionsOf(ctx, sale)
	if err != nil {
		return nil, nil, err
	}
	n := len(parts)
	end := 2 * n
	if unsold {
		end = n
	}
	if sold && at.Set < n {
		at = ListAt{Set: n}
	}
	for at.Set < end {
		p, set := parts[at.Set%n], ""
		if set = p.due; at.Set >= n {
			set = p.orders
		}
		want := limit - len(items)
		found, now, err := rs.page(ctx, p, set, place{at.Score, at.ID}, want)
		if err != nil {
			return nil, nil, err
		}
		for i := range found {
			items = append(items, found[i].api(now))
		}
		if len(found) == want {
			last := found[want-1]
			return items, &ListAt{at.Set, last.score, last.id}, nil
		}
		at = ListAt{Set: at.Set + 1}
	}
	return items, nil, nil
}
