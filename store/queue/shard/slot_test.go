package shard_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fanfare/store/queue/shard"
	"fanfare/store/storetest"
)

// TestShardsLieEvenlyOnMasters: masters of equal ranges of slots, as redis-cli makes them,
// have equal numbers of shards of each queue and of all queues, give or take one.
func TestShardsLieEvenlyOnMasters(t *testing.T) {
	t.Parallel()
	queues := []string{"events", "notifications", "jobs"}
	slots := map[int][]int{}
	for _, shards := range []int{1, 2, 4, 8, 12, 40, 256} {
		for _, name := range queues {
			for n := range shards {
				slots[shards] = append(slots[shards], slotOf(shard.Prefix(name, n, shards)))
			}
		}
	}
	for shards, all := range slots {
		for _, masters := range []int{3, 4, 5, 6, 7, 8, 10, 14} {
			mustBeEven(t, fmt.Sprintf("%d shards of all queues", shards), all, masters)
			for i, name := range queues {
				mustBeEven(t, fmt.Sprintf("%d shards of %s", shards, name), all[i*shards:(i+1)*shards], masters)
			}
		}
	}
}

func mustBeEven(t *testing.T, what string, slots []int, masters int) {
	t.Helper()
	var has []int
	for master, from := 0, 0.0; master < masters; master++ {
		till := from + 16384/float64(masters)
		first, last := int(math.Round(from)), int(math.Round(till-1))
		n := 0
		for _, slot := range slots {
			if slot >= first && slot <= last {
				n++
			}
		}
		has, from = append(has, n), till
	}
	if slices.Max(has)-slices.Min(has) > 1 {
		t.Errorf("%s on %d masters: %v", what, masters, has)
	}
}

// slotOf computes a key's slot bit by bit, as the specification of Redis Cluster says.
func slotOf(key string) int {
	sum := uint16(0)
	for _, b := range []byte(key[strings.Index(key, "{")+1 : strings.Index(key, "}")]) {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum & 0x8000
			if sum <<= 1; carry != 0 {
				sum ^= 0x1021
			}
		}
	}
	return int(sum % 16384)
}

// TestAClusterHasTheShardsWhereTheyAreComputed asks Redis itself.
func TestAClusterHasTheShardsWhereTheyAreComputed(t *testing.T) {
	t.Parallel()
	c := storetest.Open(t, storetest.Cluster(t).URL()).Client()
	for i, name := range []string{"events", "notifications", "jobs"} {
		for n := range 8 {
			key := shard.Prefix(name, n, 8)
			slot, err := c.ClusterKeySlot(t.Context(), key+"main").Result()
			if want := int64(2*(3*n+i)+1) * 16384 / 48; err != nil || slot != want || slot != int64(slotOf(key)) {
				t.Errorf("%s is in slot %d, not %d: %v", key, slot, want, err)
			}
		}
	}
}
