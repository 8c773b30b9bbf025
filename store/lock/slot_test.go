package lock_test

import (
	"context"
	"testing"

	"fanfare/store/lock"
	"fanfare/store/storetest"
)

// K4, K5: while the slot of a lock moves, a holder renews and ends its hold, and nobody else gets the lock because of
// the move.
func TestK4_ASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	l := setup(t, storetest.Open(t, cluster.URL()), lock.Options{})
	for name, end := range map[string]func(*lock.Lease, context.Context) (bool, error){"done": (*lock.Lease).Done, "fail": (*lock.Lease).Fail, "release": (*lock.Lease).Release} {
		h := mustHold(t, l, name)
		m := storetest.BeginMove(t, cluster, keyOf(l, name))
		mustBe(t, true, "renew", h.Renew)
		if a := mustTry(t, l, name); a.Status != lock.Held {
			t.Errorf("another contender: %v", a.Status)
		}
		mustBe(t, true, name, func(ctx context.Context) (bool, error) { return end(h, ctx) })
		m.Finish()
		eventually(t, name+" is known after the move", func() bool { ok, err := end(h, t.Context()); return ok && err == nil })
	}
}
