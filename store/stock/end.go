package stock

import (
	"context"
	"strconv"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Ended is the answer to a confirmation, a release or an extension.
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
	return rs.change(ctx, p, e.ID, wanted+e.Owner, e.Once)
}

// ExtendHold asks to extend the hold of a reservation.
type ExtendHold struct {
	Sale, ID string
	// HoldMS is how long the hold shall last from now.
	HoldMS int64
	Once   api.Idempotency
}

// Extend moves the end of a hold, in one round trip: to HoldMS from now, but not beyond the sale's
// MaxHoldMS from the making of the reservation, and never to an earlier time. The answer has the end.
// If the reservation is not held any more, the error is not_held, with its state.
func (rs *reservations) Extend(ctx context.Context, e ExtendHold) (Ended, error) {
	p, err := rs.partitionByID(ctx, e.Sale, e.ID)
	if err != nil {
		return Ended{}, err
	}
	return rs.change(ctx, p, e.ID, "h"+strconv.FormatInt(e.HoldMS, 10), e.Once)
}

// change ends a hold or extends it. wanted is what lua/reservation_end.lua takes.
func (rs *reservations) change(ctx context.Context, p *partition, id, wanted string, once api.Idempotency) (Ended, error) {
	c := &call{args: [callerArgs]any{id, wanted, "", newRequest()}, provisional: endUnknown}
	if once.Key != "" {
		c.once, c.args[2] = p.once(once.Name()), once.Body[:]
	}
	if err := join(ctx, p.ends, c); err != nil {
		return Ended{}, err
	}
	return rs.ended(p.sale, id, readEnd(c))
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
		out.Order = new(r.order(sale))
	}
	return out, nil
}
