package devices

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/redisdb"
)

// fillBatch is how many users are filled by one pipeline.
const fillBatch = 100

// Query asks how an event of a type about an object, which may be "", reaches one user. Mark, if
// set, is a key of Redis whose existence is read in the same round trip. With NoFill the read does
// not put a missing user into the cache: users of a large audience are read once and would take
// memory for 10 minutes.
type Query struct {
	User, Type, Object string
	Mark               string
	NoFill             bool
}

// Target answers a Query. Devices has the devices that get notifications, active and suspect, in
// the order of their tokens.
type Target struct {
	User     string
	OptedOut bool
	Muted    bool
	Devices  []api.Device
	// Activities are the user's activities, which are no devices, also ended ones.
	Activities []api.Device
	// Marked reports whether the query's Mark exists; it is false without Redis.
	Marked bool
	// Err says that this user could not be read. The other fields are then empty.
	Err error
}

// Targets answers many queries, in their order. Cached users are read in one pipeline. The others
// are read with one SQL query for each table, and are then cached unless NoFill is set. Users whose
// Redis is away are read from SQL. Without SQL, cached users are still answered, and the others
// have an Err, which is also returned.
func (s *Store) Targets(ctx context.Context, queries []Query) ([]Target, error) {
	read := s.readCache(ctx, queries)
	var missed []string
	for i, q := range queries {
		if !read.found[i].hit {
			missed = append(missed, q.User)
		}
	}
	if len(missed) == 0 {
		return read.targets, nil
	}
	slices.Sort(missed)
	missed = slices.Compact(missed)
	found, err := s.rec.Snapshots(ctx, missed)
	for i, q := range queries {
		if !read.found[i].hit {
			read.targets[i] = targetOf(q, found[q.User], err)
			read.targets[i].Marked = read.found[i].marked()
		}
	}
	if err == nil {
		s.fillUsers(ctx, read, found)
	}
	return read.targets, err
}

// errNotCached says that the settings of a user are only in SQL.
var errNotCached = errors.New("the user's settings are not cached")

// CachedTargets answers like Targets but does not ask SQL. The targets of users who are not cached
// have an Err, which is also returned.
func (s *Store) CachedTargets(ctx context.Context, queries []Query) ([]Target, error) {
	read, err := s.readCache(ctx, queries), error(nil)
	for i := range queries {
		if !read.found[i].hit {
			err = errNotCached
			read.targets[i] = Target{User: queries[i].User, Err: err}
		}
	}
	return read.targets, err
}

// cacheRead is the result of reading the cache.
type cacheRead struct {
	targets []Target
	found   []cached
	// missed are the users to cache: Redis answered that they are not cached. Each has the time of
	// that Redis before the read, in ms.
	missed map[string]int64
	start  time.Time // the same on this process's clock
}

// cached is what the cache answered to one query.
type cached struct {
	get  *redis.SliceCmd
	mark *redis.IntCmd // nil for a query without a mark
	hit  bool
}

func (s *Store) readCache(ctx context.Context, queries []Query) *cacheRead {
	l := &cacheRead{targets: make([]Target, len(queries)), found: make([]cached, len(queries)), start: time.Now()}
	keys := make([]string, len(queries))
	for i, q := range queries {
		keys[i] = settingsKey(q.User)
	}
	cmds, clocks := s.db.Clocks(ctx, keys) // read first, because the age of a read counts from before its first command
	for i, q := range queries {
		f := &l.found[i]
		f.get = redis.NewSliceCmd(ctx, "hmget", keys[i], fieldDevices, fieldOptOut+q.Type, fieldMute+q.Object)
		cmds = append(cmds, f.get)
		if q.Mark != "" {
			f.mark = redis.NewIntCmd(ctx, "exists", q.Mark)
			cmds = append(cmds, f.mark)
		}
	}
	if err := s.db.Pipeline(ctx, redisdb.Read, cmds...); err != nil {
		s.o.Logger.Debug("the cache was not read for all users; SQL is asked for the others", "error", err)
	}
	for i, q := range queries {
		f := &l.found[i]
		if f.get.Err() != nil {
			continue
		}
		now, known := l.start, clocks[i] != nil && clocks[i].Err() == nil
		if known {
			now = clocks[i].Val()
		}
		l.targets[i], f.hit = decodeHit(q, f.get.Val(), now.UnixMilli())
		l.targets[i].Marked = f.marked()
		if known && !f.hit && !q.NoFill {
			if l.missed == nil {
				l.missed = map[string]int64{}
			}
			l.missed[q.User] = now.UnixMilli()
		}
	}
	return l
}

