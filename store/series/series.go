package series

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
)

//go:embed lua
var scripts embed.FS

const (
	// margin is how long after the end of a minute it is written, because Redis' clock is known to a few ms
	// only.
	margin = 100 * time.Millisecond
	// maxWaiting is the most minutes that wait for Redis, a day.
	maxWaiting = api.MaxStatsMinutes
	// settle is how long after its end a minute is read anew: by then the processes have written it, unless
	// Redis is slow or away.
	settle = 5 * time.Second
)

// Options says what a Store writes; the zero value writes nothing but that the process was there.
type Options struct {
	// Totals is what this process has counted since its start. The numbers never fall.
	Totals func() Counts
	// Longest is the longest latency since the last call.
	Longest func() time.Duration
	// Depths is how many jobs wait in all queues together, and the age of the oldest, in ms.
	Depths func(context.Context) (depth, oldestAgeMS int64, err error)
	// Logger receives, at debug, why a minute could not be written; nil: nothing is logged.
	Logger *slog.Logger
	// Minute is how long a minute is; default: a minute.
	Minute time.Duration
}

// Store keeps the counts of the cluster by minute. It is safe for concurrent use.
type Store struct {
	db      *redisdb.DB
	o       Options
	process string
	write   *redisdb.Script
	latest  atomic.Pointer[reading] // nil: nothing was read yet
}

