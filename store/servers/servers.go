package servers

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua
var scripts embed.FS

// maxListed is the most processes that List returns. Only a cluster whose processes crash and start all
// the time has so many.
const maxListed = 1000

// leaveTimeout bounds the last write of a process that stops.
const leaveTimeout = time.Second

// Options tunes a Store; the zero value works.
type Options struct {
	// Logger receives, at debug, why a process could not say that it is alive; nil: nothing is logged.
	Logger *slog.Logger
	// DeliveredPerSecond is this process's mean rate of deliveries over the last minute.
	DeliveredPerSecond func() float64
	// Lifetime is how long a process is listed after it was seen last; default 15 s. It is seen three
	// times as often.
	Lifetime time.Duration
}

// Store knows the processes. It is safe for concurrent use.
type Store struct {
	db         *redisdb.DB
	o          Options
	every      time.Duration
	seen, list *redisdb.Script
}

// New makes a Store. It does not connect.
func New(db *redisdb.DB, o Options) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Lifetime = cmp.Or(o.Lifetime, lifetime)
	if o.DeliveredPerSecond == nil {
		o.DeliveredPerSecond = func() float64 { return 0 }
	}
	return &Store{db: db, o: o, every: o.Lifetime * seenEvery / lifetime,
		seen: redisdb.MustScript(scripts, "lua/server_seen.lua"), list: redisdb.MustScript(scripts, "lua/server_list.lua")}
}

// Run says regularly that a process is alive, until ctx ends. Then it takes the process off the list.
// The process counts as started now, by Redis' clock. While Redis is away, the process is not listed.
func (s *Store) Run(ctx context.Context, about api.Server) error {
	p := &process{s: s, about: about, began: time.Now()}
	for {
		if err := p.sayAlive(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
			s.o.Logger.Debug("the list of processes waits", "error", err)
		}
		select {
		case <-ctx.Done():
			return p.leave(ctx)
		case <-time.After(s.every):
		}
	}
}

// process is one call of Run.
type process struct {
	s       *Store
	about   api.Server // without StartedAt until Redis' clock was read
	began   time.Time
	written []any // the descriptions that may be on the list
}

// sayAlive writes that the process is alive, and its description in place of those before.
func (p *process) sayAlive(ctx context.Context) error {
	if p.about.StartedAt.IsZero() {
		now, err := p.s.db.Now(ctx, keySeen)
		if err != nil {
			return err
		}
		p.about.StartedAt = api.At(now.Add(-time.Since(p.began)))
		p.about.SeenAt = p.about.StartedAt
	}
	p.about.DeliveredPerSecond = math.Round(10*p.s.o.DeliveredPerSecond()) / 10
	text, err := json.Marshal(p.about)
	if err != nil {
		return err
	}
	before := slices.DeleteFunc(slices.Clone(p.written), func(old any) bool { return old == string(text) })
	if len(before) == len(p.written) {
		p.written = append(p.written, string(text)) // also if the answer is lost
	}
	args := append([]any{string(text), p.s.o.Lifetime.Milliseconds()}, before...)
	if _, err := p.s.db.Eval(ctx, redisdb.Write, p.s.seen, []string{keySeen}, args...); err != nil {
		p.written = p.written[max(0, len(p.written)-maxWritten):]
		return err
	}
	p.written = []any{string(text)}
	return nil
}

// maxWritten is how many descriptions are remembered whose writing failed: as many as Redis can still list.
const maxWritten = 4

// leave takes a process off the list. If that fails, the process is off it after its lifetime.
func (p *process) leave(ctx context.Context) error {
	if len(p.written) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := p.s.db.Share(ctx, redisdb.Write, redis.NewIntCmd(ctx, append([]any{"zrem", keySeen}, p.written...)...)); err != nil {
		p.s.o.Logger.Debug("the list of processes keeps this one for a while", "error", err)
	}
	return nil
}

// List returns the processes that were seen lately, the oldest first. A description that this version
// cannot read is left out.
func (s *Store) List(ctx context.Context) ([]api.Server, error) {
	v, err := s.db.Eval(ctx, redisdb.Read, s.list, []string{keySeen}, s.o.Lifetime.Milliseconds(), maxListed)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	values, _ := v.([]any)
	all := make([]api.Server, 0, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		var one api.Server
		seen, err := strconv.ParseInt(redisdb.TextAt(values, i+1), 10, 64)
		if err != nil || json.Unmarshal([]byte(redisdb.TextAt(values, i)), &one) != nil {
			continue
		}
		one.SeenAt = api.AtMillis(seen)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b api.Server) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt.Time), cmp.Compare(a.ID, b.ID), b.SeenAt.Compare(a.SeenAt.Time))
	})
	// A process has two descriptions if the answer to a write was lost.
	return slices.CompactFunc(all, func(a, b api.Server) bool { return a.ID == b.ID }), nil
}
