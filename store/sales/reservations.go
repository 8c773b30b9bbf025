package sales

import (
	"context"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/stock"
)

// Reserve takes units for a user: all lines or none. Refusals come in the order of the contract;
// CodeRateLimited and CodeOverloaded come before Redis is asked. Without an idempotency key, a
// sale that was sold out a moment ago is refused from memory.
func (s *Store) Reserve(ctx context.Context, sale string, r *api.ReservationRequest, i api.Idempotency) (*api.Reservation, bool, error) {
	if err := s.limiter.allow(sale, r.User); err != nil {
		s.o.OnReserve(string(api.CodeRateLimited))
		return nil, false, err
	}
	if i.Key == "" {
		if err := s.cache.soldOut(sale, r.Lines); err != nil {
			s.o.OnReserve("sold_out_local")
			return nil, false, err
		}
	}
	i.Scope += " " + r.User // equal keys of two users are two keys
	reserved, err := s.reserve(ctx, stock.ReserveStock{Sale: sale, Request: r, Once: i, Call: stock.NewCall()})
	s.o.OnReserve(outcome(err, reserved.Replayed))
	if err != nil {
		return nil, false, err
	}
	return &reserved.Reservation, reserved.Replayed, nil
}

func (s *Store) reserve(ctx context.Context, r stock.ReserveStock) (reserved stock.Reserved, err error) {
	if err := s.db.Overloaded(); err != nil {
		return reserved, err
	}
	var asked time.Duration
	for {
		err = s.inPlace(&s.inFlight, errBusy, func() error {
			asked = s.cache.now()
			reserved, err = s.live.Reserve(ctx, r)
			return err
		})
		if !s.lost(r.Sale, err) {
			break
		}
		restored := s.beginRestore(ctx, r.Sale)
		err = s.inPlace(&s.waiting, errWaiting, func() error { return restored.wait(ctx) })
		if err != nil {
			break
		}
	}
	switch {
	case err == nil && !reserved.Replayed:
		s.cache.dropState(r.Sale)
		s.order(ctx, reserved.Order)
	case api.CodeOf(err) == api.CodeSoldOut && reserved.SoldOut != nil:
		s.cache.putRefusal(r.Sale, reserved.SoldOut, err, asked)
	}
	return reserved, err
}

func outcome(err error, replayed bool) string {
	switch {
	case err != nil:
		return string(api.CodeOf(err))
	case replayed:
		return "replayed"
	}
	return "reserved"
}

// inPlace runs f as one of the reservations that are counted in taken, and refuses at once when there are too many.
// A reservation that waits for its sale counts apart from those under way, so that it takes no place of another sale.
func (s *Store) inPlace(taken *atomic.Int64, refusal func() error, f func() error) error {
	defer taken.Add(-1)
	if taken.Add(1) > int64(s.o.MaxInFlight) {
		return refusal()
	}
	return f()
}

// End sells what a reservation holds, or gives it back. Ending it again the same way gives
// the same answer. CodeNotHeld, with the state, means that it has expired or was ended the
// other way. The row of an order in SQL follows by itself.
func (s *Store) End(ctx context.Context, e stock.EndHold) (*api.Reservation, bool, error) {
	var ended stock.Ended
	err := s.whileLoading(ctx, e.Sale, func() (err error) {
		ended, err = s.live.End(ctx, e)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	s.cache.drop(e.Sale)
	s.order(ctx, ended.Order)
	return &ended.Reservation, ended.Replayed, nil
}

// Extend moves the end of a hold, as stock.Live.Extend does.
func (s *Store) Extend(ctx context.Context, e stock.ExtendHold) (*api.Reservation, bool, error) {
	var extended stock.Ended
	err := s.whileLoading(ctx, e.Sale, func() (err error) {
		extended, err = s.live.Extend(ctx, e)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return &extended.Reservation, extended.Replayed, nil
}

// order hands an order to the relay.
func (s *Store) order(ctx context.Context, o *stock.Order) {
	if o == nil {
		return
	}
	select {
	case s.relay <- *o:
	default: // the sweeper finds it
		s.o.Logger.DebugContext(ctx, "the relay of orders is full", "sale", o.Sale)
	}
}

// Reservation reads a reservation; CodeNotFound when the sale has none of that id.
func (s *Store) Reservation(ctx context.Context, sale, id string) (r *api.Reservation, err error) {
	err = s.with(ctx, sale, func() error {
		r, err = s.live.Reservation(ctx, sale, id)
		return err
	})
	return r, err
}

// Reservations lists a user's reservations, newest first, at most limit of them,
// beginning at a cursor that an earlier call gave as next ("" for the first page).
func (s *Store) Reservations(ctx context.Context, sale, user, cursor string, limit int) (items []api.Reservation, next string, err error) {
	err = s.with(ctx, sale, func() error {
		items, next, err = s.live.Reservations(ctx, sale, user, cursor, limit)
		return err
	})
	return items, next, err
}

// errBusy refuses a reservation because too many are under way.
func errBusy() error {
	e := api.Errorf(api.CodeOverloaded, "more reservations are under way than this server takes at once; try again")
	e.RetryAfter = time.Second
	return e
}

// errWaiting refuses a reservation because too many wait already until their sales are restored.
func errWaiting() error {
	e := errRestoring()
	e.RetryAfter = time.Second
	return e
}
