package redisdb

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// Nodes list one map in different orders, and replicas too. Only another master of a slot makes another map.
func TestMastersDigest(t *testing.T) {
	t.Parallel()
	slot := func(start, end int, addrs ...string) (s redis.ClusterSlot) {
		s.Start, s.End = start, end
		for _, addr := range addrs {
			s.Nodes = append(s.Nodes, redis.ClusterNode{Addr: addr})
		}
		return s
	}
	first := mastersDigest([]redis.ClusterSlot{slot(0, 8191, "a:1", "b:1", "c:1"), slot(8192, 16383, "d:1")})
	if mastersDigest([]redis.ClusterSlot{slot(8192, 16383, "d:1"), slot(0, 8191, "a:1", "c:1", "b:1")}) != first {
		t.Error("another order is another map")
	}
	for name, other := range map[string][]redis.ClusterSlot{
		"a replica took over": {slot(0, 8191, "b:1", "a:1", "c:1"), slot(8192, 16383, "d:1")},
		"a slot moved":        {slot(0, 8190, "a:1", "b:1", "c:1"), slot(8191, 16383, "d:1")},
		"nobody has a slot":   {slot(0, 8191), slot(8192, 16383, "d:1")},
	} {
		if mastersDigest(other) == first {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}
