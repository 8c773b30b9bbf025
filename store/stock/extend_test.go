package stock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// extend asks for a hold of so many ms from now.
func (w *liveWorld) extend(id string, hold int64, once ...api.Idempotency) (Ended, error) {
	e := ExtendHold{Sale: w.sale, ID: id, HoldMS: hold}
	if len(once) > 0 {
		e.Once = once[0]
	}
	return w.Extend(context.Background(), e)
}

func (w *liveWorld) mustExtend(id string, hold int64) api.Reservation {
	w.t.Helper()
	e, err := w.extend(id, hold)
	storetest.Must(w.t, err)
	if now, err := w.Reservation(context.Background(), w.sale, id); err != nil || !now.ExpiresAt.Equal(e.Reservation.ExpiresAt.Time) || now.State != api.ReservationHeld {
		w.t.Fatalf("answered %+v, read %+v, %v", e.Reservation, now, err)
	}
	return e.Reservation
}

// S22: a hold lasts as long from now as it is asked for, at most max_hold_ms from its making, and never
// shorter than before. Without max_hold_ms it stays as it was.
func TestS22_ExtendAHold(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const hold, longest = 600_000, 1_800_000
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, hold: hold, maxHold: longest, partitions: 3})
		r := w.mustReserve("u", units("s", 2))
		first := r.ExpiresAt.Time
		made := first.Add(-hold * time.Millisecond)
		if got := w.mustExtend(r.ID, 1).ExpiresAt.Time; !got.Equal(first) {
			t.Errorf("it became shorter: %v, %v", got, first)
		}
		before := w.now()
		got := w.mustExtend(r.ID, 1_000_000).ExpiresAt.Time
		if after := w.now(); got.Before(before.Truncate(time.Millisecond).Add(1_000_000*time.Millisecond)) || got.After(after.Add(1_000_000*time.Millisecond)) {
			t.Errorf("it ends at %v, asked at %v", got, before)
		}
		for range 2 {
			if got := w.mustExtend(r.ID, api30Days).ExpiresAt.Time; !got.Equal(made.Add(longest * time.Millisecond)) {
				t.Errorf("it ends at %v, made at %v", got, made)
			}
		}
		if got := w.mustExtend(r.ID, 900_000).ExpiresAt.Time; !got.Equal(made.Add(longest * time.Millisecond)) {
			t.Errorf("it became shorter: %v", got)
		}
		w.want("s", "7 2 0 9")
		w.mustAddUp()
		listed, _, err := w.EveryReservation(t.Context(), w.sale, ListAt{}, false, true, 9)
		if err != nil || len(listed) != 1 || !listed[0].ExpiresAt.Equal(made.Add(longest*time.Millisecond)) {
			t.Errorf("%+v, %v", listed, err)
		}

		none := newLiveWorld(t, w.db)
		none.mustOpen(offer{stock: map[string]int64{"s": 9}, hold: hold})
		r = none.mustReserve("u", units("s", 2))
		if got := none.mustExtend(r.ID, api30Days); !got.ExpiresAt.Equal(r.ExpiresAt.Time) {
			t.Errorf("a sale without max_hold_ms: %v, before %v", got.ExpiresAt, r.ExpiresAt)
		}
	})
}

// api30Days is the longest hold_ms.
const api30Days = 2_592_000_000