// New makes a Store. It does not connect.
func New(db *redisdb.DB, o Options) *Store {
	if o.Totals == nil {
		o.Totals = func() Counts { return nil }
	}
	if o.Longest == nil {
		o.Longest = func() time.Duration { return 0 }
	}
	if o.Depths == nil {
		o.Depths = func(context.Context) (int64, int64, error) { return 0, 0, errors.New("nobody knows the queues") }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Minute = cmp.Or(o.Minute, time.Minute)
	return &Store{db: db, o: o, process: rand.Text(), write: redisdb.MustScript(scripts, "lua/minute_write.lua")}
}

// present is the minute that lasts now, by Redis' clock.
func (s *Store) present() int64 { return s.minuteOf(s.db.Clock()) }

// minuteOf is the minute of a time.
func (s *Store) minuteOf(at time.Time) int64 { return at.UnixMilli() / s.o.Minute.Milliseconds() }

// start is when a minute began.
func (s *Store) start(minute int64) time.Time {
	return time.UnixMilli(minute * s.o.Minute.Milliseconds())
}

// counted is what this process counted in a minute, as it is written.
type counted struct {
	minute      int64
	field, text string
}

// Run writes after each minute what this process counted in it, until ctx ends. Then it writes the rest. What
// cannot be written waits, up to a day, for the next minute.
func (s *Store) Run(ctx context.Context) error {
	var before Counts
	var waiting []counted
	for number, ended := 0, false; !ended; number++ {
		minute := s.present()
		select {
		case <-ctx.Done():
		case <-time.After(s.start(minute + 1).Add(margin).Sub(s.db.Clock())):
		}
		now := s.o.Totals()
		gained := now.since(before)
		if most := s.o.Longest(); most > 0 {
			gained[longest] = most.Milliseconds()
		}
		text, err := json.Marshal(gained)
		if err != nil {
			return fmt.Errorf("write a minute: %w", err)
		}
		before = now
		waiting = append(waiting, counted{minute, fmt.Sprintf("%s.%d", s.process, number), string(text)})
		waiting = waiting[max(0, len(waiting)-maxWaiting):]
		if err := s.writeAll(context.WithoutCancel(ctx), waiting); err != nil {
			s.o.Logger.Debug("the counts of a minute wait", "error", err)
		} else {
			waiting = nil
		}
		ended = ctx.Err() != nil
	}
	return nil
}

// writeAll writes minutes, and how much work waits at the end of the last, unless another process does.
func (s *Store) writeAll(ctx context.Context, all []counted) error {
	var last *redis.Cmd
	cmds := make([]redis.Cmder, len(all))
	for i, c := range all {
		volunteers := i == len(all)-1 && c.minute == s.present()-1 // only of this minute the end is now
		last = s.command(ctx, c, volunteers)
		cmds[i] = last
	}
	if err := s.db.Do(ctx, redisdb.Write, cmds...); err != nil {
		return err
	}
	if reads, _ := last.Int64(); reads == 1 {
		s.writeDepths(ctx, all[len(all)-1].minute)
	}
	return nil
}

func (s *Store) command(ctx context.Context, c counted, volunteers bool) *redis.Cmd {
	may := 0
	if volunteers {
		may = 1
	}
	return s.write.Cmd(ctx, []string{keyOf(c.minute)}, c.field, c.text, lifetime.Milliseconds(), may)
}

// writeDepths writes how much work waits. If that fails, the minute has no such figures.
func (s *Store) writeDepths(ctx context.Context, minute int64) {
	waits, oldest, err := s.o.Depths(ctx)
	if err == nil {
		text := fmt.Sprintf(`{%q:%d,%q:%d}`, depth, waits, oldestAge, oldest)
		_, err = s.db.Eval(ctx, redisdb.Write, s.write, []string{keyOf(minute)}, fieldDepths, text, lifetime.Milliseconds(), 0)
	}
	if err != nil {
		s.o.Logger.Debug("a minute has no depths", "error", err)
	}
}

// reading is what was read of the minutes from first to the one before present.
type reading struct {
	first, present int64
	// minutes are those in which a process wrote, the oldest first.
	minutes []api.StatsMinute
	// settled says that the last minute was over for so long that the processes had written it.
	settled bool
}

// Minutes returns the last n minutes that are over, the oldest first, in at most one pipeline. Minutes in which
// no process wrote are left out. The minutes are read once a minute, the last one anew until it is settle old,
// and are shared: the caller must not change them. What a process could not write in time is there a minute
// later.
func (s *Store) Minutes(ctx context.Context, n int) ([]api.StatsMinute, error) {
	now := s.db.Clock()
	present := s.minuteOf(now)
	r := &reading{first: present - int64(n), present: present, settled: now.Sub(s.start(present)) >= settle}
	from, latest := r.first, s.latest.Load()
	if latest != nil && latest.present == present && latest.first <= r.first {
		if latest.settled {
			return latest.since(s.start(r.first)), nil
		}
		r.first, r.minutes, from = latest.first, latest.before(s.start(present-1)), present-1
	}
	minutes, err := s.read(ctx, from, present)
	if err != nil {
		return nil, err
	}
	r.minutes = append(append([]api.StatsMinute{}, r.minutes...), minutes...)
	s.latest.Store(r)
	return r.since(s.start(present - int64(n))), nil
}

// before and since are the minutes that began before a time, and from then on.
func (r *reading) before(at time.Time) []api.StatsMinute { return r.minutes[:r.find(at)] }
func (r *reading) since(at time.Time) []api.StatsMinute  { return r.minutes[r.find(at):] }

func (r *reading) find(at time.Time) int {
	n, _ := slices.BinarySearchFunc(r.minutes, at, func(m api.StatsMinute, at time.Time) int { return m.At.Compare(at) })
	return n
}

// read reads the minutes from first to the one before end, in one pipeline.
func (s *Store) read(ctx context.Context, first, end int64) ([]api.StatsMinute, error) {
	cmds := make([]redis.Cmder, end-first)
	for i := range cmds {
		cmds[i] = redis.NewStringSliceCmd(ctx, "hvals", keyOf(first+int64(i)))
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		return nil, fmt.Errorf("read the counts of %d minutes: %w", len(cmds), err)
	}
	minutes := []api.StatsMinute{}
	for i, cmd := range cmds {
		values, err := cmd.(*redis.StringSliceCmd).Result()
		if err != nil {
			return nil, fmt.Errorf("read the counts of a minute: %w", err)
		}
		if len(values) == 0 {
			continue
		}
		counts := Counts{}
		for _, text := range values {
			counts.addText(text)
		}
		minutes = append(minutes, counts.minute(api.At(s.start(first+int64(i)))))
	}
	return minutes, nil
}
