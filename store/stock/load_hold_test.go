package stock

import (
	"errors"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// S5: while a load compares a sale with the record, holds that are there are confirmed and extended in time.
// What the load may still change waits for its end.
func TestS5_HoldsWhileASaleIsLoaded(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 4} {
			w := w.another(Options{})
			w.sale += newRequest()
			r := w.mustOpen(offer{stock: map[string]int64{"s": 20}, partitions: partitions, hold: 60_000, maxHold: 3_600_000})
			orders := w.soldOrders(3, 2)
			kept, bought, given := w.mustReserve("k", units("s", 1)), w.mustReserve("b", units("s", 2)), w.mustReserve("g", units("s", 1))
			on := settingsOf(w.sale, r)
			on.Version = 1
			loading, err := w.begun(t.Context(), on)
			storetest.Must(t, err)

			for range 2 { // and a repeat
				sold, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: bought.ID, Sell: true, Once: key("buy", "")})
				storetest.Must(t, err)
				if sold.Reservation.State != api.ReservationSold || sold.Order == nil {
					t.Errorf("confirmed as %+v", sold)
				}
			}
			longer, err := w.Extend(t.Context(), ExtendHold{Sale: w.sale, ID: kept.ID, HoldMS: 600_000})
			storetest.Must(t, err)
			if longer.Reservation.ExpiresAt.Sub(kept.ExpiresAt.Time) < 5*time.Minute {
				t.Errorf("extended to %v from %v", longer.Reservation.ExpiresAt, kept.ExpiresAt)
			}
			again, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: orders[0].Reservation, Sell: true})
			if err != nil || again.Reservation.State != api.ReservationSold {
				t.Errorf("a sold one is %+v, %v", again, err)
			}
			_, reserved := w.reserve("later", units("s", 1))
			_, released := w.End(t.Context(), EndHold{Sale: w.sale, ID: given.ID})
			_, unknown := w.End(t.Context(), EndHold{Sale: w.sale, ID: newID(0), Sell: true})
			for what, err := range map[string]error{"a reservation": reserved, "a release": released, "an unknown one": unknown} {
				if !errors.Is(err, ErrLoading) {
					t.Errorf("%s: %v, want ErrLoading", what, err)
				}
			}

			_, err = w.RestoreOrders(t.Context(), w.sale, orders)
			storetest.Must(t, err)
			storetest.Must(t, w.Open(t.Context(), w.sale, loading))
			w.want("s", "10 2 8 20")
			w.mustAddUp()
		}
	})
}
