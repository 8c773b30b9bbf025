package sales

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
)

const (
	// restoreLease ends the right to restore a sale of a process that died.
	restoreLease = 3 * time.Second
	// restorePoll is how often a process asks whether another has finished.
	restorePoll = 20 * time.Millisecond
	// loadingPoll is how often a confirmation or an extension is tried while a sale is restored.
	loadingPoll = 100 * time.Millisecond
	// stalePatience is how long the sweeper waits for the end of a load that it has begun. The load goes on.
	stalePatience = time.Minute
	// restorePage is how many orders one query reads.
	restorePage = 500
)

// restorations are those that are under way in this process, by sale.
type restorations struct {
	mu       sync.Mutex
	underWay map[string]*restoration
}

// restoration is one try to restore a sale.
type restoration struct {
	over chan struct{} // closed at its end
	err  error         // set before
}

// begin starts to restore a sale, unless that is under way. It returns nil if that many others are.
func (r *restorations) begin(sale string, most int, restore func() error) *restoration {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.underWay[sale]
	if k != nil || len(r.underWay) >= most {
		return k
	}
	k = &restoration{over: make(chan struct{})}
	if r.underWay == nil {
		r.underWay = map[string]*restoration{}
	}
	r.underWay[sale] = k
	go func() {
		k.err = restore()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.underWay, sale)
		close(k.over)
	}()
	return k
}

// isUnderWay reports whether a sale is being restored.
func (r *restorations) isUnderWay(sale string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.underWay[sale] != nil
}

// restore brings a sale back from the record, if Redis lost it, or if it must be compared with
// the record after a fail-over. One process does it; the others wait as long as their callers
// do. Nil means: try again.
func (s *Store) restore(ctx context.Context, sale string) error {
	return s.beginRestore(ctx, sale).wait(ctx)
}

// beginRestore is restore without the wait. A million orders take about a minute. Each page of them has the
// deadlines of SQL and Redis; all together have none, because a try that fails begins again at the first order. It
// returns nil if too many sales are being restored, of which some may be made-up names.
func (s *Store) beginRestore(ctx context.Context, sale string) *restoration {
	return s.restores.begin(sale, s.o.MaxInFlight, func() error {
		err := s.restoreOnce(context.WithoutCancel(ctx), sale)
		if err != nil && !errors.Is(err, stock.ErrAbsent) {
			s.o.OnRestore("failed")
		}
		return err
	})
}

func (k *restoration) wait(ctx context.Context) error {
	if k == nil {
		return errWaiting()
	}
	select {
	case <-k.over:
		return k.err
	case <-ctx.Done():
		return errRestoring().Because(ctx.Err())
	}
}

func errRestoring() *api.Error {
	return api.Errorf(api.CodeUnavailable, "the sale is being read from the record")
}

// restoreOnce restores a sale, or waits until another process has done so.
func (s *Store) restoreOnce(ctx context.Context, sale string) error {
	asked := s.cache.now()
	if err := s.putMissing(ctx, sale); err != nil {
		if errors.Is(err, stock.ErrAbsent) {
			s.cache.putAbsent(sale, asked)
		}
		return err
	}
	for {
		err := s.alone(ctx, sale, func(ctx context.Context) error { return s.reload(ctx, sale) })
		if errors.Is(err, stock.ErrLoading) { // by another process
			if _, err = s.live.Sale(ctx, sale); needsRestore(err) {
				continue
			}
		}
		if needsRestore(err) {
			return nil // the sale changed in the meantime: the caller tries again
		}
		return err
	}
}

// alone runs f in one process at a time: with the right to restore or delete a sale. If another
// process has the right, it waits a moment and returns stock.ErrLoading.
func (s *Store) alone(ctx context.Context, sale string, f func(context.Context) error) error {
	answer, err := s.locker.TryAcquire(ctx, sale)
	if err != nil {
		return err
	}
	if answer.Status != lock.Acquired {
		redisdb.Sleep(ctx, restorePoll)
		return stock.ErrLoading
	}
	held, stop := answer.Lease.Keep(ctx)
	err = f(held)
	stop()
	if _, e := answer.Lease.Release(ctx); e != nil {
		s.o.Logger.WarnContext(ctx, "the lease for restoring a sale stays till its end", "sale", sale, "error", e)
	}
	return err
}

// putMissing puts a sale on record that only Redis has, because SQL was away when the sale was
// made. It returns ErrAbsent if Redis does not have the sale either, or has it because a deletion was
// lost.
func (s *Store) putMissing(ctx context.Context, sale string) error {
	row, err := s.rec.Sale(ctx, sale)
	if err != nil {
		return fmt.Errorf("read sale %s: %w", sale, err)
	}
	if row != nil {
		return nil
	}
	live, err := s.live.Settings(ctx, sale)
	if err != nil {
		return err
	}
	_, err = s.putOnRecord(ctx, live)
	return err
}

