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

// H1: while the slot of a sale moves and nothing was left in the outbox yet, a step that has something to tell happens with its fact
// or not at all, wherever the keys are.
func TestH1_ASlotThatMovesLosesNoFact(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	plain := storetest.Open(t, cluster.URL())
	for what, step := range map[string]tellingStep{
		"an order on record": {fact: api.FactOrderCreated, prepare: func(w *liveWorld) func() error {
			order := w.soldOrders(1, 2)
			return func() error { _, err := w.OrdersRecorded(w.t.Context(), w.sale, order...); return err }
		}},
		"an order that Redis lost": {fact: api.FactOrderCreated, prepare: func(w *liveWorld) func() error {
			order := orderOf(w, "z", 1)
			return func() error { _, err := w.RestoreOrders(w.t.Context(), w.sale, []Order{order}); return err }
		}},
		"a sweep": {fact: api.FactHoldExpired, prepare: func(w *liveWorld) func() error {
			w.overdue(w.mustReserve("u", units("s", 1)).ID)
			return func() error { return w.Sweep(w.t.Context()) }
		}},
		"a confirmation that is late": {fact: api.FactHoldExpired, prepare: func(w *liveWorld) func() error {
			late := w.mustReserve("u", units("s", 1)).ID
			w.overdue(late)
			return func() error {
				_, err := w.End(w.t.Context(), EndHold{Sale: w.sale, ID: late, Sell: true})
				if api.CodeOf(err) == api.CodeNotHeld {
					return nil
				}
				return err
			}
		}},
		"a reservation": {fact: api.FactStockBelow, prepare: func(w *liveWorld) func() error {
			call := newRequest()
			return func() error {
				_, err := w.Reserve(w.t.Context(), ReserveStock{Sale: w.sale, Call: call, Request: &api.ReservationRequest{User: "u", Lines: []api.Line{units("s", 7)}}})
				return err
			}
		}},
		"less stock": {fact: api.FactStockBelow, prepare: func(w *liveWorld) func() error {
			call := newRequest()
			return func() error {
				_, _, err := w.Restock(w.t.Context(), AddStock{Sale: w.sale, Call: call, Request: &api.StockRequest{SKU: "s", Delta: new(int64(-7))}})
				return err
			}
		}},
		"a PUT": {fact: api.FactStockBelow, prepare: func(w *liveWorld) func() error {
			r := w.request(offer{stock: map[string]int64{"s": 13}, hold: 600_000})
			r.Items[0].LowAt = new(int64(10))
			return func() error {
				_, err := w.Put(w.t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: api.AnyVersion}})
				return err
			}
		}},
		"a look": {fact: api.FactStockBelow, partitions: 2, prepare: func(w *liveWorld) func() error {
			w.mustReserve("u", units("s", 7))
			return func() error { return w.Sweep(w.t.Context()) }
		}},
	} {
		for _, moved := range []bool{false, true} {
			w, _ := newLiveWorld(t, plain).telling(api.FactOrderCreated, api.FactHoldExpired, api.FactStockBelow)
			r := w.request(offer{stock: map[string]int64{"s": 13}, hold: 600_000, partitions: max(step.partitions, 1)})
			r.Items[0].LowAt = new(int64(3))
			w.mustPutNew(r)
			w.mustReserve("held", units("s", 1)) // so that all keys of the step are there, but the outbox of facts
			_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: w.mustReserve("sold", units("s", 2)).ID, Sell: true})
			storetest.Must(t, err)
			run := step.prepare(w)
			m := storetest.BeginMove(t, cluster, newPartition(w.sale, 0).due)
			if moved {
				m.Move(m.Rest()...)
			}
			for range 2 {
				_ = run() // it may be refused
			}
			m.Finish()
			storetest.Eventually(t, patience, "the sale to be where its slot is", func() bool { return run() == nil })
			told := 0
			for _, f := range w.facts() {
				if f.typ == step.fact {
					told++
				}
			}
			if told != 1 {
				t.Errorf("%s, keys that moved: %t: %s was told %d times", what, moved, step.fact, told)
			}
		}
	}
}

// tellingStep is a step of a sale that tells one fact.
type tellingStep struct {
	fact       string
	partitions int64
	prepare    func(w *liveWorld) (run func() error)
}
