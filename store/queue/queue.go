package queue

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
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
	db        *redisdb.DB
	embedded  bool // Redis is in this process
	o         Options
	scripts   scripts
	prefixes  []string       // of the keys, by shard
	depths    []atomic.Int64 // last known entries waiting, by shard
	wakeup    atomic.Int64   // mean wake-up latency in µs
	alarms    []alarm        // by shard
	dead      deadBounds
	producers []*producer // by shard
	made      time.Time
	failedAt  []atomic.Int64  // when a shard could not be reached last, counted from made; 0: never
	checking  []atomic.Bool   // a check after an enqueueing is planned, by shard
	names     chan ParkedName // under which jobs are parked
	parked    []parked        // by shard
	outage    redisdb.Outage
	known     atomic.Bool // its shards were found in Redis
}

// New makes a queue. It starts nothing and talks to nobody.
func New(db *redisdb.DB, o Options) *Queue {
	o = o.withDefaults()
	q := &Queue{db: db, embedded: db.Embedded(), o: o, made: time.Now(), scripts: loadScripts(), depths: make([]atomic.Int64, o.Shards),
		dead: deadBounds{maxDead, deadRetention}, checking: make([]atomic.Bool, o.Shards),
		failedAt: make([]atomic.Int64, o.Shards), names: make(chan ParkedName, toldNames), parked: make([]parked, o.Shards)}
	for shard := range o.Shards {
		q.prefixes = append(q.prefixes, Prefix(o.Name, shard, o.Shards))
		q.producers = append(q.producers, newProducer(q, shard))
	}
	q.alarms = make([]alarm, o.Shards)
	for i := range q.alarms {
		q.alarms[i].came = make(chan struct{}, 1)
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
	or(&o.ReportRetention, o.GroupRetention)
	or(&o.RetryBase, defaultRetryBase)
	or(&o.RetryMax, defaultRetryMax)
	orInt(&o.MaxAttempts, defaultMaxAttempts)
	orInt(&o.Batch, defaultBatch)
	orInt(&o.InFlight, defaultInFlight)
	if o.Room == nil {
		o.Room = endless
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

// reportTTL is how long a new report stays when no result changes it: longer than
// the job may wait.
func (o *Options) reportTTL() time.Duration { return max(o.MaxAge, o.ReportRetention) + time.Hour }

// randomText is n random bytes as text.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Init stores the queue's number of shards in Redis, or compares it with the stored one:
// another number, or an earlier form, is a conflict. Where it is stored nothing is
// written: a process may start with a full Redis, to drain it.
func (q *Queue) Init(ctx context.Context) error {
	stored, err := q.storedShards(ctx)
	if stored == "" && err == nil {
		if q.known.Load() {
			q.emptied()
		}
		// Only now: a full Redis refuses even a write that would change nothing.
		set := redis.NewBoolCmd(ctx, "hsetnx", q.metaKey(), "shards", form+strconv.Itoa(q.o.Shards))
		if err = q.db.Pipeline(ctx, redisdb.Write, set); err == nil {
			stored, err = q.storedShards(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("fix shards of queue %s: %w", q.o.Name, err)
	}
	shards, ok := strings.CutPrefix(stored, form)
	switch {
	case !ok:
		return api.Errorf(api.CodeConflict,
			"queue %s in Redis has the form of an earlier version: let that version drain it, stop every process and delete the key %s and all keys ff:{q:%s:* (on each master: redis-cli --scan --pattern 'ff:{q:%s:*'); no other keys, chats and stock live there too",
			q.o.Name, q.metaKey(), q.o.Name, q.o.Name)
	case shards != strconv.Itoa(q.o.Shards):
		return api.Errorf(api.CodeConflict,
			"queue %s has %s shards in Redis, not %d: set FANFARE_SHARDS=%s, or drain all queues, stop every process and delete all keys ff:{q:* and no others, chats and stock live there too",
			q.o.Name, shards, q.o.Shards, shards)
	}
	q.known.Store(true)
	return nil
}

// emptied tells operators that Redis lost what it had of the queue.
func (q *Queue) emptied(args ...any) {
	q.o.Logger.Warn("Redis was emptied: its groups are made again", args...)
	q.o.OnEmptied()
}

// storedShards is the form and the number of shards in Redis; "": there is none.
func (q *Queue) storedShards(ctx context.Context) (string, error) {
	get := redis.NewStringCmd(ctx, "hget", q.metaKey(), "shards")
	if err := q.db.Pipeline(ctx, redisdb.Read, get); err != nil {
		return "", err
	}
	stored, err := get.Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return stored, err
}

// isNoGroup tells that a stream or its group is gone.
func isNoGroup(err error) bool { return err != nil && strings.Contains(err.Error(), "NOGROUP") }

// Name is the queue's name.
func (q *Queue) Name() string { return q.o.Name }

// MaxAttempts is how often a job may fail before it is dead.
func (q *Queue) MaxAttempts() int { return q.o.MaxAttempts }

// Shards is the number of shards.
func (q *Queue) Shards() int { return q.o.Shards }

// Route gives the shard of a routing key: stable over processes and releases.
func (q *Queue) Route(key string) int { return int(xxhash.Sum64String(key) % uint64(q.o.Shards)) }

// Depth is the last number of entries known to wait in a shard, without a trip.
func (q *Queue) Depth(shard int) int64 { return q.depths[shard].Load() }

// checkSoon has entries put back that a blocking read was given and nobody claimed. It is
// called after this process put jobs into a stream without claiming them: a read whose
// connection died, or whose process was stopped, would keep such an entry. An idle process
// checks nothing, a busy one at most once per shard at a time.
func (q *Queue) checkSoon(ctx context.Context, shard int) {
	if q.checking[shard].Swap(true) {
		return
	}
	go func() {
		defer q.checking[shard].Store(false)
		for range checks {
			sleep(ctx, checkAfter)
			cmd := q.scripts.check.Cmd(ctx, q.keys(shard), ms(unclaimedFor), ms(q.o.Retention), ms(q.o.GroupRetention), ms(q.o.ReportRetention))
			if err := q.db.Share(ctx, redisdb.Write, cmd); err != nil {
				return
			}
			if held, err := cmd.Int64(); err != nil || held == 0 {
				return
			}
		}
	}()
}

// alarm is the time at which a shard's maintainer has to look, until it has read it.
type alarm struct {
	mu   sync.Mutex
	at   time.Time     // when something is due first; zero: nothing is
	came chan struct{} // holds one value when at was set
}

// wakeMaintainer tells the shard's maintainer, if this process has one, that something is
// due after d. However often it is called, it takes no memory.
func (q *Queue) wakeMaintainer(shard int, d time.Duration) {
	n, at := &q.alarms[shard], time.Now().Add(d)
	n.mu.Lock()
	if n.at.IsZero() || at.Before(n.at) {
		n.at = at
	}
	n.mu.Unlock()
	select {
	case n.came <- struct{}{}:
	default:
	}
}

// take reads and clears the time; zero: nothing is due.
func (n *alarm) take() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := n.at
	n.at = time.Time{}
	return at
}
