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
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Queue is one queue: all its shards, from any process. Its methods may be
// called from any goroutine.
type Queue struct {
	db     *redisdb.DB
	o      Options
	common *common
	shards []*shard
}

// New makes a queue. It starts nothing and talks to nobody.
func New(db *redisdb.DB, o Options) *Queue {
	o = o.withDefaults()
	c := &common{db: db, o: o, embedded: db.Embedded(), scripts: loadScripts(), made: time.Now(),
		dead: deadBounds{maxDead, deadRetention}, names: make(chan ParkedName, toldNames)}
	q := &Queue{db: db, o: o, common: c}
	for n := range o.Shards {
		q.shards = append(q.shards, newShard(c, n))
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
func (q *Queue) Init(ctx context.Context) error { return q.common.init(ctx) }

func (c *common) init(ctx context.Context) error {
	stored, err := c.storedShards(ctx)
	if stored == "" && err == nil {
		if c.known.Load() {
			c.emptied()
		}
		// Only now: a full Redis refuses even a write that would change nothing.
		set := redis.NewBoolCmd(ctx, "hsetnx", c.metaKey(), "shards", form+strconv.Itoa(c.o.Shards))
		if err = c.db.Pipeline(ctx, redisdb.Write, set); err == nil {
			stored, err = c.storedShards(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("fix shards of queue %s: %w", c.o.Name, err)
	}
	shards, ok := strings.CutPrefix(stored, form)
	switch {
	case !ok:
		return api.Errorf(api.CodeConflict,
			"queue %s in Redis has the form of an earlier version: let that version drain it, stop every process and delete the key %s and all keys ff:{q:%s:* (on each master: redis-cli --scan --pattern 'ff:{q:%s:*'); no other keys, chats and stock live there too",
			c.o.Name, c.metaKey(), c.o.Name, c.o.Name)
	case shards != strconv.Itoa(c.o.Shards):
		return api.Errorf(api.CodeConflict,
			"queue %s has %s shards in Redis, not %d: set FANFARE_SHARDS=%s, or drain all queues, stop every process and delete all keys ff:{q:* and no others, chats and stock live there too",
			c.o.Name, shards, c.o.Shards, shards)
	}
	c.known.Store(true)
	return nil
}

// emptied tells operators that Redis lost what it had of the queue.
func (c *common) emptied(args ...any) {
	c.o.Logger.Warn("Redis was emptied: its groups are made again", args...)
	c.o.OnEmptied()
}

// storedShards is the form and the number of shards in Redis; "": there is none.
func (c *common) storedShards(ctx context.Context) (string, error) {
	get := redis.NewStringCmd(ctx, "hget", c.metaKey(), "shards")
	if err := c.db.Pipeline(ctx, redisdb.Read, get); err != nil {
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
func (q *Queue) Depth(shard int) int64 { return q.shards[shard].depth.Load() }
