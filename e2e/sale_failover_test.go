package e2e

import (
	"testing"
	"time"

	"fanfare/store/storetest"
)

// S14 and S17 together: the master dies while people buy, answers wait for a replica, and the dead
// master comes back as a replica. No answered reservation is lost, nothing is sold twice, and the
// sums are right.
func TestSaleThroughAFailOver(t *testing.T) {
	t.Parallel()
	sentinel := storetest.Sentinel(t)
	servers := mustServeMany(t, 2, quick("FANFARE_REDIS_URL="+sentinel.URL(), "FANFARE_DATABASE_URL="+storetest.MySQL(t), "FANFARE_SALE_MIN_REPLICAS=1")...)
	const units, limit, buyers = 200, 6, 250
	m := mustMarket(t, "failover", func() []*program { return servers }, units, map[string]any{"per_user_limit": limit, "hold_ms": 8000})
	done := make(chan error, 1)
	go func() { done <- spread(buyers, m.whim) }()
	storetest.Eventually(t, time.Minute, "a fifth is sold", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.sold) >= 20
	})
	sentinel.First.Kill()
	storetest.Eventually(t, time.Minute, "the replica is the master", func() bool { return sentinel.Master(t) == sentinel.Second })
	sentinel.First.Restart()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	left := m.settle(units, limit)
	t.Logf("%d confirmed, %d refused, left %+v", len(m.sold), m.refused, left)
	m.sellOut(left.Available)
}
