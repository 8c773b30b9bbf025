package sales

import (
	"context"
	"errors"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/stock"
)

// cancelTime bounds the opening of a sale that could not be deleted.
const cancelTime = time.Second

// Delete deletes a sale that has not begun, or has ended. A sale that does not exist is deleted
// already. Errors are CodeVersionMismatch with the present sale, CodeSaleOpen while the sale sells,
// and CodeOwed while a hold lives or an order is not on record. Orders stay on record.
//
// The sale is closed in Redis, deleted in SQL, and then removed from Redis. If the process dies, the
// next call or sweep opens the sale again or removes it, as SQL says.
func (s *Store) Delete(ctx context.Context, sale string, m stock.Match) error {
	defer s.cache.drop(sale)
	err := s.with(ctx, sale, func() error {
		if err := s.putMissing(ctx, sale); err != nil {
			return err
		}
		return s.alone(ctx, sale, func(ctx context.Context) error { return s.delete(ctx, sale, m) })
	})
	if errors.Is(err, stock.ErrAbsent) {
		return stock.OfNone(m)
	}
	return err
}

// delete deletes a sale that is on record. The caller has the right to restore it.
func (s *Store) delete(ctx context.Context, sale string, m stock.Match) error {
	d, err := s.live.BeginDelete(ctx, sale, m)
	if err != nil {
		return err
	}
	err = s.rec.DeleteSale(ctx, record.DeletedSale{ID: sale, Deletion: d.Name, Used: d.Used}, d.Loading)
	switch {
	case err == nil:
		if err := s.live.FinishDelete(ctx, sale, d.Loading); err != nil {
			s.o.Logger.DebugContext(ctx, "a deleted sale stays closed in Redis until it is asked for", "sale", sale, "error", err)
		}
		return nil
	case errors.Is(err, record.ErrFenced):
		return stock.ErrStaleRun // another Redis has read it from SQL
	case api.CodeOf(err) == api.CodeUnknownOutcome:
		return err // it stays closed until SQL says whether it is deleted
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if e := s.live.CancelDelete(ctx, d); e != nil {
		s.o.Logger.DebugContext(ctx, "a sale stays closed until it is read from the record", "sale", sale, "error", e)
	}
	return err
}
