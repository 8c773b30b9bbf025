package stock

import (
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// S6: while the slot of a sale moves and an order is still to be put on record, the only hold is extended and
// released, and nothing of it is lost.
func TestS6_ASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	for what, run := range map[string]func(w *liveWorld, held api.Reservation) error{
		"extended": func(w *liveWorld, held api.Reservation) error {
			_, err := w.extend(held.ID, 600_000)
			return err
		},
		"released": func(w *liveWorld, held api.Reservation) error {
			_, err := w.End(w.t.Context(), EndHold{Sale: w.sale, ID: held.ID})
			return err
		},
	} {
		w := newLiveWorld(t, storetest.Open(t, cluster.URL()))
		w.mustOpen(offer{stock: map[string]int64{"s": 20}, partitions: 1, hold: 60_000, maxHold: 3_600_000})
		sold := w.mustReserve("b", units("s", 2))
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: sold.ID, Sell: true})
		storetest.Must(t, err)
		held := w.mustReserve("k", units("s", 1))
		m := storetest.BeginMove(t, cluster, newPartition(w.sale, 0).due)
		if err := run(w, held); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		m.Finish()
		storetest.Eventually(t, patience, "the sale to be where its slot is", func() bool {
			_, err := w.Sale(t.Context(), w.sale)
			return err == nil
		})
		w.mustAddUp()
		if due, err := w.db.Client().ZRange(t.Context(), newPartition(w.sale, 0).due, 0, -1).Result(); err != nil || len(due) != 1 || due[0] != held.ID {
			t.Errorf("%s: %v, %v is due, want %s", what, due, err, held.ID)
		}
	}
}
