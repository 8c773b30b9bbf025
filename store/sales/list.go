package sales

import (
	"context"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/record"
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
