package stock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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
	// Logger receives the sweeper's failures; nil: discarded.
	Logger *slog.Logger
	// MinReplicas is how many replicas must have a write before a client gets its answer (reserve,
	// confirm, release, Put and Restock); default 0.
	MinReplicas int
	// RunID names the run of the server that has the keys: ServerRunID, or a name. Each
	// partition stores the run in which it was made or loaded; calls under another run fail
	// with ErrStaleRun. "": the run is not compared.
	RunID string
	// SweepEvery is how often Run looks for holds that are due; default 250 ms.
	SweepEvery time.Duration
	// OnSwept is called with each partition that has something SQL does not have yet.
	OnSwept func(ctx context.Context, s Swept)
	// OnStale is called with sales that must be compared with the record, or whose loading
	// a process began and did not end.
	OnStale func(ctx context.Context, sale string)
	// OnCompare is called for 10 minutes with sales that were read back, and a time in ms:
	// orders sold since then may have gone on record through another Redis. All three
	// functions may be called for several sales at the same time, and repeatedly.
	OnCompare func(ctx context.Context, sale string, since int64) error
	// Facts are how facts are told; default: none are.
	Facts Facts
}

// ServerRunID stands for the run of the server that runs a script. The script asks its server,
// because a client's knowledge of it may be out of date when the script arrives.
const ServerRunID = "*"

// Live is the live stock of sales in Redis. It is safe for concurrent use. Each of its parts has
// one task, and all of them use the same base.
type Live struct {
	*base
	*partitions
	*mover
	*editor
	*reservations
	*outbox
	*loader
	*sweeper
}

// base sends commands and scripts to Redis, and knows which partitions the sales have that
// this process works on.
type base struct {
	db      *redisdb.DB
	o       Options
	scripts scripts
	known   sync.Map       // sale -> []*partition
	wake    chan struct{}  // has a value when the process has learned of another sale
	send    redisdb.Sender // sends the writes whose success is reported to a client
}

// partitions reads the partitions of a sale, and brings those that are behind up to the
// settings of the first one.
type partitions struct{ *base }

// mover moves units between the partitions of a sale.
type mover struct {
	*base
	leases *lock.Locker // of the right to move units
}

// editor makes sales and changes their settings and stock.
type editor struct {
	*base
	partitions *partitions
	mover      *mover
}

// reservations makes, ends and reads reservations.
type reservations struct {
	*base
	partitions *partitions
	mover      *mover
}

// outbox lists the data of sales that is not on record yet, and records what is.
type outbox struct{ *base }

// loader brings a sale back from the record.
type loader struct {
	*base
	partitions *partitions
	mover      *mover
}

// sweeper returns holds that are due, and finishes what crashes left undone.
type sweeper struct {
	*base
	partitions *partitions
	mover      *mover
	editor     *editor
	unusable   sync.Map // Ref of a partition -> when the sweeper first found it unusable
}

// The errors of calls for a sale that cannot be worked on.
var (
	// ErrAbsent: Redis has no keys of the sale. It may be on record.
	ErrAbsent = api.Errorf(api.CodeSaleNotFound, "there is no such sale")
	// ErrLoading: Load was called, and Open not yet.
	ErrLoading = api.Errorf(api.CodeUnavailable, "the sale is being read from the record")
	// ErrStaleRun: the keys come from another run of the server and may lack writes that
	// were acknowledged, or a partition is gone.
	ErrStaleRun = api.Errorf(api.CodeUnavailable, "the sale is being compared with the record")
)

// New makes a Live. It starts nothing; Run sweeps.
func New(db *redisdb.DB, o Options) *Live {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.SweepEvery = cmp.Or(o.SweepEvery, 250*time.Millisecond)
	o.Facts = o.Facts.withDefaults()
	if o.OnSwept == nil {
		o.OnSwept = func(context.Context, Swept) {}
	}
	if o.OnStale == nil {
		o.OnStale = func(context.Context, string) {}
	}
	if o.OnCompare == nil {
		o.OnCompare = func(context.Context, string, int64) error { return nil }
	}
	b := &base{db: db, o: o, scripts: loadScripts(), send: sender(db, o.MinReplicas), wake: make(chan struct{}, 1)}
	p, m := &partitions{b}, newMover(b)
	e := &editor{b, p, m}
	return &Live{
		base: b, partitions: p, mover: m, editor: e, reservations: &reservations{b, p, m}, outbox: &outbox{b}, loader: &loader{b, p, m},
		sweeper: &sweeper{base: b, partitions: p, mover: m, editor: e},
	}
}

// partitionsOf gives a sale's partitions. Their number never changes, so a process reads it
// once. A script that finds another number (the sale was deleted, or Redis emptied, and the sale made
// anew) says so, and it is read again.
func (b *base) partitionsOf(ctx context.Context, sale string) ([]*partition, error) {
	if known, ok := b.known.Load(sale); ok {
		return known.([]*partition), nil
	}
	cmd := redis.NewStringCmd(ctx, "hget", newPartition(sale, 0).settings, "partitions")
	if err := b.db.Share(ctx, redisdb.Read, cmd); err != nil {
		return nil, err
	}
	n, err := cmd.Int()
	if errors.Is(err, redis.Nil) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	return b.remember(sale, n), nil
}

// remember keeps the partitions of a sale for later calls.
func (b *base) remember(sale string, partitions int) []*partition {
	if known, ok := b.known.Load(sale); ok && len(known.([]*partition)) == partitions {
		return known.([]*partition)
	}
	parts := make([]*partition, partitions)
	for i := range parts {
		p := newPartition(sale, i)
		p.of = partitions
		p.reserves = b.newCrowd(p, func() crowdScript { return b.reserveScript(partitions) })
		p.ends = b.newCrowd(p, func() crowdScript { return b.endScript(partitions) })
		p.turn = make(chan struct{}, 1)
		parts[i] = p
	}
	b.known.Store(sale, parts)
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return parts
}

// write sends one command whose success is reported to a client.
func (b *base) write(ctx context.Context, cmd redis.Cmder) error {
	return b.send(ctx, redisdb.Write, cmd)
}

// Now is the time in ms since the Unix epoch by the clock that decides about a sale's window.
func (b *base) Now(ctx context.Context, sale string) (int64, error) {
	now, err := b.db.Now(ctx, newPartition(sale, 0).settings)
	return now.UnixMilli(), err
}

// usable turns a script's answer about the whole sale into an error; nil: it can be worked on.
func (b *base) usable(sale string, status int64) error {
	switch status {
	case answerAbsent:
		b.known.Delete(sale)
		return ErrAbsent
	case answerLoading:
		return ErrLoading
	case answerStaleRun:
		return ErrStaleRun
	case answerOther:
		b.known.Delete(sale) // it was deleted and made anew
		return ErrStaleRun
	}
	return nil
}

// unexpected is the error for a status that no script of this version answers.
func unexpected(s *redisdb.Script, answer any) error {
	return fmt.Errorf("run %s: answered %+v", s.Name(), answer)
}

// NewLoading names a loading of a sale, or the making of one: see Load. after names the deletion of the
// sale that had the id before; "": there was none.
func NewLoading(after string) string { return after + newRequest()[len(after):] }

// newRequest names one request or transfer: 128 random bits.
func newRequest() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
