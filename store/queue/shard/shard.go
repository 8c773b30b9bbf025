package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

// Options are those of the queue that its shards need, with their defaults filled in.
type Options struct {
	Name                                       string
	Shards, MaxAttempts, Batch                 int
	Lease                                      time.Duration
	Retention, GroupRetention, ReportRetention time.Duration
	MaxAge, RetryBase, RetryMax                time.Duration
	MaxDead                                    int           // dead letters that a shard keeps
	DeadRetention                              time.Duration // of a dead letter
	OnEmptied                                  func()
	Lanes                                      bool          // the shards have the lanes of facts
	Tells                                      func() string // what is told of jobs that end (lua/part_facts.lua)
	Left                                       func(shard int)
	Logger                                     *slog.Logger
}

// ReportTTL is how long a new report stays when no result changes it: longer than
// the job may wait.
func (o *Options) ReportTTL() time.Duration { return max(o.MaxAge, o.ReportRetention) + time.Hour }

// ParkedName says that jobs are parked under a name in a shard.
type ParkedName struct {
	Shard int
	Name  string
}

// Common is what the shards of a queue share in this process.
type Common struct {
	Options
	Scripts    *Scripts
	Wakeup     atomic.Int64    // mean time in µs from enqueueing to claiming of jobs that found a worker idle
	Unrecorded atomic.Int64    // marks, and results of jobs that are done, that Redis has not stored yet
	Names      chan ParkedName // what the looks find parked; what nobody reads is dropped

	db       *redisdb.DB
	embedded bool // Redis is in this process
	made     time.Time
	known    atomic.Bool // the queue's shards were found in Redis
	outage   redisdb.Outage
}

// namesWait is how many parked names wait to be read.
const namesWait = 256

// New makes what the shards of a queue share. It talks to nobody.
func New(db *redisdb.DB, o Options) *Common {
	if o.Tells == nil {
		o.Tells = func() string { return "" }
	}
	if o.Left == nil {
		o.Left = func(int) {}
	}
	return &Common{Options: o, Scripts: loadScripts(), Names: make(chan ParkedName, namesWait), db: db, embedded: db.Embedded(), made: time.Now()}
}

// Shard is one shard of a queue, as this process sees it.
type Shard struct {
	*Common
	Depth    atomic.Int64 // last known entries waiting
	Parked   atomic.Int64 // bytes that its parked jobs take, as far as this process knows
	Producer *Producer

	n        int
	prefix   string // of its keys
	alarm    alarm
	failedAt atomic.Int64 // when it could not be reached last, counted from made; 0: never
	checking atomic.Bool  // a check after an enqueueing is planned
}

// Shard makes the n-th shard.
func (c *Common) Shard(n int) *Shard {
	s := &Shard{Common: c, n: n, prefix: Prefix(c.Name, n, c.Shards)}
	s.alarm.came = make(chan struct{}, 1)
	s.Producer = newProducer(s)
	return s
}

// MS is a duration in milliseconds; what is positive is at least 1.
func MS(d time.Duration) int64 {
	if d > 0 && d < time.Millisecond {
		return 1
	}
	return d.Milliseconds()
}

// Init stores the queue's number of shards in Redis, or compares it with the stored one:
// another number, or an earlier form, is a conflict. Where it is stored nothing is
// written: a process may start with a full Redis, to drain it.
func (c *Common) Init(ctx context.Context) error {
	stored, err := c.storedShards(ctx)
	if stored == "" && err == nil {
		if c.known.Load() {
			c.emptied()
		}
		// Only now: a full Redis refuses even a write that would change nothing.
		set := redis.NewBoolCmd(ctx, "hsetnx", c.metaKey(), "shards", form+strconv.Itoa(c.Shards))
		if err = c.db.Pipeline(ctx, redisdb.Write, set); err == nil {
			stored, err = c.storedShards(ctx)
		}
	}
	if err != nil {
		return fmt.Errorf("fix shards of queue %s: %w", c.Name, err)
	}
	shards, ok := strings.CutPrefix(stored, form)
	switch {
	case !ok:
		return api.Errorf(api.CodeConflict,
			"queue %s in Redis has the form of an earlier version: let that version drain it, stop every process and delete the key %s and all keys ff:{q:%s:* (on each master: redis-cli --scan --pattern 'ff:{q:%s:*'); no other keys, chats and stock live there too",
			c.Name, c.metaKey(), c.Name, c.Name)
	case shards != strconv.Itoa(c.Shards):
		return api.Errorf(api.CodeConflict,
			"queue %s has %s shards in Redis, not %d: set FANFARE_SHARDS=%s, or drain all queues, stop every process and delete all keys ff:{q:* and no others, chats and stock live there too",
			c.Name, shards, c.Shards, shards)
	}
	c.known.Store(true)
	return nil
}

