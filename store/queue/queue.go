package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"strings"
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

// The limits of a queue and its jobs. Sizes are bytes.
const (
	MaxPayload = 64 << 10 // Payload of one job
	MaxName    = 256      // ID, Type, Key, Unique, Group, Guard
	MaxShards  = 256      // shards of a queue
)

// Options configure a Queue. Every field but Name may stay zero.
type Options struct {
	// Name of the queue, part of every key: events, notifications, jobs.
	Name string
	// Kind is what a dead letter of the queue is called; default: Name without its last s. A queue of the kind
	// api.DeadJob has the dead letters of callers' queues: the second part of their class is the queue's name, and all
	// letters of a queue are in the shard of that name (Queue.Route).
	Kind string
	// Shards of the queue, fixed at its first start; default 8, at most 256.
	Shards int
	// Serve lists the shards that Run works on; nil: all.
	Serve []int
	// Lease is how long the jobs of a process stay with it when it shows no sign of
	// life; default 30 s. It is renewed at a quarter of that.
	Lease time.Duration
	// Retention is how long the tombstone of an ended job stays (default 1 h),
	// GroupRetention how long a group's record does after its last change (default
	// 24 h), and ReportRetention a job's report (default GroupRetention).
	Retention, GroupRetention, ReportRetention time.Duration
	// MaxAge ends a job that only ever deferred; default 24 h, negative: never.
	MaxAge time.Duration
	// RetryBase and RetryMax bound the backoff with full jitter; defaults
	// 500 ms and 5 min.
	RetryBase, RetryMax time.Duration
	// MaxAttempts is how often a job may fail before it is dead; default 8.
	MaxAttempts int
	// Batch is how many jobs one claim takes (default 100), InFlight how many
	// unfinished ones a process holds (default 1000).
	Batch, InFlight int
	// Room, when set, is how many more jobs the handler has use for now. A call claims at
	// most that many, several calls at once each that many; other jobs stay for processes
	// that have room. It must be quick.
	Room func() int
	// ParkedBytes is what parked jobs may take of Redis, those of all shards together, before
	// MayPark says no; default 30 % of its maxmemory, without which there is no limit.
	ParkedBytes int64
	// Drain is how long Run waits for unfinished jobs when it is stopped, before
	// it hands them back; default 0: handlers are told at once.
	Drain time.Duration
	// Show makes JSON for people of a dead letter's group and payload; default: the
	// payload, which is JSON itself or else becomes a string.
	Show func(group string, payload []byte) json.RawMessage
	// Retry is the script that queues a dead letter again: it has the keys, the arguments and the statuses of
	// dead_retry.lua, which is the default. It must also wake a worker for the job.
	Retry *redisdb.Script
	// Lanes says that the shards of the queue have the lanes of facts.
	Lanes bool
	// Tells says, at each call, what is left for the relay of facts when jobs end: l dead letters, e that no job of a group is left,
	// or that a job with a report is too old. Default: nothing.
	Tells func() string
	// Left is called when something may have been left for the relay in a shard. It must be quick. Default: nobody is told.
	Left func(shard int)
	// OnEmptied is told, perhaps several times, when keys are gone that this process had
	// worked with: Redis was emptied, or restarted without its data. Default: nobody.
	OnEmptied func()
	// Logger hears of recoveries, dead jobs and lost leases; default: nobody.
	Logger *slog.Logger
}

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
		RetryBase: o.RetryBase, RetryMax: o.RetryMax, MaxDead: maxDead, DeadRetention: deadRetention, OnEmptied: o.OnEmptied, Lanes: o.Lanes, Tells: o.Tells, Left: o.Left, Logger: o.Logger})
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
	o.Kind = cmp.Or(o.Kind, strings.TrimSuffix(o.Name, "s"))
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

// LaneOf gives the lane of the facts about a key: the shard of the job if the key is an id that NewID made, or else that of the
// routing key.
func (q *Queue) LaneOf(key string) int {
	if n, ok := ParseID(key); ok && n < q.o.Shards {
		return n
	}
	return q.Route(key)
}

// KeyBeside names a key in the slot of a shard, for what belongs to the shard's jobs and not to the queue. name is
// none of the queue's own.
func (q *Queue) KeyBeside(shard int, name string) string { return q.shards[shard].KeyBeside(name) }

// Depth is the last number of entries known to wait in a shard, without a trip.
func (q *Queue) Depth(shard int) int64 { return q.shards[shard].Depth.Load() }

// Avoid tells that a shard could not be reached when this process tried it last: what
// may be enqueued in any shard goes to another. When the process has not tried the shard
// for 5 s, one caller is told to.
func (q *Queue) Avoid(shard int) bool { return q.shards[shard].Avoid() }
