package queue_test

import (
	"testing"
	"time"

	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// Q17: while the slot of a shard moves, a companion record is replaced, or stays as it was.
func TestQ17_AGuardWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	db := storetest.Open(t, cluster.URL())
	w := setup(t, db)
	set := func(old, value string) {
		t.Helper()
		storetest.Must(t, w.q.SetGuards(t.Context(), time.Minute, queue.Guard{Name: "g", Old: old, Value: value}))
	}
	set("", "one")
	key := w.q.KeyBeside(0, "guard:g")
	m := storetest.BeginMove(t, cluster, key)
	set("one", "two")
	m.Finish()
	storetest.Eventually(t, time.Minute, "the record is there", func() bool { return db.Client().Get(t.Context(), key).Val() == "two" })
}