// marked reports whether the query's mark exists.
func (c *cached) marked() bool { return c.mark != nil && c.mark.Err() == nil && c.mark.Val() > 0 }

// decodeHit reads an entry's devices, opt-out and mute. It returns false if there is no entry, or
// none that this version understands.
func decodeHit(q Query, values []any, now int64) (Target, bool) {
	t := Target{User: q.User}
	if len(values) != 3 {
		return t, false
	}
	text, ok := values[0].(string)
	if !ok {
		return t, false
	}
	if t.Devices, ok = parseDevices(text); !ok {
		return t, false
	}
	t.divide()
	_, t.OptedOut = values[1].(string)
	if until, muted := values[2].(string); muted {
		end, err := strconv.ParseInt(until, 10, 64)
		t.Muted = err == nil && (end == 0 || end > now)
	}
	return t, true
}

// targetOf makes a target from a user's settings in SQL.
func targetOf(q Query, found *record.Snapshot, err error) Target {
	if err != nil {
		return Target{User: q.User, Err: err}
	}
	t := Target{
		User:     q.User,
		OptedOut: slices.Contains(found.OptOuts, q.Type),
		Muted:    slices.ContainsFunc(found.Mutes, func(m api.Mute) bool { return m.Object == q.Object }),
		Devices:  found.Devices,
	}
	t.divide()
	return t
}

// divide moves activities out of the devices.
func (t *Target) divide() {
	isActivity := func(d api.Device) bool { return d.Live != nil }
	if !slices.ContainsFunc(t.Devices, isActivity) {
		return
	}
	all := t.Devices
	t.Devices = make([]api.Device, 0, len(all))
	for _, d := range all {
		if isActivity(d) {
			t.Activities = append(t.Activities, d)
		} else {
			t.Devices = append(t.Devices, d)
		}
	}
}

// fillUsers puts the settings of the missed users, as read from SQL, into the cache. If Redis is
// nearly full it does nothing, because the rest of the memory is for work.
func (s *Store) fillUsers(ctx context.Context, l *cacheRead, found map[string]*record.Snapshot) {
	memory := s.db.Reading()
	if time.Since(l.start) > maxRead || memory != nil && memory.Used > fillBelow {
		return
	}
	for users := range slices.Chunk(slices.Sorted(maps.Keys(l.missed)), fillBatch) {
		cmds := make([]redis.Cmder, 0, len(users))
		for _, u := range users {
			cmds = append(cmds, s.fillUser(ctx, l.missed[u], u, found[u]))
		}
		if err := s.send(ctx, cmds); err != nil {
			s.o.Logger.Debug("settings were not cached", "error", err)
			return
		}
	}
}

func (s *Store) fillUser(ctx context.Context, began int64, user string, found *record.Snapshot) *redis.Cmd {
	args := []any{found.Version, began, maxRead.Milliseconds(), entryTTL.Milliseconds(), fieldDevices, devicesText(found.Devices)}
	for _, typ := range found.OptOuts {
		args = append(args, fieldOptOut+typ, "1")
	}
	for _, m := range found.Mutes {
		var until int64
		if m.Until != nil {
			until = m.Until.UnixMilli()
		}
		args = append(args, fieldMute+m.Object, until)
	}
	return s.fill.Cmd(ctx, []string{settingsKey(user), changingKey(user)}, args...)
}