// reload loads a sale and opens it, unless another process has just done so. If the sale cannot
// be read from Redis, it stays as it is. From the moment at which the settings are read from the
// record, SQL takes no changes from a Redis that has the sale by an earlier load.
func (s *Store) reload(ctx context.Context, sale string) error {
	_, was := s.live.Sale(ctx, sale)
	if !needsRestore(was) {
		return was
	}
	after, err := s.removeEarlier(ctx, sale)
	if err != nil {
		return err
	}
	row, err := s.rec.LoadSale(ctx, sale, stock.NewLoading(after))
	if err != nil {
		return fmt.Errorf("read sale %s: %w", sale, err)
	}
	if row == nil {
		return stock.ErrAbsent
	}
	settings := settingsOf(row)
	orders, err := s.load(ctx, settings)
	if err != nil {
		return err
	}
	if orders > 0 || errors.Is(was, stock.ErrAbsent) {
		s.o.Logger.WarnContext(ctx, "Redis had lost a sale or orders of it", "sale", sale, "orders", orders)
	}
	s.cache.drop(sale)
	if err := s.live.Open(ctx, sale, settings.Loading); err != nil {
		return err
	}
	s.o.OnRestore("done")
	return nil
}

// removeEarlier removes what Redis still has of an earlier sale with the same id, because it lost the
// deletion. It returns the deletion's name; "": no sale with this id was deleted.
func (s *Store) removeEarlier(ctx context.Context, sale string) (string, error) {
	deleted, err := s.rec.DeletedSale(ctx, sale)
	if err != nil || deleted == nil {
		return "", err
	}
	present, err := s.live.Settings(ctx, sale)
	if err == nil && !strings.HasPrefix(present.Loading, deleted.Deletion) {
		err = s.live.FinishDelete(ctx, sale, present.Loading)
	}
	if errors.Is(err, stock.ErrAbsent) {
		err = nil
	}
	return deleted.Deletion, err
}

// load puts settings, changes of stock and all orders back, and returns how many orders Redis did not have; opening
// follows. Each step may be repeated, so a process may die at any point.
func (s *Store) load(ctx context.Context, settings stock.Settings) (orders int, err error) {
	s.o.Logger.InfoContext(ctx, "a sale is brought in line with the record", "sale", settings.ID)
	if err := s.live.Load(ctx, settings); err != nil {
		return 0, fmt.Errorf("load sale %s: %w", settings.ID, err)
	}
	if err := s.loadRestocks(ctx, settings); err != nil {
		return 0, err
	}
	return s.restoreOrders(ctx, settings.ID, 0)
}

// restoreOrders reads the orders that were sold since a time in milliseconds from the record, and
// makes their reservations sold. It returns how many were not.
func (s *Store) restoreOrders(ctx context.Context, sale string, since int64) (restored int, err error) {
	for after := (record.Order{CreatedAt: since}); ; {
		page, err := s.rec.Orders(ctx, sale, after, restorePage)
		if err != nil {
			return restored, fmt.Errorf("read orders of sale %s: %w", sale, err)
		}
		n, err := s.live.RestoreOrders(ctx, sale, ordersOf(page))
		if restored += n; err != nil {
			return restored, fmt.Errorf("restore orders of sale %s: %w", sale, err)
		}
		if len(page) < restorePage {
			return restored, nil
		}
		after = page[len(page)-1]
	}
}

// loadRestocks puts the changes of stock back that led to the settings on record, so that a
// repeat of one gets its first answer.
func (s *Store) loadRestocks(ctx context.Context, settings stock.Settings) error {
	for after := ""; ; {
		page, err := s.rec.Restocks(ctx, settings.ID, settings.Version, after, restorePage)
		if err != nil {
			return fmt.Errorf("read restocks of sale %s: %w", settings.ID, err)
		}
		if err := s.live.RestoreRestocks(ctx, settings.ID, restocksOf(page)); err != nil {
			return fmt.Errorf("restore restocks of sale %s: %w", settings.ID, err)
		}
		if len(page) < restorePage {
			return nil
		}
		after = page[len(page)-1].Name
	}
}

// onStale restores a sale that the sweeper cannot work on, so that its holds end even if there are
// no calls. The partitions of a sale find that one after the other: only the first waits for the end, and the sweeper can work
// on other sales.
func (s *Store) onStale(ctx context.Context, sale string) {
	if s.restores.isUnderWay(sale) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, stalePatience)
	defer cancel()
	if _, err := s.read(ctx, sale); err != nil && !errors.Is(err, stock.ErrAbsent) {
		s.o.Logger.WarnContext(ctx, "a sale waits to be brought in line with the record", "sale", sale, "error", err)
	}
}