// emptied tells operators that Redis lost what it had of the queue.
func (c *Common) emptied(args ...any) {
	c.Logger.Warn("Redis was emptied: its groups are made again", args...)
	c.OnEmptied()
}

// storedShards is the form and the number of shards in Redis; "": there is none.
func (c *Common) storedShards(ctx context.Context) (string, error) {
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

// CheckSoon has entries put back that a blocking read was given and nobody claimed. It is
// called after this process put jobs into a stream without claiming them: a read whose
// connection died, or whose process was stopped, would keep such an entry. An idle process
// checks nothing, a busy one at most once per shard at a time.
func (s *Shard) CheckSoon(ctx context.Context) {
	if s.checking.Swap(true) {
		return
	}
	go func() {
		defer s.checking.Store(false)
		for range checks {
			redisdb.Sleep(ctx, checkAfter)
			cmd := s.Scripts.check.Cmd(ctx, s.Keys(), MS(unclaimedFor), MS(s.Retention), MS(s.GroupRetention), MS(s.ReportRetention))
			if err := s.db.Share(ctx, redisdb.Write, cmd); err != nil {
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

// WakeMaintainer tells the shard's maintainer, if this process has one, that something is
// due after d. However often it is called, it takes no memory.
func (s *Shard) WakeMaintainer(d time.Duration) {
	n, at := &s.alarm, time.Now().Add(d)
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
func (a *alarm) take() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.at
	a.at = time.Time{}
	return at
}

// NoteParked notes the bytes that the shard's parked jobs take, as a script said it;
// negative: it said nothing.
func (s *Shard) NoteParked(bytes int64) {
	if bytes >= 0 {
		s.Parked.Store(bytes)
	}
}

// tellParked passes on what a look found.
func (s *Shard) tellParked(names []any) {
	for _, name := range names {
		select {
		case s.Names <- ParkedName{s.n, redisdb.Text(name)}:
		default:
		}
	}
}

// trip sends commands in a round trip of their own, and notes when the shard cannot be
// reached.
func (s *Shard) trip(ctx context.Context, cmds ...redis.Cmder) error {
	err := s.db.Pipeline(ctx, redisdb.Write, cmds...)
	if err != nil && ctx.Err() == nil {
		s.noteFailure()
	}
	return err
}

// noteFailure remembers that a shard could not be reached just now: on a Cluster its
// master may be the only one that hangs.
func (s *Shard) noteFailure() { s.failedAt.Store(int64(time.Since(s.made)) + 1) }

// failedSince tells that a shard could not be reached at some time after then.
func (s *Shard) failedSince(then time.Time) bool { return s.failedAt.Load() > int64(then.Sub(s.made)) }

// failed logs that a step of a shard failed. While Redis is away it logs one line for all
// shards together, and worked logs another one when all of them are back.
func (s *Shard) failed(step string, err error, args ...any) {
	args = append(args, "shard", s.n, "error", err)
	switch {
	case !s.db.Away(err):
		s.Logger.Warn(step, args...)
	case s.outage.Failed(s.n):
		s.Logger.Warn("Redis is away, work waits", append(args, "step", step)...)
	default:
		s.Logger.Debug(step, args...)
	}
}

// worked notes that Redis answered for a shard.
func (s *Shard) worked() {
	if away, last := s.outage.Worked(s.n); last {
		s.Logger.Info("Redis is back", "away", away)
	}
}

// Avoid tells that this process could not reach the shard when it tried last. When it has
// not tried for 5 s, one caller is told to.
func (s *Shard) Avoid() bool { return s.outage.Avoid(s.n) }
