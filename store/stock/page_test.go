package stock

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// every reads the list of all reservations in pages, and calls between after each.
func (w *liveWorld) every(limit int, sold, unsold bool, between func()) (all []api.Reservation) {
	w.t.Helper()
	for at := new(ListAt); at != nil; {
		var items []api.Reservation
		var err error
		items, at, err = w.EveryReservation(w.t.Context(), w.sale, *at, sold, unsold, limit)
		storetest.Must(w.t, err)
		if len(items) > limit || len(items) < limit && at != nil {
			w.t.Fatalf("a page of %d, then %+v", len(items), at)
		}
		all = append(all, items...)
		between()
	}
	return all
}

// S21: all reservations of all partitions are listed, each once while nothing changes, in pages that are
// full.
func TestS21_EveryReservation(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 100}, partitions: 3})
		want := map[string]api.ReservationState{}
		for i := range 20 {
			r := w.mustReserve(fmt.Sprint("u", i%7), units("s", 1))
			want[r.ID] = api.ReservationHeld
			if i%4 == 3 {
				continue
			}
			if i%4 == 2 {
				w.overdue(r.ID) // nobody has swept it
				want[r.ID] = api.ReservationExpired
				continue
			}
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: i%4 == 0})
			storetest.Must(t, err)
			want[r.ID] = e.Reservation.State
		}
		for _, limit := range []int{1, 2, 7, 20, 500} {
			for _, c := range []struct {
				sold, unsold bool
				in           []api.ReservationState
			}{
				{false, false, []api.ReservationState{api.ReservationHeld, api.ReservationReleased, api.ReservationExpired, api.ReservationSold}},
				{true, false, []api.ReservationState{api.ReservationSold}},
				{false, true, []api.ReservationState{api.ReservationHeld, api.ReservationReleased, api.ReservationExpired}},
			} {
				got := map[string]api.ReservationState{}
				for _, r := range w.every(limit, c.sold, c.unsold, func() {}) {
					if got[r.ID] != "" {
						t.Errorf("%s twice", r.ID)
					}
					got[r.ID] = r.State
				}
				chosen := maps.Clone(want)
				maps.DeleteFunc(chosen, func(_ string, s api.ReservationState) bool { return !slices.Contains(c.in, s) })
				if !maps.Equal(got, chosen) {
					t.Errorf("by %d: %v, want %v", limit, got, chosen)
				}
			}
		}
	})
}

// S21: while the list is read holds are confirmed, released and made. Each that was there from the
// beginning is in the list at least once.
func TestS21_NoneIsLeftOutWhileTheyChange(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 1000}, partitions: 2})
		left := map[string]bool{}
		var ids []string
		for i := range 40 {
			r := w.mustReserve(fmt.Sprint("u", i), units("s", 1))
			ids, left[r.ID] = append(ids, r.ID), true
		}
		n := 0
		all := w.every(3, false, false, func() {
			for _, i := range []int{n, len(ids) - 1 - n} { // at both ends: listed already, and not yet
				if n < len(ids)/2 {
					_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: ids[i], Sell: i%3 != 0})
					storetest.Must(t, err)
				}
			}
			n++
			if n < 10 {
				w.mustReserve(fmt.Sprint("late", n), units("s", 1))
			}
		})
		for _, r := range all {
			delete(left, r.ID)
		}
		if len(left) > 0 {
			t.Errorf("left out: %v", left)
		}
	})
}
