package jobs

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/wake"
)

//go:embed lua/*.lua
var scripts embed.FS

var (
	runScript   = redisdb.MustScript(scripts, "lua/jobs_run.lua")
	retryScript = redisdb.MustScript(scripts, "lua/jobs_retry.lua")
	getScript   = redisdb.MustScript(scripts, "lua/jobs_get.lua")
	listScript  = redisdb.MustScript(scripts, "lua/queues_list.lua")
	tidyScript  = redisdb.MustScript(scripts, "lua/queues_tidy.lua")
)

// Options configure a Store. All but DB may stay zero.
type Options struct {
	DB *redisdb.DB
	// RetryBase and RetryMax bound the backoff with full jitter; defaults 500 ms and 5 min.
	RetryBase, RetryMax time.Duration
	// MaxAge ends a job that only ever waited (a release with a wait); default 24 h, negative: never.
	MaxAge time.Duration
	// Unused is after how long an empty queue that nobody uses is forgotten; default 7 days.
	Unused time.Duration
	// Tells says what is left for the relay of facts (queue.Options.Tells): l dead letters. Default: nothing.
	Tells func() string
	// Logger hears of what Run fails to do; default: nobody.
	Logger *slog.Logger
}

// Store has the queues. It may be used from any goroutine.
type Store struct {
	o       Options
	db      *redisdb.DB
	letters *queue.Queue
	crowds  [groups]*redisdb.Crowd[*call]
	rooms   rooms
	failed  [groups]atomic.Int64 // when a call of a group last found Redis away, in ns since begun
	begun   time.Time
}

// New makes a Store. It does not connect.
func New(o Options) *Store {
	o.RetryBase, o.RetryMax = cmp.Or(o.RetryBase, 500*time.Millisecond), cmp.Or(o.RetryMax, 5*time.Minute)
	o.MaxAge, o.Unused = cmp.Or(o.MaxAge, 24*time.Hour), cmp.Or(o.Unused, 7*24*time.Hour)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Tells == nil {
		o.Tells = func() string { return "" }
	}
	s := &Store{o: o, db: o.DB, begun: time.Now()}
	s.letters = queue.New(o.DB, queue.Options{Name: "work", Kind: api.DeadJob, Shards: groups, Retry: retryScript, Logger: o.Logger})
	s.rooms.store, s.rooms.open, s.rooms.closed = s, map[string]*room{}, make(chan struct{})
	s.rooms.line = wake.NewLine(o.DB.Blocking())
	process := rand.Text()
	for n := range s.crowds {
		number := int64(0) // a crowd makes one run after the other
		s.crowds[n] = redisdb.NewCrowd(o.DB, 0, func(ctx context.Context, calls []*call) {
			number++
			s.run(ctx, n, series{process, number, keepRun}, calls)
		})
	}
	return s
}

// Letters is the queue that has the dead letters. It has no other jobs, and nothing runs it.
func (s *Store) Letters() *queue.Queue { return s.letters }

// tidyEvery is how often unused queues and old dead letters are looked for.
const tidyEvery = time.Hour

// Run forgets queues that nobody uses and old dead letters, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.tidy(ctx); err != nil {
			s.o.Logger.WarnContext(ctx, "looking after the queues of jobs failed", "error", err)
		}
		redisdb.Sleep(ctx, tidyEvery)
	}
	return nil
}

func (s *Store) tidy(ctx context.Context) error {
	var errs []error
	for n := range groups {
		for more := int64(1); more == 1; {
			value, err := s.db.Eval(ctx, redisdb.Write, tidyScript, s.keys(n), s.o.Unused.Milliseconds())
			errs, more = append(errs, err), redisdb.Number(value)
		}
	}
	return errors.Join(errs...)
}

// noQueue and noJob are the errors for what is not there.
func noQueue() error { return api.Errorf(api.CodeNotFound, "there is no such queue") }

func noJob(id string) error {
	return api.Errorf(api.CodeNotFound, "there is no job %s, or it is no longer remembered", id)
}

// unexpected is the error for an answer that the script never gives.
func (c *call) unexpected() error {
	return fmt.Errorf("%s of jobs answered %d %q", c.what, c.status, c.rest)
}
