package sales

import (
	"fmt"
	"maps"
	"testing"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/stock"
	"fanfare/store/storetest"
)

// listed reads the list of all reservations in pages.
func (p *process) listed(sale string, state api.ReservationState, limit int, between func()) (all []api.Reservation) {
	p.t.Helper()
	for cursor, first := "", true; first || cursor != ""; first = false {
		var items []api.Reservation
		var err error
		items, cursor, err = p.EveryReservation(p.t.Context(), sale, state, cursor, limit)
		storetest.Must(p.t, err)
		if len(items) > limit || state == "" && len(items) < limit && cursor != "" {
			p.t.Fatalf("a page of %d, then %q", len(items), cursor)
		}
		all = append(all, items...)
		between()
	}
	return all
}

// S21: all reservations of a sale are listed: those in Redis, and those whose orders are on record; by
// state; each once while nothing changes; and all that were sold also when Redis is lost.
func TestS21_AllReservationsAreListed(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, sql string) {
		s := setup(t)
		s.sqlURL = sql
		p := s.mustStart(Options{})
		p.mustPut(s.sale, request(100, 600_000, 2))
		want := map[string]api.ReservationState{}
		reserve := func(i int) {
			r := p.mustBuy(s.sale, fmt.Sprint("u", i), 1)
			want[r.ID] = api.ReservationHeld
			if i%3 > 0 {
				e, _, err := p.End(t.Context(), stock.EndHold{Sale: s.sale, ID: r.ID, Sell: i%3 == 1})
				storetest.Must(t, err)
				want[r.ID] = e.State
			}
		}
		for i := range 15 {
			reserve(i)
		}
		stop := p.work(p.Run, p.write)
		p.awaitRows(s.sale, 5)
		p.awaitNoneWaiting(s.sale)
		stop()
		for i := range 9 { // the orders of these wait
			reserve(100 + i)
		}
		for _, state := range []api.ReservationState{"", api.ReservationHeld, api.ReservationReleased, api.ReservationSold, api.ReservationExpired} {
			for _, limit := range []int{1, 4, 500} {
				got := map[string]api.ReservationState{}
				for _, r := range p.listed(s.sale, state, limit, func() {}) {
					if got[r.ID] != "" || r.User == "" || len(r.Lines) != 1 || (r.State == api.ReservationHeld) && r.ExpiresAt == nil {
						t.Errorf("%+v, before %q", r, got[r.ID])
					}
					got[r.ID] = r.State
				}
				chosen := maps.Clone(want)
				maps.DeleteFunc(chosen, func(_ string, s api.ReservationState) bool { return state != "" && s != state })
				if !maps.Equal(got, chosen) {
					t.Errorf("%q by %d: %v, want %v", state, limit, got, chosen)
				}
			}
		}
		storetest.Must(t, p.db.Client().FlushAll(t.Context()).Err())
		if got := p.listed(s.sale, "", 3, func() {}); len(got) != 5 {
			t.Errorf("%d that were sold, want 5", len(got))
		}
		_, _, err := p.EveryReservation(t.Context(), s.sale+"x", "", "", 9)
		storetest.WantCode(t, err, api.CodeSaleNotFound)
		for _, bad := range []string{"x", "live", "live 1 2", "live -1 2 x", "record x y", "record 1", "live 1 2 x\x00", "record 1 x\x00", "record 1 \xff"} {
			_, _, err := p.EveryReservation(t.Context(), s.sale, "", bad, 9)
			storetest.WantCode(t, err, api.CodeValidation)
		}
	})
}

// S21: none is left out while orders go on record.
func TestS21_NoneIsLeftOutWhileOrdersGoOnRecord(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(1000, 600_000, 2))
	left := map[string]bool{}
	var held []string
	for i := range 60 {
		r := p.mustBuy(s.sale, fmt.Sprint("u", i), 1)
		left[r.ID], held = true, append(held, r.ID)
	}
	p.work(p.Run, p.write)
	n := 0
	for _, r := range p.listed(s.sale, "", 2, func() {
		for range 2 {
			if n < len(held) {
				p.mustConfirm(s.sale, held[(n*37)%len(held)])
				n++
			}
		}
	}) {
		delete(left, r.ID)
	}
	if len(left) > 0 {
		t.Errorf("left out: %v", left)
	}
}

// S21: an order that goes on record while a page is read is listed once in it.
func TestS21_APageListsEachReservationOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	p := s.mustStart(Options{})
	p.mustPut(s.sale, request(9, 60_000, 1))
	r := p.mustBuy(s.sale, "u1", 1)
	p.mustConfirm(s.sale, r.ID)
	storetest.Must(t, p.rec.PutOrders(t.Context(), []record.Order{{Sale: s.sale, Reservation: r.ID, User: "u1", Lines: r.Lines, CreatedAt: 1}}))
	for _, state := range []api.ReservationState{"", api.ReservationSold} {
		items, _, err := p.EveryReservation(t.Context(), s.sale, state, "", 9)
		if err != nil || len(items) != 1 || items[0].ID != r.ID || items[0].State != api.ReservationSold {
			t.Errorf("state %q: %+v, %v", state, items, err)
		}
	}
}
