package redisdb

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockFresh is how long the present time is computed from one reading of a clock.
const clockFresh = 10 * time.Second

// clockReadings are the last readings of the masters' clocks.
type clockReadings struct {
	mu   sync.Mutex
	last map[Client]clockReading
}

type clockReading struct {
	told time.Time // by Redis
	at   time.Time // here; only its monotonic part counts
}

func (r clockReading) now() (now time.Time, fresh bool) {
	passed := time.Since(r.at)
	return r.told.Add(passed), !r.at.IsZero() && passed < clockFresh
}

// Now is the time by the clock of the master that has a key, independent of this machine's clock.
// It costs a round trip every 10 s, and is late by at most half a round trip.
func (db *DB) Now(ctx context.Context, key string) (time.Time, error) {
	node, err := masterOf(ctx, db.client, key)
	if err != nil {
		return time.Time{}, db.Err(err, Read)
	}
	db.clocks.mu.Lock()
	now, fresh := db.clocks.last[node].now()
	db.clocks.mu.Unlock()
	if fresh {
		return now, nil
	}
	told, err := Value(ctx, db, Read, clockOf{redis.NewTimeCmd(ctx, "time"), key})
	if err != nil {
		return time.Time{}, db.Err(err, Read)
	}
	db.clocks.mu.Lock()
	defer db.clocks.mu.Unlock()
	if db.clocks.last == nil {
		db.clocks.last = map[Client]clockReading{}
	}
	db.clocks.last[node] = clockReading{told, time.Now()}
	return told, nil
}

// Clock is the time by Redis' clock: the last reading by Run or Check, of several masters the
// middle one, plus the time that has passed since. It needs no round trip, is a little late, and
// does not depend on this machine's clock. Before the first reading, and with an embedded Redis, it
// is this machine's clock.
func (db *DB) Clock() time.Time {
	if r := db.present.Load(); r != nil {
		now, _ := r.now()
		return now
	}
	return time.Now()
}

// middle is the median of the readings.
func middle(all []clockReading) *clockReading {
	slices.SortFunc(all, func(a, b clockReading) int { return a.told.Add(b.at.Sub(a.at)).Compare(b.told) })
	return &all[len(all)/2]
}

// clockOf is TIME of the master that has a key. The command itself names none.
type clockOf struct {
	*redis.TimeCmd
	key string
}

// Clocks makes the commands that read the clock of every master that has one of the
// keys. of[i] is the command for keys[i], nil when the Cluster does not know which master
// has that key. The clocks of masters differ: compare each with itself.
func (db *DB) Clocks(ctx context.Context, keys []string) (cmds []redis.Cmder, of []*redis.TimeCmd) {
	of = make([]*redis.TimeCmd, len(keys))
	clocks := map[Client]*redis.TimeCmd{}
	for i, key := range keys {
		node, err := masterOf(ctx, db.client, key)
		if err != nil {
			continue
		}
		if clocks[node] == nil {
			clocks[node] = redis.NewTimeCmd(ctx, "time")
			cmds = append(cmds, clockOf{clocks[node], key})
		}
		of[i] = clocks[node]
	}
	return cmds, of
}
