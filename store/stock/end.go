package stock

import (
	"context"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Ended is the answer to a confirmation or a release.
type Ended struct {
	Reservation api.Reservation
	// Replayed: the same idempotency key was answered before.
	Replayed bool
	// Order is the order that a confirmation made, if it is not on record yet.
	Order *Order
}

// The statuses of reservation_end.lua, in addition to the common ones.
const (
	endUnknown = 7
	endNotHeld = 8
)

// EndHold asks to confirm or to release a reservation.
type EndHold struct {
	Sale, ID string
	// Sell: the reservation is sold; otherwise its units are given back.
	Sell bool
	// Owner, if not "", is the user who must have made it; a reservation of another user
	// is not found.
	Owner string
	Once  api.Idempotency
}

// End sells a held reservation, or gives its units back, in one round trip. A repeat gets the same
// answer. If the reservation was ended the other way or has expired, the error is not_held, with
// its state.
func (rs *reservations) End(ctx context.Context, e EndHold) (Ended, error) {
	p, err := rs.partitionByID(ctx, e.Sale, e.ID)
	if err != nil {
		return Ended{}, err
	}
	wanted := "r"
	if e.Sell {
		wanted = "s"
	}
	c := &call{args: [callerArgs]any{e.ID, wanted + e.Owner, "", newRequest()}}
	if e.Once.Key != "" {
		c.once, c.args[2] = p.once(e.Once.Name()), e.Once.Body[:]
	}
	if err := join(ctx, p.ends, c); err != nil {
		return Ended{}, err
	}
	return rs.ended(e.Sale, e.ID, readEnd(c))
}

// endAnswer is a caller's answer from lua/reservation_end.lua.
type endAnswer struct {
	status      int64
	reservation string
	orderWaits  bool // it is not on record yet
}

// readEnd reads a caller's answer in the order of the script's RETURNS.
func readEnd(c *call) endAnswer {
	return endAnswer{c.status, redisdb.TextAt(c.answer, 1), redisdb.NumberAt(c.answer, 2) == 1}
}

// ended turns the script's answer into the method's.
func (rs *reservations) ended(sale, id string, answer endAnswer) (Ended, error) {
	if err := rs.usable(sale, answer.status); err != nil {
		return Ended{}, err
	}
	switch answer.status {
	case answerReused:
		return Ended{}, api.IdempotencyReused()
	case endUnknown:
		return Ended{}, ErrNoReservation(id)
	case answerDone, answerReplayed, endNotHeld:
	default:
		return Ended{}, unexpected(rs.scripts.end, answer)
	}
	r, err := parseStored(id, answer.reservation)
	if err != nil {
		return Ended{}, err
	}
	out := Ended{Reservation: r.api(0), Replayed: answer.status == answerReplayed}
	if answer.status == endNotHeld {
		return out, api.Errorf(api.CodeNotHeld, "the reservation is %s", out.Reservation.State).With("state", out.Reservation.State)
	}
	if r.state == 's' && answer.orderWaits {
		order := r.order(sale)
		out.Order = &order
	}
	return out, nil
}
