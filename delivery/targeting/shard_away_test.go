package targeting_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/queuetest"
	"fanfare/store/queue/shard"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// awayShard finds a master of a Cluster that has shards of notifications, but neither the given
// shard of events nor anything else that targeting an event needs. It returns a function that tells
// whether a shard of notifications is on that master.
func awayShard(t *testing.T, c *storetest.RedisCluster, events int) (away *storetest.RedisServer, isAway func(shard int) bool) {
	t.Helper()
	needed := map[*storetest.RedisServer]bool{}
	for _, key := range []string{"ff:{apps}", "ff:{q:events}:meta", "ff:{q:notifications}:meta", shard.Prefix("events", events, 8)} {
		needed[c.MasterOf(t, key)] = true
	}
	masterOf := func(n int) *storetest.RedisServer {
		return c.MasterOf(t, shard.Prefix("notifications", n, 8))
	}
	for shard := range 8 {
		if away = masterOf(shard); !needed[away] {
			return away, func(shard int) bool { return masterOf(shard) == away }
		}
	}
	return nil, nil
}

// TestAShardThatIsAwayHoldsUpItsOwnUsersAlone: all notifications of a batch of events have to wait, and only those
// cannot be stored whose shard is away. The others get their notifications once, even if the outage is so long that the
// tombstones of stored notifications expire.
func TestAShardThatIsAwayHoldsUpItsOwnUsersAlone(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	for _, node := range cluster.Nodes { // otherwise all masters would refuse
		storetest.Must(t, node.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	db := storetest.OpenWith(t, redisdb.Options{URL: cluster.URL(), Timeout: 500 * time.Millisecond})
	p := setup(t, options{db: db, idle: true, waits: true, queue: func(o *queue.Options) {
		o.Lease, o.RetryMax = 30*time.Second, 100*time.Millisecond
	}})
	events, away, isAway := 0, (*storetest.RedisServer)(nil), func(int) bool { return false }
	for ; away == nil; events++ {
		away, isAway = awayShard(t, cluster, events)
	}
	events--

	n := 0
	mustDevice := func(user string, there bool) string {
		for ; isAway(p.first.queueOfNotes.Route(token(n))) == there; n++ {
		}
		p.mustDevice(user, n)
		n++
		return token(n - 1)
	}
	fine := []string{mustDevice("ann", true), mustDevice("bob", true), mustDevice("both", true), mustDevice("twice", true)}
	late := []string{mustDevice("cut", false), mustDevice("late", false), mustDevice("twice", false)}
	batch := &api.EventBatchRequest{}
	for _, users := range [][]string{{"ann"}, {"cut"}, {"bob"}, {"both", "late"}, {"twice"}} {
		batch.Events = append(batch.Events, *hello(users...))
	}
	once := api.Idempotency{Scope: p.scope}
	for i := 0; once.Key == "" || p.first.queueOfEvents.Route(once.Name()) != events; i++ {
		once.Key = fmt.Sprint("batch", i)
	}

	worker := p.process()
	worker.start()
	for _, q := range []*queue.Queue{worker.queueOfEvents, worker.queueOfNotes} {
		storetest.Eventually(t, soon, "all shards are served", func() bool {
			stats, err := q.Stats(t.Context())
			return err == nil && len(stats.Unserved) == 0
		})
	}
	p.mustEnd(p.mustPost(hello("nobody")), api.EventDone) // and every master has the scripts
	away.Pause()
	defer away.Resume()
	a, _, err := p.first.events.AcceptBatch(t.Context(), batch, once)
	storetest.Must(t, err)
	storetest.Eventually(t, soon, "the users of other shards to be sent to", func() bool {
		for _, token := range fine {
			if len(p.apns.Of(token)) == 0 {
				return false
			}
		}
		return true
	})
	state := func(i int) string {
		text, err := queuetest.Report(t.Context(), p.first.queueOfEvents, a.Items[i].ID)
		storetest.Must(t, err)
		return text
	}
	for _, i := range []int{0, 2} {
		storetest.Eventually(t, soon, "the events of other shards to end", func() bool { return strings.HasPrefix(state(i), "S") })
	}
	for _, i := range []int{3, 4} {
		storetest.Eventually(t, soon, "what is stored of the others to be on record", func() bool { return strings.HasPrefix(state(i), "S") })
	}
	if text := state(1); !strings.HasPrefix(text, "Q") {
		t.Errorf("an event of which nothing is stored: %q", text)
	}
	for _, token := range late {
		if len(p.apns.Of(token)) > 0 {
			t.Error("a device was sent to whose shard is away")
		}
	}

	for _, token := range fine {
		jobs := p.prefixOf(token) + "jobs:*"
		storetest.Eventually(t, soon, "the ends of the others to be on record", func() bool {
			for _, node := range cluster.Nodes {
				if node == away {
					continue
				}
				if keys, err := node.Client().Keys(t.Context(), jobs).Result(); err != nil || len(keys) > 0 {
					return false
				}
			}
			return true
		})
	}
	for _, node := range cluster.Nodes { // the tombstones have expired
		if node != away {
			keys, err := node.Client().Keys(t.Context(), "ff:{q:notifications:*}:done:*").Result()
			storetest.Must(t, err)
			for _, key := range keys {
				storetest.Must(t, node.Client().Del(t.Context(), key).Err())
			}
		}
	}
	away.Resume()
	for i, users := range []int64{1, 1, 1, 2, 1} {
		devices := users
		if i == 4 {
			devices = 2
		}
		p.mustCounts(p.mustEnd(a.Items[i].ID, api.EventDone), counts{users, devices, devices, 0, 0})
	}
	for _, token := range append(fine, late...) {
		if n := len(p.apns.Of(token)); n != 1 {
			t.Errorf("a device was sent to %d times", n)
		}
	}
}
