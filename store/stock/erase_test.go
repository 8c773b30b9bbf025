package stock

import (
	"fmt"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// E6: holds of an erased user come back, each unit once; nothing of the user is left in the ledger
// but what was sold; the reservations of others, and newer ones, stay.
func TestE6_AUserIsTakenOutOfTheLedger(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 4} {
			w := w.another(Options{})
			w.sale += fmt.Sprint(".", partitions)
			testEraseUser(t, w, partitions)
		}
	})
}

func testEraseUser(t *testing.T, w *liveWorld, partitions int64) {
	ctx := t.Context()
	w.mustOpen(offer{stock: map[string]int64{"s": 5000}, partitions: partitions})
	name := func(user string) bool {
		parts, err := w.partitionsOf(ctx, w.sale)
		storetest.Must(t, err)
		for _, p := range parts {
			for field, text := range w.db.Client().HGetAll(ctx, p.reservations).Val() {
				if field == "u:"+user || strings.Contains(text, "|"+user+"|") {
					return true
				}
			}
		}
		return false
	}
	for i := range 2*eraseStep + 50 { // more than two steps, and all states in turns
		r := w.mustReserve("7", units("s", 1))
		if i%5 == 1 {
			_, err := w.End(ctx, EndHold{Sale: w.sale, ID: r.ID})
			storetest.Must(t, err)
		}
	}
	both := w.mustReserve("77", units("s", 2))
	sold := w.mustReserve("buyer", units("s", 3))
	for range 3 {
		w.mustReserve("buyer", units("s", 1))
	}
	order, err := w.End(ctx, EndHold{Sale: w.sale, ID: sold.ID, Sell: true})
	storetest.Must(t, err)
	until := w.now().UnixMilli()
	storetest.Eventually(t, patience, "a later millisecond", func() bool { return w.now().UnixMilli() > until })
	later := w.mustReserve("buyer", units("s", 4))

	var all Erased
	for range 2 { // the second time there is nothing to do
		e, err := w.EraseUser(ctx, w.sale, "7", until)
		storetest.Must(t, err)
		all = Erased{all.Released + e.Released, all.Forgotten + e.Forgotten, all.Sold + e.Sold, all.Waiting + e.Waiting}
	}
	if want := (Erased{200, 50, 0, 0}); all != want {
		t.Errorf("erased %+v, want %+v", all, want)
	}
	if name("7") {
		t.Error("the ledger still has the user")
	}
	if e, err := w.EraseUser(ctx, w.sale, "buyer", until); err != nil || e != (Erased{3, 0, 1, 1}) {
		t.Errorf("of the buyer %+v, %v", e, err)
	}
	if got, want := fmt.Sprint(w.ids("buyer")), fmt.Sprint([]string{later.ID, sold.ID}); got != want {
		t.Errorf("the buyer has %s, want %s", got, want)
	}
	if got := fmt.Sprint(w.ids("77")); got != fmt.Sprint([]string{both.ID}) {
		t.Errorf("another user has %s", got)
	}
	w.want("s", "4991 6 3 5000")
	newer, err := w.End(ctx, EndHold{Sale: w.sale, ID: w.mustReserve("new", units("s", 1)).ID, Sell: true}) // is not waited for
	storetest.Must(t, err)
	if e, err := w.EraseUser(ctx, w.sale, "new", until); err != nil || e != (Erased{Sold: 1}) || newer.Order == nil {
		t.Errorf("of a newer order %+v, %v", e, err)
	}
	_, err = w.OrdersRecorded(ctx, w.sale, *order.Order)
	storetest.Must(t, err)
	if e, err := w.EraseUser(ctx, w.sale, "buyer", until); err != nil || e != (Erased{Sold: 1}) {
		t.Errorf("of an order on record %+v, %v", e, err)
	}
	w.mustAddUp()
	w.mustReserve("7", units("s", 1))
	if !name("7") || len(w.ids("7")) != 1 {
		t.Error("who comes back cannot reserve")
	}
	if e, err := w.EraseUser(ctx, "nowhere", "7", until); err != nil || e != (Erased{}) {
		t.Errorf("in no sale %+v, %v", e, err)
	}
}

// A record of a call with a key has the reservation, and so the user.
func TestE6_RecordsOfReservations(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 5}})
		r := w.mustReserve("ann", units("s", 1))
		once := api.Idempotency{Scope: "k", Key: "1"}
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Once: once})
		storetest.Must(t, err)
		key := newPartition(w.sale, 0).once(once.Name())
		value := w.db.Client().Get(t.Context(), key).Val()
		until := w.now().UnixMilli()
		if !IsRecord(key) || IsRecord(newPartition(w.sale, 0).reservations) {
			t.Error("a record is not known as one")
		}
		for user, want := range map[string]bool{"ann": true, "an": false, "s": false} {
			if RecordOf(value, user, until) != want {
				t.Errorf("of %s: %t in %q", user, !want, value)
			}
		}
		if RecordOf(value, "ann", until-60_000) {
			t.Error("a newer record counts")
		}
	})
}
