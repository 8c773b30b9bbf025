package redisdb

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockFresh is how long the reading of a clock is reckoned on from.
const clockFresh = 10 * time.Second

// clockReadings are the last readings of the masters' clocks.
type clockReadings struct {
	mu   sync.Mutex
	last map[*redis.Client]clockReading
}

type clockReading struct {
	told time.Time // by Redis
	at   time.Time // here; only its monotonic part counts
}

func (r clockReading) now() (now time.Time, fresh bool) {
	passed := time.Since(r.at)
	return r.told.Add(passed), !r.at.IsZero() && passed < clockFresh
}

// Now is the time by the clock of the master that has a key, whatever the clock of
// this machine says. It costs a round trip every 10 s, and is late by at most half
// of one.
func (db *DB) Now(ctx context.Context, key string) (time.Time, error) {
	node, err := db.masterOf(ctx, key)
	if err != nil {
		return time.Time{}, db.Err(err, Read)
	}
	db.clocks.mu.Lock()
	now, fresh := db.clocks.last[node].now()
	db.clocks.mu.Unlock()
	if fresh {
		return now, nil
	}
	cmd := redis.NewTimeCmd(ctx, "time")
	if err := db.Share(ctx, Read, clockOf{cmd, key}); err != nil {
		return time.Time{}, err
	}
	told, err := cmd.Result()
	if err != nil {
		return time.Time{}, db.Err(err, Read)
	}
	db.clocks.mu.Lock()
	defer db.clocks.mu.Unlock()
	if db.clocks.last == nil {
		db.clocks.last = map[*redis.Client]clockReading{}
	}
	db.clocks.last[node] = clockReading{told, time.Now()}
	return told, nil
}

// Clock is the time by Redis' clock as Run or Check read it last, of several masters the
// middle one, reckoned on by the time that has passed: at no cost, a little late, and
// right whatever happens to this machine's clock. Before the first reading, and of an
// embedded Redis, it is this machine's.
func (db *DB) Clock() time.Time {
	if r := db.present.Load(); r != nil {
		now, _ := r.now()
		return now
	}
	return time.Now()
}

// middle is the reading of which as many are later as earlier.
func middle(all []clockReading) *clockReading {
	slices.SortFunc(all, func(a, b clockReading) int { return a.told.Add(b.at.Sub(a.at)).Compare(b.told) })
	return &all[len(all)/2]
}

// masterOf is the client of the master that has a key.
func (db *DB) masterOf(ctx context.Context, key string) (*redis.Client, error) {
	switch client := db.client.(type) {
	case *redis.Client:
		return client, nil
	case *redis.ClusterClient:
		return client.MasterForKey(ctx, key)
	}
	return nil, errors.New("no master is known")
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
	clocks := map[*redis.Client]*redis.TimeCmd{}
	for i, key := range keys {
		node, err := db.masterOf(ctx, key)
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
