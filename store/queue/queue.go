package queue

import (
	"context"
	"io"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
)

// Lifetimes and bounds, those of Options by default.
const (
	defaultShards         = 8
	defaultLease          = 30 * time.Second
	defaultRetention      = time.Hour
	defaultGroupRetention = 24 * time.Hour
	defaultMaxAge         = 24 * time.Hour
	defaultRetryBase      = 500 * time.Millisecond
	defaultRetryMax       = 5 * time.Minute
	defaultMaxAttempts    = 8
	defaultBatch          = 100
	defaultInFlight       = 1000

	maxDead       = 100_000            // dead letters of a shard
	deadRetention = 7 * 24 * time.Hour // of a dead letter
)

// Queue is one queue: all its shards, from any process. Its methods may be
// called from any goroutine.
type Queue struct {
	db     *redisdb.DB
	o      Options
	common *shard.Common
	shards []*shard.Shard
	full   []atomic.Int64 // by shard: since when (Redis' time in ms) parked jobs have all that they may take; 0: they do not
}

// New makes a queue. It starts nothing and talks to nobody.
func New(db *redisdb.DB, o Options) *Queue {
	o = o.withDefaults()
	q := &Queue{db: db, o: o, full: make([]atomic.Int64, o.Shards)}
	q.common = shard.New(db, shard.Options{Name: o.Name, Shards: o.Shards, MaxAttempts: o.MaxAttempts, Batch: o.Batch, Lease: o.Lease,
		Retention: o.Retention, GroupRetention: o.GroupRetention, ReportRetention: o.ReportRetention, MaxAge: o.MaxAge,
		RetryBase: o.RetryBase, RetryMax: o.RetryMax, MaxDead: maxDead, DeadRetention: deadRetention, OnEmptied: o.OnEmptied, Logger: o.Logger})
	for n := range o.Shards {
		q.shards = append(q.shards, q.common.Shard(n))
	}
	return q
}

// or gives v a default.
func or[T int | time.Duration](v *T, standard T) {
	if *v <= 0 {
		*v = standard
	}
}

func (o Options) withDefaults() Options {
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	or(&o.Shards, defaultShards)
	o.Shards = min(o.Shards, MaxShards)
	or(&o.Lease, defaultLease)
	or(&o.Retention, defaultRetention)
	or(&o.GroupRetention, defaultGroupRetention)
	or(&o.ReportRetention, o.GroupRetention)
	or(&o.RetryBase, defaultRetryBase)
	or(&o.RetryMax, defaultRetryMax)
	or(&o.MaxAttempts, defaultMaxAttempts)
	or(&o.Batch, defaultBatch)
	or(&o.InFlight, defaultInFlight)
	if o.Room == nil {
		o.Room = func() int { return math.MaxInt }
	}
	if o.OnEmptied == nil {
		o.OnEmptied = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	o.Logger = o.Logger.With("queue", o.Name)
	if o.Serve == nil {
		for n := range o.Shards {
			o.Serve = append(o.Serve, n)
		}
	}
	return o
}

// Init stores the queue's number of shards in Redis, or compares it with the stored one:
// another number, or an earlier form, is a conflict. Where it is stored nothing is
// written: a process may start with a full Redis, to drain it.
func (q *Queue) Init(ctx context.Context) error { return q.common.Init(ctx) }

// Name is the queue's name.
func (q *Queue) Name() string { return q.o.Name }

// MaxAttempts is how often a job may fail before it is dead.
func (q *Queue) MaxAttempts() int { return q.o.MaxAttempts }

// Retention is how long the tombstone of an ended job stays.
func (q *Queue) Retention() time.Duration { return q.o.Retention }

// Shards is the number of shards.
func (q *Queue) Shards() int { return q.o.Shards }

// Route gives the shard of a routing key: stable over processes and releases.
func (q *Queue) Route(key string) int { return int(xxhash.Sum64String(key) % uint64(q.o.Shards)) }

// KeyBeside names a key in the slot of a shard, for what belongs to the shard's jobs and not to the queue. name is
// none of the queue's own.
func (q *Queue) KeyBeside(shard int, name string) string { return q.shards[shard].KeyBeside(name) }

// Depth is the last number of entries known to wait in a shard, without a trip.
func (q *Queue) Depth(shard int) int64 { return q.shards[shard].Depth.Load() }

// Avoid tells that a shard could not be reached when this process tried it last: what
// may be enqueued in any shard goes to another. When the process has not tried the shard
// for 5 s, one caller is told to.
func (q *Queue) Avoid(shard int) bool { return q.shards[shard].Avoid() }
