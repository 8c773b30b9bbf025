package queue_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"fanfare/store/queue"
)

// The ids of a batch keep the first one's shard, and no 65 of them its time: their
// reports share small hashes.
func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	first := queue.NewID(200, time.Now())
	seen, times := map[string]bool{}, map[string]int{}
	for n := 1; n < 1000; n++ {
		sum := sha256.Sum256([]byte{byte(n), byte(n >> 8)})
		id := queue.DeriveID(first, sum[:], n)
		if shard, ok := queue.ParseID(id); !ok || shard != 200 || id != queue.DeriveID(first, sum[:], n) {
			t.Fatalf("%s of %s: shard %d, %t", id, first, shard, ok)
		}
		seen[id] = true
		times[id[:6]]++
	}
	if len(seen) != 999 || len(times) != 16 || times[first[:6]] != 63 {
		t.Errorf("%d ids of %d times", len(seen), len(times))
	}
}
