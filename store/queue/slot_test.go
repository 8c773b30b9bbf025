package queue_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestAllKeysOfAShardShareASlot leaves one of everything and computes slots.
func TestAllKeysOfAShardShareASlot(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		w := setup(t, db)
		jobs := []queue.Job{{Type: "dead", Key: "k", Unique: "u", Group: queue.NewID(0, epoch), Guard: "g", Attachment: []string{"a"}},
			{Key: "held"}, {Key: "held"}, {Delay: time.Hour}, {Type: "park"}, {Type: "ok"}}
		if err := w.q.SetGuard(t.Context(), 0, "g", "v", time.Minute); err != nil {
			t.Fatal(err)
		}
		w.mustEnqueue(jobs...)
		if _, _, err := w.q.EnqueueOnce(t.Context(), queue.Once{Key: "{x}", Body: sha256.Sum256(nil)}, queue.Job{ID: queue.NewID(0, epoch)}); err != nil {
			t.Fatal(err)
		}
		hold := make(chan bool)
		var ran atomic.Int64
		w.run(queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			defer ran.Add(1)
			switch {
			case c.Type == "dead":
				return queue.Result{Outcome: queue.Dead}
			case c.Type == "park":
				return queue.Result{Outcome: queue.Park, Parked: "app:{x}"}
			case c.Key == "held":
				<-hold
			}
			return queue.Result{}
		}))
		defer close(hold)
		eventually(t, "the others ran", func() bool { return ran.Load() == 4 })
		eventually(t, "one of everything is there", func() bool { return len(w.mustKeys()) >= 17 })
		kinds := map[string]bool{}
		for _, key := range w.mustKeys() {
			if strings.HasSuffix(key, "}:meta") {
				continue
			}
			if !strings.HasPrefix(key, w.prefix(0)) {
				t.Errorf("key %s has another tag", key)
			}
			kinds[strings.SplitN(strings.TrimPrefix(key, w.prefix(0)), ":", 2)[0]] = true
		}
		t.Logf("%d kinds of keys: %v", len(kinds), kinds)
	})
}

// TestShardsLieEvenlyOnMasters: masters of equal ranges of slots, as redis-cli makes them,
// have equal numbers of shards of each queue and of all queues, give or take one.
func TestShardsLieEvenlyOnMasters(t *testing.T) {
	t.Parallel()
	queues := []string{"events", "notifications", "jobs"}
	slots := map[int][]int{}
	for _, shards := range []int{1, 2, 4, 8, 12, 40, 256} {
		for _, name := range queues {
			for shard := range shards {
				slots[shards] = append(slots[shards], slotOf(queue.Prefix(name, shard, shards)))
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
		for shard := range 8 {
			key := queue.Prefix(name, shard, 8)
			slot, err := c.ClusterKeySlot(t.Context(), key+"main").Result()
			if want := int64(2*(3*shard+i)+1) * 16384 / 48; err != nil || slot != want || slot != int64(slotOf(key)) {
				t.Errorf("%s is in slot %d, not %d: %v", key, slot, want, err)
			}
		}
	}
}
