package sales

import (
	"context"
	"errors"
	"fmt"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/stock"
)

// Put makes or changes a sale. SQL has the change before Put returns. If SQL is away, the error is
// CodeUnknownOutcome, and a sweep completes the change. CodeVersionMismatch contains the present
// version and sale.
func (s *Store) Put(ctx context.Context, sale string, r *api.SaleRequest, m stock.Match) (*api.Sale, bool, error) {
	defer s.cache.drop(sale)
	for {
		change, err := s.put(ctx, stock.PutSale{Sale: sale, Request: r, Match: m})
		if err != nil {
			return nil, false, err
		}
		err = s.recordSale(ctx, change.Record)
		if errors.Is(err, stock.ErrAbsent) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, false, err
		}
		return change.Sale, change.Created, nil
	}
}

// put changes a live sale, or makes one that is neither live nor on record. The error is
// CodeIDUsed if a deleted sale had the id and reservations.
func (s *Store) put(ctx context.Context, p stock.PutSale) (change stock.Change, err error) {
	try := func() error {
		change, err = s.live.Put(ctx, p)
		return err
	}
	// A sale that is on record must not be made anew, so the record is asked in any case.
	err = s.restoring(ctx, p.Sale, try, func(_ string, err error) bool { return needsRestore(err) })
	if !errors.Is(err, stock.ErrAbsent) {
		return change, err
	}
	deleted, err := s.rec.DeletedSale(ctx, p.Sale)
	switch {
	case err != nil:
		return change, err
	case deleted != nil && deleted.Used:
		return change, api.Errorf(api.CodeIDUsed, "a sale with this id was deleted, and it had reservations")
	case deleted != nil:
		p.After = deleted.Deletion
	}
	p.New = true
	return change, s.with(ctx, p.Sale, try)
}

// Restocked is the result of AddStock.
type Restocked struct {
	Item     api.SaleItem
	Version  int64
	Replayed bool
}

// AddStock adds to the total of a sku, or takes from it. Errors are those of Put,
// and CodeBounds.
func (s *Store) AddStock(ctx context.Context, sale string, r *api.StockRequest, m stock.Match, i api.Idempotency) (Restocked, error) {
	defer s.cache.drop(sale)
	var item api.SaleItem
	var change stock.Change
	add := stock.AddStock{Sale: sale, Request: r, Match: m, Once: i, Call: stock.NewCall()}
	err := s.with(ctx, sale, func() (err error) {
		item, change, err = s.live.Restock(ctx, add)
		return err
	})
	if err != nil {
		return Restocked{}, err
	}
	if err := s.recordSale(ctx, change.Record); err != nil {
		return Restocked{}, err
	}
	return Restocked{Item: item, Version: change.Version, Replayed: change.Replayed}, nil
}

// recordSale writes settings into SQL and then clears the outbox. The change has been made in
// Redis, so an error of SQL leaves the outcome unknown. ErrAbsent: the sale was deleted.
func (s *Store) recordSale(ctx context.Context, settings stock.Settings) error {
	restocks, err := s.putOnRecord(ctx, settings)
	if errors.Is(err, stock.ErrAbsent) {
		return stock.ErrAbsent
	}
	if err != nil {
		return api.Errorf(api.CodeUnknownOutcome, "the sale was changed, but the database did not confirm it yet").Because(err)
	}
	if err := s.live.SettingsRecorded(ctx, settings.ID, settings.Version, restocks...); err != nil {
		s.o.Logger.DebugContext(ctx, "the outbox of a sale stays open for a sweep", "sale", settings.ID, "error", err)
	}
	return nil
}

// putOnRecord writes settings into SQL, and in the same transaction the changes of stock that led
// to them. If SQL refuses them, because another Redis has loaded the sale since, they are taken
// back. ErrAbsent: the sale was deleted, and has left Redis.
func (s *Store) putOnRecord(ctx context.Context, settings stock.Settings) ([]stock.Restocked, error) {
	restocks, err := s.live.UnrecordedRestocks(ctx, settings.ID, settings.Version)
	if err == nil {
		err = s.rec.PutSale(ctx, settingsRow(settings), restockRows(restocks)...)
	}
	if errors.Is(err, record.ErrFenced) {
		err = errors.Join(err, s.live.Disown(ctx, settings, restocks))
	}
	if errors.Is(err, record.ErrDeleted) {
		if err = s.live.FinishDelete(ctx, settings.ID, settings.Loading); err == nil {
			return nil, stock.ErrAbsent
		}
	}
	if err != nil {
		return nil, fmt.Errorf("record sale %s: %w", settings.ID, err)
	}
	return restocks, nil
}

// finishSettings writes settings into SQL that a process changed in Redis and did not record.
func (s *Store) finishSettings(ctx context.Context, sale string) error {
	settings, open, err := s.live.UnrecordedSettings(ctx, sale)
	if err != nil || !open {
		return err
	}
	restocks, err := s.putOnRecord(ctx, settings)
	if errors.Is(err, stock.ErrAbsent) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.live.SettingsRecorded(ctx, sale, settings.Version, restocks...)
}

// Sale reads a sale, from memory if that is at most 100 ms old.
func (s *Store) Sale(ctx context.Context, sale string) (*api.Sale, error) {
	return s.cache.sale(ctx, sale, s.read)
}

// read reads a sale from Redis.
func (s *Store) read(ctx context.Context, sale string) (present *api.Sale, err error) {
	err = s.with(ctx, sale, func() error {
		present, err = s.live.Sale(ctx, sale)
		return err
	})
	return present, err
}
