package sales

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/batch"
	"fanfare/store/lock"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/stock"
)

// Options tunes a Store; the zero value works.
type Options struct {
	// NoLocal switches answers from memory off (FANFARE_SALE_LOCAL=off).
	NoLocal bool
	// MaxInFlight bounds the reservations that are under way at once in this
	// process; default 1024. More are refused at once. As many may wait besides until their
	// sales are restored.
	MaxInFlight int
	// MinReplicas is how many replicas must have a change before the caller gets the answer;
	// default 0. The embedded Redis has none.
	MinReplicas int
	// OnReserve is called with the outcome of each try to reserve: "reserved", "replayed",
	// a refusal's code, or "sold_out_local" for a refusal from memory. Default: nothing.
	OnReserve func(outcome string)
	// OnRestore is called after each try to restore a sale from the record, with "done" or
	// "failed". A failed restore is repeated. Default: nothing.
	OnRestore func(outcome string)
	// SweepAge is how old a waiting order must be before the sweeper assumes that its job
	// was never enqueued; default 1 s.
	SweepAge time.Duration
	// Facts are how facts about sales are told; default: none are.
	Facts stock.Facts
	// Logger receives failures, all of which are retried; nil: discarded.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.MaxInFlight = cmp.Or(o.MaxInFlight, api.DefaultSaleRun)
	if o.OnReserve == nil {
		o.OnReserve = func(string) {}
	}
	if o.OnRestore == nil {
		o.OnRestore = func(string) {}
	}
	o.SweepAge = cmp.Or(o.SweepAge, time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// Store has all sales: the live stock and the record. It is safe for concurrent use.
type Store struct {
	db   *redisdb.DB
	live *stock.Live
	rec  *record.DB
	jobs *queue.Queue
	o    Options

	restores restorations
	locker   *lock.Locker

	cache    *cache
	limiter  userLimiter
	inFlight atomic.Int64 // reservations under way
	waiting  atomic.Int64 // reservations that wait until their sale is restored
	hub      hub

	relay  chan stock.Order
	orders *batch.Group[record.Order, struct{}]
	swept  sweptOrders
}

// New makes a store: the live stock in db, the record in rec, orders written by jobs. It starts
// nothing: the caller runs Run and Sweep, and handles jobs with Jobs.
func New(db *redisdb.DB, rec *record.DB, jobs *queue.Queue, o Options) *Store {
	o = o.withDefaults()
	s := &Store{db: db, rec: rec, jobs: jobs, o: o, relay: make(chan stock.Order, relayLength), limiter: userLimiter{began: time.Now()}}
	s.cache = newCache(!o.NoLocal)
	s.locker = lock.New(db, lock.Options{Name: restoreLock, Lease: restoreLease, Retention: time.Minute, MaxAttempts: 1 << 30})
	options := stock.Options{Logger: o.Logger, MinReplicas: o.MinReplicas, OnSwept: s.onSwept, OnStale: s.onStale, Facts: o.Facts}
	options.OnCompare = func(ctx context.Context, sale string, since int64) error {
		_, err := s.restoreOrders(ctx, sale, since)
		return err
	}
	if !db.Embedded() { // an embedded Redis has only one run
		options.RunID = stock.ServerRunID
	}
	s.live = stock.New(db, options)
	s.orders = newOrderWriter(s.writeOrders)
	return s
}

// Run enqueues orders and forgets cached sales that changed, until ctx ends. Every process with
// sales runs it.
func (s *Store) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { s.relayOrders(ctx); return nil })
	g.Go(func() error { s.listen(ctx); return nil })
	return g.Wait()
}

// Sweep returns due holds and finishes work that crashes left undone, until ctx ends. One process
// that runs it is enough; any number may.
func (s *Store) Sweep(ctx context.Context) error { return s.live.Run(ctx) }

// with runs f on the live stock of a sale. If Redis lost the sale or was failed over, the sale is
// first restored from the record. If the record did not have it a moment ago, it is not asked again.
func (s *Store) with(ctx context.Context, sale string, f func() error) error {
	return s.restoring(ctx, sale, f, s.lost)
}

// restoring runs f, and restores the sale from the record as long as lost says so.
func (s *Store) restoring(ctx context.Context, sale string, f func() error, lost func(sale string, err error) bool) error {
	for {
		err := f()
		if !lost(sale, err) {
			return err
		}
		if err := s.restore(ctx, sale); err != nil {
			return err
		}
	}
}

// whileLoading is with for calls that mostly go through while the sale is read from the record: it does not
// wait for the end of that before it tries again.
func (s *Store) whileLoading(ctx context.Context, sale string, f func() error) error {
	for {
		err := f()
		if !s.lost(sale, err) {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, loadingPoll)
		err = s.restore(wait, sale)
		over := wait.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && !over {
			return err
		}
	}
}

// lost reports whether an error of a sale means that it must be restored, as far as it is not known that the
// record does not have it.
func (s *Store) lost(sale string, err error) bool {
	return needsRestore(err) && (!errors.Is(err, stock.ErrAbsent) || !s.cache.isAbsent(sale))
}

// needsRestore reports whether an error means that the sale must be restored. An unknown outcome
// does not: the change was made before the error, and must not be repeated.
func needsRestore(err error) bool {
	shut := errors.Is(err, stock.ErrAbsent) || errors.Is(err, stock.ErrLoading) || errors.Is(err, stock.ErrStaleRun)
	return shut && api.CodeOf(err) != api.CodeUnknownOutcome
}

// Stats tells how many orders are not on record yet, and other figures of live sales.
func (s *Store) Stats(ctx context.Context) (api.SalesStats, error) {
	f, err := s.live.Figures(ctx)
	if err != nil {
		return api.SalesStats{}, fmt.Errorf("list sales: %w", err)
	}
	return api.SalesStats{WaitingOrders: f.Waiting, LagMS: f.Oldest.Milliseconds(), Oversold: f.Oversold, UnreadSales: f.Unread, Open: f.Open}, nil
}
