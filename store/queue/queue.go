package queue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Queue is one queue: all its shards, from any process. Its methods may be
// called from any goroutine.
type Queue struct {
	db      *redisdb.DB
	o       Options
	scripts scripts
	depths  []atomic.Int64 // last known entries waiting, by shard
	wakeup  atomic.Int64   // mean wake-up latency in µs
	nudges  []chan time.Duration
	fault   redisdb.Fault
	dead    deadBounds
	idle    time.Duration // of a crashed consumer
	made    time.Time
	trouble atomic.Int64   // when Redis could not be reached last, from made on; 0: never
	looks   []atomic.Int64 // when the next look after an enqueueing is, by shard; 0: nobody looks
	parked  chan ParkedName
}

// New makes a queue. It starts nothing and talks to nobody.
func New(db *redisdb.DB, o Options) *Queue {
	o = o.withDefaults()
	q := &Queue{db: db, o: o, made: time.Now(), scripts: loadScripts(), depths: make([]atomic.Int64, o.Shards),
		dead: deadBounds{maxDead, deadRetention}, idle: consumerIdle, looks: make([]atomic.Int64, o.Shards),
		parked: make(chan ParkedName, toldNames)}
	q.nudges = make([]chan time.Duration, o.Shards)
	for i := range q.nudges {
		q.nudges[i] = make(chan time.Duration, 1)
	}
	return q
}

func (o Options) withDefaults() Options {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	or := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	if o.MaxAge == 0 {
		o.MaxAge = defaultMaxAge
	}
	orInt(&o.Shards, defaultShards)
	o.Shards = min(o.Shards, MaxShards)
	or(&o.Lease, defaultLease)
	or(&o.Retention, defaultRetention)
	or(&o.GroupRetention, defaultGroupRetention)
	or(&o.RetryBase, defaultRetryBase)
	or(&o.RetryMax, defaultRetryMax)
	orInt(&o.MaxAttempts, defaultMaxAttempts)
	orInt(&o.Batch, defaultBatch)
	orInt(&o.InFlight, defaultInFlight)
	if o.Kind == "" {
		o.Kind = strings.TrimSuffix(o.Name, "s")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	o.Logger = o.Logger.With("queue", o.Name)
	return o.withServe()
}

// withServe lists the shards to work on and makes the owner unique: a process
// that restarts under the same name must not be taken for its predecessor.
func (o Options) withServe() Options {
	if o.Serve == nil {
		for n := range o.Shards {
			o.Serve = append(o.Serve, n)
		}
	}
	if len(o.Owner) > 16 {
		o.Owner = o.Owner[:16]
	}
	o.Owner = strings.NewReplacer(" ", "-", ":", "-").Replace(o.Owner) + randomText(6)
	return o
}

// randomText is n random bytes as text.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Init fixes the queue's number of shards in Redis and makes its consumer
// groups. It refuses, with code conflict, a number other than the stored one.
// It is safe to call again and from many processes; what an emptied Redis lost
// is made again by Run.
func (q *Queue) Init(ctx context.Context) error {
	if err := q.fixShards(ctx); err != nil {
		return err
	}
	for from := 0; from < q.o.Shards; from += 32 {
		if err := q.makeGroups(ctx, from, min(from+32, q.o.Shards)); err != nil {
			return err
		}
	}
	return nil
}

// fixShards stores the number of shards, or compares it with the stored one.
func (q *Queue) fixShards(ctx context.Context) error {
	set := redis.NewBoolCmd(ctx, "hsetnx", q.metaKey(), "shards", q.o.Shards)
	get := redis.NewStringCmd(ctx, "hget", q.metaKey(), "shards")
	if err := q.db.Pipeline(ctx, redisdb.Write, set, get); err != nil {
		return fmt.Errorf("fix shards of queue %s: %w", q.o.Name, err)
	}
	stored, err := get.Result()
	if err != nil {
		return fmt.Errorf("fix shards of queue %s: %w", q.o.Name, err)
	}
	if stored != strconv.Itoa(q.o.Shards) {
		return api.Errorf(api.CodeConflict,
			"queue %s has %s shards in Redis, not %d: set FANFARE_SHARDS=%s, or drain the queue, stop every process and delete the key %s",
			q.o.Name, stored, q.o.Shards, stored, q.metaKey())
	}
	return nil
}

// makeGroups makes the streams and groups of some shards; those that exist stay
// as they are.
func (q *Queue) makeGroups(ctx context.Context, from, to int) error {
	var cmds []redis.Cmder
	for shard := from; shard < to; shard++ {
		for _, letter := range []byte("mra") {
			cmds = append(cmds, redis.NewStatusCmd(ctx, "xgroup", "create", q.stream(shard, letter), group, "0", "mkstream"))
		}
	}
	if err := q.db.Pipeline(ctx, redisdb.Write, cmds...); err != nil {
		return fmt.Errorf("make groups of queue %s: %w", q.o.Name, err)
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
			return fmt.Errorf("make groups of queue %s: %w", q.o.Name, err)
		}
	}
	return nil
}

// heal makes again what a Redis that was emptied lost.
func (q *Queue) heal(ctx context.Context, shard int) error {
	if err := q.fixShards(ctx); err != nil {
		return err
	}
	return q.makeGroups(ctx, shard, shard+1)
}

// isNoGroup tells that a stream or its group is gone.
func isNoGroup(err error) bool { return err != nil && strings.Contains(err.Error(), "NOGROUP") }

// Name is the queue's name.
func (q *Queue) Name() string { return q.o.Name }

// Shards is the number of shards.
func (q *Queue) Shards() int { return q.o.Shards }

// Route gives the shard of a routing key: stable over processes and releases.
func (q *Queue) Route(key string) int { return int(xxhash.Sum64String(key) % uint64(q.o.Shards)) }

// Depth is the last number of entries known to wait in a shard, without a trip.
func (q *Queue) Depth(shard int) int64 { return q.depths[shard].Load() }

// look has the shard's maintainer, if this process has one, look soon whether
// what was just put into a stream was taken: a blocking read whose connection
// died takes nothing, and nothing else would tell. It costs an idle process
// nothing, and a busy one a look each time.
func (q *Queue) look(shard int) {
	planned, now := q.looks[shard].Load(), time.Now().UnixNano()
	if planned != 0 && planned < now && q.looks[shard].CompareAndSwap(planned, now+int64(lookAfter)) {
		q.nudge(shard, lookAfter)
	}
}

// nudge tells the shard's maintainer, if this process has one, that something
// is due after d.
func (q *Queue) nudge(shard int, d time.Duration) {
	select {
	case q.nudges[shard] <- d:
	default:
		go func() {
			select {
			case q.nudges[shard] <- d:
			case <-time.After(d + time.Second):
			}
		}()
	}
}
