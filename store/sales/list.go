package sales

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/stock"
)

// listedAtOnce is how many sales of a page are read from Redis at the same time.
const listedAtOnce = 16

// List lists the sales on record by id, at most limit of them, beginning after an id ("" for the
// first page). A sale that was deleted meanwhile has no state. Redis is asked only for the sales
// that may sell now, so that nobody who lists old sales brings them back into it.
func (s *Store) List(ctx context.Context, after string, limit int) ([]api.ListedSale, error) {
	rows, err := s.rec.Sales(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	list := make([]api.ListedSale, len(rows))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listedAtOnce)
	for i := range rows {
		g.Go(func() (err error) {
			r := &rows[i]
			list[i] = api.ListedSale{ID: r.ID, StartsAt: api.AtMillis(r.StartsAt), EndsAt: api.AtMillis(r.EndsAt), Version: r.Version}
			list[i].State, err = s.stateOf(ctx, r)
			return err
		})
	}
	return list, g.Wait()
}

// stateOf gives a sale's state, "" if the sale is not there any more.
func (s *Store) stateOf(ctx context.Context, row *record.Sale) (api.SaleState, error) {
	now, err := s.live.Now(ctx, row.ID)
	switch {
	case err != nil:
		return "", err
	case now < row.StartsAt:
		return api.SaleUpcoming, nil
	case now >= row.EndsAt:
		return api.SaleEnded, nil
	}
	present, err := s.Sale(ctx, row.ID)
	if api.CodeOf(err) == api.CodeSaleNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return present.State, nil
}

// listPlace is a place in the list of all reservations of a sale. The orders on record come last: their
// reservations move there from Redis, so that none is left out.
type listPlace struct {
	onRecord bool
	live     stock.ListAt
	order    record.Order
}

// The forms of the text of a place.
const (
	placeLive     = "live %d %d %s"
	placeOnRecord = "record %d %s"
)

func (p listPlace) String() string {
	if p.onRecord {
		return fmt.Sprintf(placeOnRecord, p.order.CreatedAt, p.order.Reservation)
	}
	return fmt.Sprintf(placeLive, p.live.Set, p.live.Score, p.live.ID)
}

// parsePlace reads a place; "" is the beginning of the list.
func parsePlace(text string) (p listPlace, ok bool) {
	if text == "" {
		return p, true
	}
	if n, _ := fmt.Sscanf(text, placeLive, &p.live.Set, &p.live.Score, &p.live.ID); n == 3 {
		return p, p.live.Set >= 0 && p.live.Score >= 0 && api.ValidIdentifier(p.live.ID)
	}
	n, _ := fmt.Sscanf(text, placeOnRecord, &p.order.CreatedAt, &p.order.Reservation)
	p.onRecord = true
	return p, n == 2 && api.ValidIdentifier(p.order.Reservation)
}

// EveryReservation lists the reservations of all users of a sale in one state ("" for any), beginning
// at a cursor that an earlier call gave as next ("" for the first page). Those that are not sold come
// first. A page has at most limit of them, and fewer if others were read that are in another state. A
// reservation that changes between two pages may come again; which may be left out, stock.Live.EveryReservation says.
func (s *Store) EveryReservation(ctx context.Context, sale string, state api.ReservationState, cursor string, limit int) (items []api.Reservation, next string, err error) {
	at, ok := parsePlace(cursor)
	if !ok {
		return nil, "", api.Invalid("cursor", "cursor", "is not one that this list gave")
	}
	goesOn := true
	if at.onRecord {
		_, err = s.Sale(ctx, sale)
	} else {
		items, goesOn, err = s.unrecorded(ctx, sale, state, &at, limit)
	}
	if err == nil && at.onRecord {
		items, goesOn, err = s.addRecorded(ctx, sale, items, &at, limit)
	}
	if err != nil {
		return nil, "", err
	}
	if goesOn {
		next = at.String()
	}
	return slices.DeleteFunc(items, func(r api.Reservation) bool { return state != "" && r.State != state }), next, nil
}

// unrecorded reads the reservations from a place on that are not on record as orders, and moves the place
// behind them.
func (s *Store) unrecorded(ctx context.Context, sale string, state api.ReservationState, at *listPlace, limit int) (items []api.Reservation, goesOn bool, err error) {
	sold := state == api.ReservationSold
	unsold := state != "" && !sold
	var next *stock.ListAt
	err = s.with(ctx, sale, func() error {
		items, next, err = s.live.EveryReservation(ctx, sale, at.live, sold, unsold, limit)
		return err
	})
	if next != nil {
		at.live = *next
		return items, true, err
	}
	at.onRecord = !unsold
	return items, at.onRecord, err
}

// addRecorded adds the reservations of the orders on record from a place on.
func (s *Store) addRecorded(ctx context.Context, sale string, items []api.Reservation, at *listPlace, limit int) ([]api.Reservation, bool, error) {
	live, room := items, limit-len(items)
	orders, err := s.rec.Orders(ctx, sale, at.order, room+1)
	for _, o := range orders[:min(room, len(orders))] {
		at.order = o
		if !slices.ContainsFunc(live, func(r api.Reservation) bool { return r.ID == o.Reservation }) { // it went on record meanwhile
			items = append(items, api.Reservation{ID: o.Reservation, User: o.User, Lines: o.Lines, State: api.ReservationSold})
		}
	}
	return items, len(orders) > room, err
}
