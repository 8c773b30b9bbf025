package servers

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"log/slog"
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
	return &Store{db: db, o: o, every: o.Lifetime * seenEvery / lifetime,
		seen: redisdb.MustScript(scripts, "lua/server_seen.lua"), list: redisdb.MustScript(scripts, "lua/server_list.lua")}
}

// Run says regularly that a process is alive, until ctx ends. Then it takes the process off the list.
// The process counts as started now, by Redis' clock. While Redis is away, the process is not listed.
func (s *Store) Run(ctx context.Context, about api.Server) error {
	began, text := time.Now(), ""
	for {
		if err := s.sayAlive(context.WithoutCancel(ctx), about, began, &text); err != nil && ctx.Err() == nil {
			s.o.Logger.Debug("the list of processes waits", "error", err)
		}
		select {
		case <-ctx.Done():
			return s.leave(ctx, text)
		case <-time.After(s.every):
		}
	}
}

// sayAlive writes that the process is alive. text is its description, which is made at the first call
// that reads Redis' clock.
func (s *Store) sayAlive(ctx context.Context, about api.Server, began time.Time, text *string) error {
	if *text == "" {
		now, err := s.db.Now(ctx, keySeen)
		if err != nil {
			return err
		}
		about.StartedAt = api.At(now.Add(-time.Since(began)))
		about.SeenAt = about.StartedAt
		described, err := json.Marshal(about)
		if err != nil {
			return err
		}
		*text = string(described)
	}
	_, err := s.db.Eval(ctx, redisdb.Write, s.seen, []string{keySeen}, *text, s.o.Lifetime.Milliseconds())
	return err
}

// leave takes a process off the list. If that fails, the process is off it after its lifetime.
func (s *Store) leave(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.db.Share(ctx, redisdb.Write, redis.NewIntCmd(ctx, "zrem", keySeen, text)); err != nil {
		s.o.Logger.Debug("the list of processes keeps this one for a while", "error", err)
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
		return cmp.Or(a.StartedAt.Compare(b.StartedAt.Time), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
