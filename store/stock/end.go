package stock

import (
	"context"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Ended is what a confirmation or a release answers.
type Ended struct {
	Reservation api.Reservation
	// Replayed: the same idempotency key was answered before.
	Replayed bool
	// Version is the sale's.
	Version int64
	// Order is what waits for the record (a confirmation).
	Order *Order
}

// The answers of reservation_end.lua beside the common ones.
const (
	endUnknown = 7
	endNotHeld = 8
)

// Confirm makes a hold sold, in one round trip; said again it answers the same.
// A reservation that was released or has expired is not_held, with its state.
func (l *Live) Confirm(ctx context.Context, sale, id string, once api.Idempotency) (Ended, error) {
	return l.end(ctx, sale, id, "s", once)
}

// Release gives the units of a hold back, once; said again it answers the same.
// A reservation that was sold or has expired is not_held, with its state.
func (l *Live) Release(ctx context.Context, sale, id string, once api.Idempotency) (Ended, error) {
	return l.end(ctx, sale, id, "r", once)
}

func (l *Live) end(ctx context.Context, sale, id, wanted string, once api.Idempotency) (Ended, error) {
	p, err := l.placeOf(ctx, sale, id)
	if err != nil {
		return Ended{}, err
	}
	keys := p.core(p.orders)
	if once.Key != "" {
		keys = append(keys, p.once(once.Name()))
	}
	script := l.scripts.end
	cmd := script.Cmd(ctx, keys, l.o.Run, id, wanted, once.Body[:], api.IdempotencyTTL.Milliseconds(), newRequest())
	if err := l.write(ctx, stepEnd, cmd); err != nil {
		return Ended{}, err
	}
	answer, err := reply(script, cmd)
	if err != nil {
		return Ended{}, err
	}
	return l.readEnd(sale, id, answer)
}

func (l *Live) readEnd(sale, id string, answer []any) (Ended, error) {
	status := redisdb.NumberAt(answer, 0)
	if err := l.isShut(sale, status); err != nil {
		return Ended{}, err
	}
	switch status {
	case answerReused:
		return Ended{}, api.IdempotencyReused()
	case endUnknown:
		return Ended{}, errNoReservation(id)
	case answerDone, answerReplayed, endNotHeld:
	default:
		return Ended{}, unexpected(l.scripts.end, answer)
	}
	r, err := parseStored(id, redisdb.TextAt(answer, 2))
	if err != nil {
		return Ended{}, err
	}
	out := Ended{Reservation: r.api(0), Replayed: status == answerReplayed, Version: integer(answer, 1)}
	if status == endNotHeld {
		return out, api.Errorf(api.CodeNotHeld, "the reservation is %s", out.Reservation.State).With("state", out.Reservation.State)
	}
	if r.state == 's' && redisdb.NumberAt(answer, 3) == 1 {
		order := r.order(sale)
		out.Order = &order
	}
	return out, nil
}
