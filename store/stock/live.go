package stock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/redisdb"
)

// Options tunes a Live; the zero value works.
type Options struct {
	// Logger gets what the sweeper could not do; nil: silence.
	Logger *slog.Logger
	// MinReplicas is how many replicas must have a write whose success a client
	// is told (reserve, confirm, release, Put and Restock); default 0.
	MinReplicas int
	// RunID names the run of the server that has the keys: ServerRunID, or a name. A
	// partition remembers under which run it was made; with another its calls
	// fail with ErrStaleRun. "": never compared.
	RunID string
	// SweepEvery is how often Run looks for holds that are due; default 250 ms.
	SweepEvery time.Duration
	// OnSwept is called with each partition that owes something to the record.
	OnSwept func(ctx context.Context, s Swept)
	// OnStale is called with sales that must be compared with the record, or whose
	// loading somebody began and does not end.
	OnStale func(ctx context.Context, sale string)
	// OnCompare is called with sales that were read back a while ago, and a time in ms: what was
	// sold since then may have gone on record through another Redis. All three may be called at
	// once for several sales, and again.
	OnCompare func(ctx context.Context, sale string, since int64) error
}

// ServerRunID is the run of whichever server runs a script: the script asks it, so
// that nobody has to know it, nor can know it wrongly.
const ServerRunID = "*"

// Live is the live stock of sales in Redis. It is safe for concurrent use.
type Live struct {
	db        *redisdb.DB
	o         Options
	scripts   scripts
	leases    *lock.Locker
	known     sync.Map      // sale -> []*partition
	unusable  sync.Map      // prefix of a partition -> when it was first found unusable
	movers    sync.Map      // sale -> chan struct{} of length 1: who may ask for the lease
	snapshots sync.Map      // sale -> *snapshotGroup
	wake      chan struct{} // has a value when a sale was learned of

	send redisdb.Sender // carries the writes whose success a client is told
}

const (
	// moveLease ends the right to move units of a process that died.
	moveLease = 2 * time.Second
	// endlessly many attempts: the right to move units is never used up.
	endless = 1 << 30
)

// What a call says of a sale that it cannot work on.
var (
	// ErrAbsent: Redis has no keys of the sale. It may be on record.
	ErrAbsent = api.Errorf(api.CodeSaleNotFound, "there is no such sale")
	// ErrLoading: Load was called, and Open not yet.
	ErrLoading = api.Errorf(api.CodeUnavailable, "the sale is being read from the record")
	// ErrStaleRun: the keys come from another run of the server, and may lack
	// what was acknowledged; or a partition is gone.
	ErrStaleRun = api.Errorf(api.CodeUnavailable, "the sale is being compared with the record")
)

// New makes a Live. It starts nothing; Run sweeps.
func New(db *redisdb.DB, o Options) *Live {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SweepEvery <= 0 {
		o.SweepEvery = 250 * time.Millisecond
	}
	if o.OnSwept == nil {
		o.OnSwept = func(context.Context, Swept) {}
	}
	if o.OnStale == nil {
		o.OnStale = func(context.Context, string) {}
	}
	if o.OnCompare == nil {
		o.OnCompare = func(context.Context, string, int64) error { return nil }
	}
	return &Live{
		db: db, o: o, scripts: loadScripts(), send: sender(db, o.MinReplicas), wake: make(chan struct{}, 1),
		leases: lock.New(db, lock.Options{Name: moveLock, Lease: moveLease, MaxAttempts: endless, Retention: time.Minute}),
	}
}

// write sends what a client is told about, one command.
func (l *Live) write(ctx context.Context, cmd redis.Cmder) error {
	return l.send(ctx, redisdb.Write, cmd)
}

// share sends commands of the process's own with the shared round trips.
func (l *Live) share(ctx context.Context, m redisdb.Mode, cmds ...redis.Cmder) error {
	if len(cmds) == 0 {
		return nil
	}
	return l.db.Share(ctx, m, cmds...)
}

// usable turns the answers about a whole sale into errors.
func (l *Live) usable(sale string, status int64) error {
	switch status {
	case answerAbsent:
		l.known.Delete(sale)
		l.snapshots.Delete(sale)
		l.movers.Delete(sale)
		return ErrAbsent
	case answerLoading:
		return ErrLoading
	case answerStaleRun:
		return ErrStaleRun
	}
	return nil
}

// unexpected is for a status that a script of this version does not give.
func unexpected(s *redisdb.Script, answer any) error {
	return fmt.Errorf("run %s: answered %+v", s.Name(), answer)
}

// NewLoading names a loading: see Load.
func NewLoading() string { return newRequest() }

// newRequest names one request or transfer: 128 random bits.
func newRequest() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
