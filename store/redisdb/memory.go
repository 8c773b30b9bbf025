package redisdb

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// memoryEvery is how often the masters' memory is read.
	memoryEvery = time.Second
	// fullPercent is the use of maxmemory from which on new work is refused, so that
	// accepted work can finish.
	fullPercent = 90
)

// Overloaded is nil, or an *api.Error with a RetryAfter while any master that answers uses 90 % of
// its maxmemory or more. It makes no round trip: Run reads the memory.
func (db *DB) Overloaded() error {
	if e := db.full.Load(); e != nil {
		return e
	}
	return nil
}

func (db *DB) watchMemory(ctx context.Context) error {
	ticker := time.NewTicker(memoryEvery)
	defer ticker.Stop()
	for {
		db.readMemory(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Reading is what the masters reported about themselves last, at most some two seconds ago.
type Reading struct {
	// Used is the part of its maxmemory that the fullest master uses; 0: there is no limit.
	Used float64
	// Limit is the sum of the masters' maxmemory in bytes; 0: one has none.
	Limit int64
	// ClockAhead is how far this machine's clock is ahead of a master's clock, or behind if it is
	// negative, for the master with the largest difference. It is accurate to half a round trip.
	ClockAhead time.Duration
}

// Reading is the last reading of Run or Check; nil while no master answers, or if Redis is
// embedded.
func (db *DB) Reading() *Reading { return db.reading.Load() }

// readMemory decides by the masters that answer. The calls themselves report a master that is away.
// While none answers, the last state stays.
func (db *DB) readMemory(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, db.o.Timeout)
	defer cancel()
	r, answered := db.read(ctx)
	db.reading.Store(r)
	db.absences.note(answered, time.Now())
	if r == nil {
		return
	}
	was, percent := db.full.Load() != nil, int64(r.Used*100)
	switch is := percent >= fullPercent; {
	case is && !was:
		db.full.Store(overloaded())
		db.o.Logger.WarnContext(ctx, "redis is nearly full: new work is refused", "used_percent", percent)
	case !is && was:
		db.full.Store(nil)
		db.o.Logger.InfoContext(ctx, "redis has room again", "used_percent", percent)
	}
}

// read asks all masters, and tells of each by its name whether it answered, be it with an error of its own: a user may lack the
// right to ask. nil: none can be read, or Redis is embedded.
func (db *DB) read(ctx context.Context) (all *Reading, answered map[string]bool) {
	if db.embedded != nil {
		return nil, map[string]bool{theMaster: true}
	}
	var mu sync.Mutex
	var clocks []clockReading
	answered, least := map[string]bool{}, int64(math.MaxInt64)
	_ = db.eachMaster(ctx, func(ctx context.Context, c Client) error { // answered says which failed
		one, clock, err := readMaster(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		if !clock.at.IsZero() {
			clocks = append(clocks, clock)
		}
		if answered[db.nameOf(c)] = err == nil || !db.Away(err); err != nil {
			return err
		}
		if all == nil {
			all = &Reading{}
		}
		all.Used, all.Limit, least = max(all.Used, one.Used), all.Limit+one.Limit, min(least, one.Limit)
		if one.ClockAhead.Abs() > all.ClockAhead.Abs() {
			all.ClockAhead = one.ClockAhead
		}
		return nil
	})
	if all != nil && least == 0 {
		all.Limit = 0
	}
	if len(clocks) > 0 {
		db.present.Store(middle(clocks))
	}
	return all, answered
}

// readMaster reads a master's memory and clock. The clock is also given if the memory cannot be read.
func readMaster(ctx context.Context, c Client) (r Reading, clock clockReading, err error) {
	pipe := c.Pipeline()
	memory, told := pipe.InfoMap(ctx, "memory"), pipe.Time(ctx)
	ping := pipe.Ping(ctx) // which a master refuses while it loads its data
	asked := time.Now()
	_, _ = pipe.Exec(ctx) // each command has its own error
	if told.Err() == nil {
		clock = clockReading{told.Val(), time.Now()}
	}
	if err := cmp.Or(memory.Err(), told.Err()); err != nil {
		return r, clock, err
	}
	if err := ping.Err(); err != nil && classify(err) != answered {
		return r, clock, err
	}
	limit, _ := strconv.ParseInt(memory.Item("Memory", "maxmemory"), 10, 64)
	if r.Limit = limit; limit > 0 {
		used, _ := strconv.ParseInt(memory.Item("Memory", "used_memory"), 10, 64)
		r.Used = float64(used) / float64(limit)
	}
	r.ClockAhead = clockAhead(asked, clock.at, clock.told)
	return r, clock, nil
}

// clockAhead is how far this machine's clock is ahead of a clock that was read between two times.
func clockAhead(asked, answered, told time.Time) time.Duration {
	return answered.Round(0).Sub(told) - answered.Sub(asked)/2
}

// Check looks for settings with which Redis may lose work, and returns a sentence for each finding.
// A Redis that does not answer, or does not show its settings, is also a finding. The caller
// reports an embedded Redis, which loses all work when the process ends. After Check there is a
// Reading, and Clock is Redis' clock.
func (db *DB) Check(ctx context.Context) []string {
	if db.embedded != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, db.o.Timeout)
	defer cancel()
	r, _ := db.read(ctx)
	db.reading.Store(r)
	settings := wanted
	if db.kind == kindCluster {
		settings = slices.Concat(wanted, wantedInCluster)
	}
	var mu sync.Mutex
	var found []string
	err := db.eachMaster(ctx, func(ctx context.Context, c Client) error {
		warnings := checkNode(ctx, c, settings)
		mu.Lock()
		defer mu.Unlock()
		found = append(found, warnings...)
		return nil
	})
	if err != nil {
		found = append(found, fmt.Sprintf("Redis cannot be checked: %v", err))
	}
	return found
}

// wanted are the settings with which Redis loses no work. A master of a Cluster needs those of the
// second list as well.
var (
	wanted = []setting{
		{"maxmemory-policy", "noeviction", "queued work may be evicted"},
		{"appendonly", "yes", "a restart loses what was written since the last snapshot"},
	}
	wantedInCluster = []setting{
		{"cluster-require-full-coverage", "no", "all masters refuse everything while one is away and has no replica left"},
	}
)

type setting struct{ name, value, why string }

func checkNode(ctx context.Context, c Client, settings []setting) []string {
	var found []string
	addr := addrOf(c)
	for _, w := range settings {
		got, err := c.ConfigGet(ctx, w.name).Result()
		switch {
		case err != nil:
			found = append(found, fmt.Sprintf("Redis %s: %s cannot be read: %v", addr, w.name, err))
		case got[w.name] != w.value:
			found = append(found, fmt.Sprintf("Redis %s: %s is %q, should be %q: %s", addr, w.name, got[w.name], w.value, w.why))
		}
	}
	if err := tryChannel(ctx, c); err != nil {
		found = append(found, fmt.Sprintf("Redis %s: the user of Redis may not use the channels of fanfare, so that streams get nothing new: %v", addr, err))
	}
	return found
}

// tryChannel publishes and subscribes to a channel. Since Redis 7.0 a new user has no channels.
func tryChannel(ctx context.Context, c Client) error {
	sub := Subscribe(ctx, c, checkChannel)
	defer func() { _ = sub.Close() }()
	_, err := sub.Receive(ctx)
	return cmp.Or(err, c.Publish(ctx, checkChannel, "").Err())
}
