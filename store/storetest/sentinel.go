package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// sentinels is the number of sentinels; quorum is how many of them must agree.
const (
	sentinels  = 3
	quorum     = 2
	masterName = "mymaster"
)

// RedisSentinel is a master with one replica, watched by three sentinels.
type RedisSentinel struct {
	First, Second *RedisServer // the master and the replica at the start
	watchers      []*RedisServer
}

// Sentinel starts a master, its replica and three sentinels for one test; the
// servers may be killed. A dead master is replaced within a few seconds.
func Sentinel(t testing.TB) *RedisSentinel {
	t.Helper()
	s := &RedisSentinel{First: Redis(t)}
	s.Second = Redis(t, "--replicaof", fmt.Sprintf("127.0.0.1 %d", s.First.Port()))
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	Eventually(t, startTimeout, "the replica follows", func() bool { return linked(ctx, s.Second.Client()) })
	for range sentinels {
		s.watchers = append(s.watchers, mustStartSentinel(t, s.First.Port()))
	}
	Eventually(t, startTimeout, "the sentinels know each other", func() bool { return s.complete(ctx) })
	return s
}

// mustStartSentinel writes a configuration file, because a sentinel keeps its state in it.
func mustStartSentinel(t testing.TB, masterPort int) *RedisServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %[1]s 127.0.0.1 %[2]d %[3]d\n"+
		"sentinel down-after-milliseconds %[1]s 500\n"+
		"sentinel failover-timeout %[1]s 3000\n"+
		"sentinel parallel-syncs %[1]s 1\n", masterName, masterPort, quorum)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return redisFrom(t, file, "--sentinel")
}

// complete reports whether each sentinel sees the others and the replica.
func (s *RedisSentinel) complete(ctx context.Context) bool {
	for _, watcher := range s.watchers {
		state, err := watcher.sentinelState(ctx)
		if err != nil || state["num-other-sentinels"] != fmt.Sprint(sentinels-1) || state["num-slaves"] != "1" {
			return false
		}
	}
	return true
}

func (s *RedisServer) sentinelState(ctx context.Context) (map[string]string, error) {
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addr(), Protocol: 2, DisableIdentity: true})
	defer client.Close()
	return client.Master(ctx, masterName).Result()
}

// URL is the URL for redisdb.Options.
func (s *RedisSentinel) URL() string {
	addrs := make([]string, len(s.watchers))
	for i, watcher := range s.watchers {
		addrs[i] = watcher.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + masterName
}

// Master is the server that is the master now, according to the sentinels.
func (s *RedisSentinel) Master(t testing.TB) *RedisServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	state, err := s.watchers[0].sentinelState(ctx)
	if err != nil {
		t.Fatalf("ask a sentinel: %v", err)
	}
	if state["port"] == fmt.Sprint(s.First.Port()) {
		return s.First
	}
	return s.Second
}