// S22: a hold that has ended is not extended, and the refusal has its state.
func TestS22_WhatIsNotHeldIsNotExtended(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, maxHold: api30Days, partitions: 2})
		for name, end := range map[api.ReservationState]func(id string){
			api.ReservationSold: func(id string) {
				storetest.Must(t, second(w.End(t.Context(), EndHold{Sale: w.sale, ID: id, Sell: true})))
			},
			api.ReservationReleased: func(id string) { storetest.Must(t, second(w.End(t.Context(), EndHold{Sale: w.sale, ID: id}))) },
			api.ReservationExpired:  w.overdue,
		} {
			r := w.mustReserve("u", units("s", 1))
			end(r.ID)
			for range 2 {
				e, err := w.extend(r.ID, 1000)
				storetest.WantCode(t, err, api.CodeNotHeld)
				if e.Reservation.State != name {
					t.Errorf("%+v, want %s", e, name)
				}
			}
		}
		w.want("s", "8 0 1 9")
		for _, id := range []string{"", "x", newID(0), newID(1)} {
			_, err := w.extend(id, 1000)
			storetest.WantCode(t, err, api.CodeNotFound)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// S22: a repeat with the same idempotency key gets the first answer, without another effect, also after
// the hold has ended; and an extension whose answer is lost is made once or twice with the same bound.
func TestS22_RepeatsOfAnExtension(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, hold: 1000, maxHold: api30Days})
		r := w.mustReserve("u", units("s", 1))
		first, err := w.extend(r.ID, 600_000, key("k", "a"))
		storetest.Must(t, err)
		latest := w.mustExtend(r.ID, 1_200_000)
		_, err = w.extend(r.ID, 700_000, key("k", "b"))
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		for range 2 {
			again, err := w.extend(r.ID, 600_000, key("k", "a"))
			storetest.Must(t, err)
			if !again.Replayed || first.Replayed || again.Reservation.State != api.ReservationHeld || !again.Reservation.ExpiresAt.Equal(first.Reservation.ExpiresAt.Time) {
				t.Errorf("%+v, want %+v", again, first)
			}
			if now, err := w.Reservation(t.Context(), w.sale, r.ID); err != nil || now.State == api.ReservationHeld && !now.ExpiresAt.Equal(latest.ExpiresAt.Time) {
				t.Errorf("%+v, %v", now, err)
			}
			_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
			storetest.Must(t, err)
		}
		twice := w.faulty(Options{}, func(name string, answered bool) error {
			if answered && name == "reservation_end" {
				return storetest.ErrTwice
			}
			return nil
		})
		r = w.mustReserve("v", units("s", 1))
		for _, once := range [][]api.Idempotency{nil, {key("l", "a")}} {
			e, err := twice.extend(r.ID, 600_000, once...)
			storetest.Must(t, err)
			if e.Replayed || e.Reservation.State != api.ReservationHeld || e.Reservation.ExpiresAt.After(w.now().Add(600_000*time.Millisecond)) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// S22, S6: the new end is the one that counts: at the old end nothing happens, and after the new end the
// hold cannot be confirmed and its units are back within a second, also if nobody calls.
func TestS22_TheNewEndCounts(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 3}, hold: 300, maxHold: 60_000, partitions: 2})
		w.another(Options{SweepEvery: 5 * time.Millisecond}).sweepOn()
		var r api.Reservation
		var ends time.Time
		storetest.Eventually(t, patience, "a hold is extended before its end", func() bool {
			r = w.mustReserve("u", units("s", 3))
			e, err := w.extend(r.ID, 1500)
			if api.CodeOf(err) == api.CodeNotHeld && !w.now().Before(r.ExpiresAt.Time) {
				storetest.Eventually(t, patience, "its units are back", func() bool { return w.numbers("s") == "3 0 0 3" })
				return false
			}
			storetest.Must(t, err)
			ends = e.Reservation.ExpiresAt.Time
			return true
		})
		for w.now().Before(ends.Add(-200 * time.Millisecond)) {
			now, err := w.Reservation(t.Context(), w.sale, r.ID)
			storetest.Must(t, err)
			if now.State != api.ReservationHeld && w.now().Before(ends) {
				t.Fatalf("%s before %v", now.State, ends)
			}
		}
		storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "3 0 0 3" })
		if late := w.now().Sub(ends); late < 0 || late > w.second() {
			t.Errorf("the units were back %v after the end", late)
		}
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
		storetest.WantCode(t, err, api.CodeNotHeld)
	})
}

// S22: holds are extended at most 50 ms around their end while a sweeper runs: exactly one wins each
// time. What was extended is held until its new end and can be confirmed; what was not has expired.
func TestS22_AnExtensionRacesWithTheEnd(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const batches, each = 4, 60
		w.mustOpen(offer{stock: map[string]int64{"s": batches * each}, hold: 300, maxHold: api30Days})
		another := w.another(Options{SweepEvery: 5 * time.Millisecond})
		another.mustRead()
		another.sweepOn()
		var extended, expired atomic.Int64
		for range batches {
			var all sync.WaitGroup
			for n := range each {
				all.Go(func() {
					r, err := w.reserve(fmt.Sprint("u", n), units("s", 1))
					if err != nil {
						t.Error(err)
						return
					}
					timer := time.NewTimer(time.Until(r.Reservation.ExpiresAt.Add(time.Duration(rand.IntN(100)-50) * time.Millisecond)))
					defer timer.Stop()
					<-timer.C
					e, err := w.extend(r.Reservation.ID, 3_600_000)
					_, sold := w.End(context.Background(), EndHold{Sale: w.sale, ID: r.Reservation.ID, Sell: true})
					switch {
					case err == nil && sold == nil && e.Reservation.ExpiresAt.After(r.Reservation.ExpiresAt.Add(time.Hour/2)):
						extended.Add(1)
					case api.CodeOf(err) == api.CodeNotHeld && api.CodeOf(sold) == api.CodeNotHeld && e.Reservation.State == api.ReservationExpired:
						expired.Add(1)
					default:
						t.Errorf("%+v, %v, and then %v", e, err, sold)
					}
				})
			}
			all.Wait()
		}
		if extended.Load()+expired.Load() != batches*each || extended.Load() == 0 || expired.Load() == 0 {
			t.Errorf("%d extended, %d expired", extended.Load(), expired.Load())
		}
		w.want("s", fmt.Sprint(expired.Load(), 0, extended.Load(), batches*each))
	})
}

// S22: a sale that an earlier version of fanfare made has no longest hold, and is what it was.
func TestS22_AnOlderSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 9}})
		storetest.Must(t, w.db.Client().HDel(t.Context(), newPartition(w.sale, 0).settings, "max_hold").Err())
		c, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r})
		if err != nil || c.Changed || c.Sale.MaxHoldMS != nil {
			t.Errorf("%+v, %v", c, err)
		}
		held := w.mustReserve("u", units("s", 1))
		if got := w.mustExtend(held.ID, api30Days); !got.ExpiresAt.Equal(held.ExpiresAt.Time) {
			t.Errorf("%+v", got)
		}
		r.MaxHoldMS = new(int64(api30Days))
		_, err = w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
		storetest.Must(t, err)
		if got := w.mustExtend(held.ID, api30Days); !got.ExpiresAt.After(held.ExpiresAt.Time) {
			t.Errorf("%+v", got)
		}
	})
}
