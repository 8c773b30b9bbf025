package redisdb_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// mapReadings counts how often living masters of a Cluster were asked for the map of slots.
func mapReadings(t *testing.T, c *storetest.RedisCluster, dead *storetest.RedisServer) (n int) {
	t.Helper()
	for _, node := range c.Nodes {
		if node == dead {
			continue
		}
		n += storetest.Calls(t, node.Client(), "cluster|slots")
	}
	return n
}

// The client library keeps each map of slots for a minute. In an outage every failed call wants a new one,
// and the maps of a large Cluster would fill a process' memory: so its callers share them.
func TestTheMapOfSlotsIsReadRarely(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, c.URL())
	storetest.Eventually(t, deadline, "the masters are known", func() bool { return db.Reading() != nil })
	dead := c.Nodes[1]

	count := func(what string, most float64, during func(time.Time)) {
		before, began := mapReadings(t, c, dead), time.Now()
		during(began.Add(3 * time.Second))
		if rate := float64(mapReadings(t, c, dead)-before) / time.Since(began).Seconds(); rate > most {
			t.Errorf("%s the map of slots is read %.1f times a second, want at most %v", what, rate, most)
		}
	}
	count("while all is well", 1.5, func(ends time.Time) {
		for ; time.Now().Before(ends); <-time.After(100 * time.Millisecond) {
			_, err := db.Ping(t.Context())
			mustNil(t, err)
		}
	})
	var keys []string
	for i := 0; len(keys) < 100; i++ {
		if key := fmt.Sprint("{", i, "}k"); c.MasterOf(t, key) == dead {
			keys = append(keys, key)
		}
	}
	dead.Kill()
	count("in an outage", 25, func(ends time.Time) {
		var callers sync.WaitGroup
		for _, key := range keys {
			callers.Go(func() {
				for time.Now().Before(ends) {
					if err := db.Pipeline(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, "v")); err == nil {
						t.Error("a write to a dead master succeeded")
					}
				}
			})
		}
		callers.Wait()
	})
}

// The first change of a Cluster's map is noticed at once, also if nothing was read between the start and it.
func TestTheFirstChangeOfTheMap(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0)
	db := storetest.Open(t, c.URL())
	key := "{moved}k"
	set := func() error {
		return db.Pipeline(t.Context(), redisdb.Write, redis.NewCmd(t.Context(), "set", key, "v"))
	}
	mustNil(t, set())
	m := storetest.BeginMove(t, c, key)
	m.Finish()
	storetest.Eventually(t, deadline, "a write at the new master", func() bool { return set() == nil }) // the map is read every 10 s without need
}
