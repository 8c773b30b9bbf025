package wake_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
	"fanfare/store/wake"
)

const soon = 30 * time.Second

// joined is a line to a Redis with one waiter.
func joined(t *testing.T, db *redisdb.DB) (line *wake.Line, told chan struct{}) {
	line = wake.NewLine(db.Blocking())
	told = line.Join(t.Context(), "a")
	t.Cleanup(func() { line.Leave("a", told) })
	return line, told
}

func mustWake(t *testing.T, told chan struct{}, what string) {
	t.Helper()
	select {
	case <-told:
	case <-time.After(soon):
		t.Fatalf("not woken: %s", what)
	}
}

// subscribers counts the connections that a server has for the channel.
func subscribers(t *testing.T, c redis.Cmdable) int64 {
	return c.PubSubNumSub(t.Context(), "a").Val()["a"]
}

// A connection that stays open and brings nothing any more is replaced, and waiters look. So is one that was silent from
// the beginning.
func TestASilentConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	proxy, url := storetest.ProxyTo(t, server.URL())
	var silent atomic.Int64 // that many more connections of pub/sub become silent at once
	proxy.OnSent(func(c *storetest.ProxyConn, b []byte) storetest.Fate {
		if bytes.Contains(b, []byte("ping")) && !c.Marked.Swap(true) && silent.Add(-1) >= 0 {
			c.Swallow()
		}
		return storetest.Pass
	})
	line, told := joined(t, mustOpen(t, url))
	mustWake(t, told, "it listens")
	silent.Store(1)
	for _, c := range proxy.Conns() {
		c.Swallow()
	}
	mustWake(t, told, "the connection was silent")
	storetest.Eventually(t, soon, "Redis has confirmed the third connection", func() bool {
		return silent.Load() < 0 && line.Waiting("a") == 1 && subscribers(t, server.Client()) == 1
	})
}

// A line joins a Cluster of which a node hangs, and finds another node for the one that hangs.
func TestALineLeavesANodeThatHangs(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	_, told := joined(t, mustOpen(t, cluster.URL()))
	mustWake(t, told, "it listens")
	var hangs *storetest.RedisServer
	for _, node := range cluster.Nodes {
		if subscribers(t, node.Client()) == 1 {
			hangs = node
		}
	}
	hangs.Pause()
	defer hangs.Resume()
	storetest.Eventually(t, soon, "another node has the subscription", func() bool {
		for _, node := range cluster.Nodes {
			if node != hangs && subscribers(t, node.Client()) == 1 {
				return true
			}
		}
		return false
	})
}

// mustOpen opens a Redis without its background work.
func mustOpen(t *testing.T, url string) *redisdb.DB {
	t.Helper()
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: url})
	storetest.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}
