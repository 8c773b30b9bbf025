// Package stock is the live stock of sales.
package stock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

var errNotYet = errors.New("not yet")

// Trip carries commands to Redis, as redisdb.DB.Share does.
type Trip func(ctx context.Context, m redisdb.Mode, cmds ...redis.Cmder) error

// LiveOptions tune a Live.
type LiveOptions struct {
	Logger     *slog.Logger
	Trip       Trip
	Run        any
	SweepEvery time.Duration
	OnSwept    func(ctx context.Context, s Swept)
	OnStale    func(ctx context.Context, sale string)
}

// Swept is what a sweep found.
type Swept struct {
	Sale          string
	Partition     int
	Orders        int64
	OldestOrderMS int64
	Settings      bool
	Oversold      bool
}

// Live is the live stock.
type Live struct{ db *redisdb.DB }

// What a call says of a sale that it cannot work on.
var (
	ErrAbsent   = api.Errorf(api.CodeSaleNotFound, "there is no such sale")
	ErrLoading  = api.Errorf(api.CodeUnavailable, "the sale is being read from the record")
	ErrStaleRun = api.Errorf(api.CodeUnavailable, "the sale is being compared with the record")
)

// NewLive makes a Live.
func NewLive(db *redisdb.DB, o LiveOptions) *Live { _ = o; return &Live{db: db} }

// Run sweeps.
func (l *Live) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Match is a condition.
type Match struct {
	Version int64
	Absent  bool
}

// PutSale is a PUT.
type PutSale struct {
	Sale    string
	Request *api.SaleRequest
	Match   Match
	New     bool
}

// Change is what came of a PUT or a restock.
type Change struct {
	Created, Changed, Replayed bool
	Sale                       *api.Sale
	Record                     record.Sale
}

// Put puts.
func (l *Live) Put(_ context.Context, _ PutSale) (Change, error) { return Change{}, errNotYet }

// Restock restocks.
func (l *Live) Restock(_ context.Context, _ string, _ *api.StockRequest, _ Match, _ api.Idempotency) (api.SaleItem, Change, error) {
	return api.SaleItem{}, Change{}, errNotYet
}

// Sale reads.
func (l *Live) Sale(_ context.Context, _ string) (*api.Sale, error) { return nil, errNotYet }

// UnrecordedSettings reads.
func (l *Live) UnrecordedSettings(_ context.Context, _ string) (record.Sale, bool, error) {
	return record.Sale{}, false, errNotYet
}

// SettingsRecorded acknowledges.
func (l *Live) SettingsRecorded(_ context.Context, _ string, _ int64) error { return errNotYet }

// ChangesChannel is where new versions are told.
func ChangesChannel(sale string) string { return "ff:{sale:" + sale + ":0}:changes" }

// ReserveStock is a reservation asked for.
type ReserveStock struct {
	Sale    string
	Request *api.ReservationRequest
	Once    api.Idempotency
}

// Reserved is the answer.
type Reserved struct {
	Reservation api.Reservation
	Replayed    bool
	Version     int64
	Order       *record.Order
	SoldOut     *SoldOut
}

// SoldOut stands beside the error sold_out.
type SoldOut struct {
	Available map[string]int64
	NextDue   time.Duration
	Version   int64
}

// Ended is the answer of confirm and release.
type Ended struct {
	Reservation api.Reservation
	Replayed    bool
	Version     int64
	Order       *record.Order
}

// Reserve reserves.
func (l *Live) Reserve(_ context.Context, _ ReserveStock) (Reserved, error) {
	return Reserved{}, errNotYet
}

// Confirm confirms.
func (l *Live) Confirm(_ context.Context, _, _ string, _ api.Idempotency) (Ended, error) {
	return Ended{}, errNotYet
}

// Release releases.
func (l *Live) Release(_ context.Context, _, _ string, _ api.Idempotency) (Ended, error) {
	return Ended{}, errNotYet
}

// Reservation reads one.
func (l *Live) Reservation(_ context.Context, _, _ string) (*api.Reservation, error) {
	return nil, errNotYet
}

// Reservations lists a user's.
func (l *Live) Reservations(_ context.Context, _, _, _ string, _ int) ([]api.Reservation, string, error) {
	return nil, "", errNotYet
}

// Ref names a partition.
type Ref struct {
	Sale      string
	Partition int
}

// WaitingOrders lists.
func (l *Live) WaitingOrders(_ context.Context, _ Ref, _ int) ([]record.Order, error) {
	return nil, errNotYet
}

// OrdersRecorded acknowledges.
func (l *Live) OrdersRecorded(_ context.Context, _ string, _ ...string) (int, error) {
	return 0, errNotYet
}

// Waiting counts the orders that are not on record, and gives the age of the oldest.
func (l *Live) Waiting(_ context.Context) (int64, time.Duration, error) { return 0, 0, errNotYet }

const answerDone, answerReplayed = 1, 2

// Partitions of a sale.
func (l *Live) Partitions(_ context.Context, _ string) (int, error) { return 0, errNotYet }

// LiveSales lists the registry: sale -> partitions.
func (l *Live) LiveSales(_ context.Context) (map[string]int, error) { return nil, errNotYet }

// Load loads.
func (l *Live) Load(_ context.Context, _ record.Sale) error { return errNotYet }

// RestoreOrders restores.
func (l *Live) RestoreOrders(_ context.Context, _ string, _ []record.Order) error { return errNotYet }

// Open opens.
func (l *Live) Open(_ context.Context, _ string) error { return errNotYet }

// Close closes.
func (l *Live) Close(_ context.Context, _ string) error { return errNotYet }

// Oversold tells.
func (l *Live) Oversold(_ context.Context, _ string) (map[string]int64, error) { return nil, errNotYet }

// Home is a user's partition.
func Home(_ string, _ int) int { return 0 }
