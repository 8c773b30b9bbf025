package stock

import (
	"context"
	"testing"

	"fanfare/api"
)

func TestSmoke(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 5, "b": 3}})
		w.want("a", "5 0 0 5")
		r := w.mustReserve("u", units("a", 2), units("b", 1))
		w.want("a", "3 2 0 5")
		_, err := w.reserve("u", units("a", 2), units("b", 3))
		wantLive(t, err, api.CodeSoldOut)
		e, err := w.Confirm(context.Background(), w.sale, r.ID, api.Idempotency{})
		mustLive(t, err)
		if e.Order == nil || e.Reservation.State != api.ReservationSold {
			t.Fatalf("%+v", e)
		}
		w.want("a", "3 0 2 5")
		l, next, err := w.Reservations(context.Background(), w.sale, "u", "", 10)
		mustLive(t, err)
		if len(l) != 1 || next != "" {
			t.Fatalf("%+v", l)
		}
		w.mustAddUp()
	})
}

func TestSmokePartitions(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 8}, partitions: 8})
		w.want("s", "8 0 0 8")
		for range 8 {
			w.mustReserve("u", units("s", 1))
		}
		_, err := w.reserve("u", units("s", 1))
		wantLive(t, err, api.CodeSoldOut)
		w.want("s", "0 8 0 8")
		w.mustAddUp()
	})
}
