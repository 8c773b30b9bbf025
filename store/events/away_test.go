package events_test

import (
	"context"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/queue/shard"
	"fanfare/store/storetest"
)

// TestAccept_OneMasterAway: an event without an Idempotency-Key goes to a shard that can
// be reached. Who finds that one cannot is refused; he is the only one for a while, also
// in a process that does not work on events itself. When it is back it is used again.
func TestAccept_OneMasterAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, cluster.URL())
	w := setupOn(t, db, storetest.SQLite(t))
	isAway := map[int]bool{}
	away := cluster.MasterOf(t, shard.Prefix("events", 0, w.queue.Shards()))
	for n := range w.queue.Shards() {
		isAway[n] = cluster.MasterOf(t, shard.Prefix("events", n, w.queue.Shards())) == away
	}
	w.mustAccept(event("ann"), api.Idempotency{})
	away.Pause()
	defer away.Resume()
	refused, began := 0, time.Now()
	for i := 0; i < 300 && time.Since(began) < time.Minute; i++ {
		now := time.Now().Add(time.Duration(i) * 5 * time.Millisecond) // another moment each
		w.now.Store(&now)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		a, _, err := w.events.Accept(ctx, event("ann"), api.Idempotency{})
		cancel()
		if err != nil {
			refused++
			continue
		}
		if shard, _ := queue.ParseID(a.ID); isAway[shard] {
			t.Errorf("an event is in shard %d, which is away", shard)
		}
	}
	// Each shard that is away is tried once in 5 s.
	if most := w.queue.Shards() * (1 + int(time.Since(began)/(5*time.Second))); refused > most {
		t.Errorf("%d of 300 events were refused in %v, at most %d should be", refused, time.Since(began), most)
	}
	away.Resume()
	storetest.Eventually(t, time.Minute, "the shards that were away are used again", func() bool {
		now := time.Now()
		w.now.Store(&now)
		a, _, err := w.events.Accept(t.Context(), event("ann"), api.Idempotency{})
		if err != nil {
			return false
		}
		shard, _ := queue.ParseID(a.ID)
		return isAway[shard]
	})
}
