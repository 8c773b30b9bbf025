package sales

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fanfare/store/record"
	"fanfare/store/stock"
)

// Erase releases the holds that a user had when an operation began, in all live sales, and forgets
// the user's ended reservations. Sold reservations stay. busy says that a sale cannot be worked on
// before it was compared with the record, or that an order is not on record yet: a fact will tell of it.
func (s *Store) Erase(ctx context.Context, o *record.Operation) (e stock.Erased, busy bool, err error) {
	sales, err := s.live.LiveSales(ctx)
	if err != nil {
		return e, true, fmt.Errorf("list sales: %w", err)
	}
	for sale := range sales {
		more, err := s.live.EraseUser(ctx, sale, o.Subject, o.Since)
		switch {
		case errors.Is(err, stock.ErrLoading), errors.Is(err, stock.ErrStaleRun):
			busy = true
		case err != nil:
			return e, true, fmt.Errorf("erase reservations: %w", err)
		}
		busy = busy || more.Waiting > 0
		if more.Released+more.Forgotten > 0 {
			s.cache.dropState(sale)
		}
		e.Released, e.Forgotten, e.Sold = e.Released+more.Released, e.Forgotten+more.Forgotten, e.Sold+more.Sold
	}
	return e, busy, nil
}

// EraseRecords deletes, among keys of Redis, the idempotency records of calls for reservations that
// a user had made when an operation began, and counts them.
func (s *Store) EraseRecords(ctx context.Context, o *record.Operation, keys []string) (n int64, err error) {
	records := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return !stock.IsRecord(key) })
	return s.db.DeleteIfValues(ctx, records, func(value string) bool { return stock.RecordOf(value, o.Subject, o.Since) })
}
