package stock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func (w *liveWorld) restock(sku string, delta int64) (api.SaleItem, error) {
	item, _, err := w.Restock(context.Background(), AddStock{Sale: w.sale, Request: restock(sku, delta)})
	return item, err
}

func TestS8_RestockWhileSoldOut(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 4} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 1}, partitions: partitions})
			other := w.another(Options{})
			w.mustReserve("u", units("s", 1))
			_, err := other.reserve("v", units("s", 3))
			storetest.WantCode(t, err, api.CodeSoldOut)
			if s := other.mustRead(); s.State != api.SaleSoldOut {
				t.Errorf("state %s", s.State)
			}
			item, err := w.restock("s", 5)
			storetest.Must(t, err)
			if want := (api.SaleItem{SKU: "s", Total: 6, Available: 5, Held: 1}); item != want {
				t.Errorf("item %+v, want %+v", item, want)
			}
			other.mustReserve("v", units("s", 3)) // at once, not within 100 ms
			w.want("s", "2 4 0 6")
			w.mustAddUp()
		}
	})
}

func TestS8_TakingWhatIsHeldOrSoldIsRefused(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 5} {
			w := newLiveWorld(t, w.db)
			r := w.mustOpen(offer{stock: map[string]int64{"a": 20, "b": 20}, partitions: partitions})
			w.mustReserve("u", units("a", 5))
			_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: w.mustReserve("v", units("a", 4)).ID, Sell: true})
			storetest.Must(t, err)
			_, err = w.restock("a", -12)
			storetest.WantCode(t, err, api.CodeBounds)
			w.want("a", "11 5 4 20")
			item, err := w.restock("a", -11) // all there is, from all partitions
			storetest.Must(t, err)
			if item.Total != 9 || item.Available != 0 || item.Held != 5 || item.Sold != 4 {
				t.Errorf("%+v", item)
			}
			w.want("a", "0 5 4 9")
			// A PUT takes stock of several skus: all or none.
			r.Items[0].Stock, r.Items[1].Stock = new(int64(8)), new(int64(3))
			_, err = w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 2}})
			storetest.WantCode(t, err, api.CodeBounds)
			w.want("a", "0 5 4 9")
			w.want("b", "20 0 0 20")
			r.Items[0].Stock = new(int64(10))
			c, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 2}})
			storetest.Must(t, err)
			if !c.Changed || c.Created || c.Sale.Version != 3 || c.Record.Items[1].Total != 3 {
				t.Errorf("%+v", c)
			}
			w.want("a", "1 5 4 10")
			w.want("b", "3 0 0 3")
			w.mustAddUp()
		}
	})
}

// Units that come back just then count: a shrink first returns what is due.
func TestS8_DueHoldsCanBeTaken(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 250}, partitions: partitions})
			for n := range 250 {
				w.overdue(w.mustReserve(fmt.Sprint("u", n), units("s", 1)).ID)
			}
			_, err := w.restock("s", -250)
			storetest.Must(t, err)
			w.want("s", "0 0 0 0")
		}
	})
}

func TestS9_CompareAndSet(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		put := func(r *api.SaleRequest, m Match) (Change, error) {
			return w.Put(ctx, PutSale{Sale: w.sale, Request: r, Match: m, New: true})
		}
		r := w.request(offer{stock: map[string]int64{"s": 5}})
		c, err := put(r, Match{Version: 7})
		storetest.WantCode(t, err, api.CodeVersionMismatch)
		if c.Sale != nil {
			t.Errorf("an absent sale reads %+v", c.Sale)
		}
		c, err = w.Put(ctx, PutSale{Sale: w.sale, Request: r})
		storetest.WantCode(t, err, api.CodeSaleNotFound) // not New: the record was not asked
		if c, err = put(r, Match{Absent: true}); err != nil || !c.Created || c.Sale.Version != 1 || c.Record.Version != 1 {
			t.Fatalf("%+v %v", c, err)
		}
		if c, err = put(r, Match{}); err != nil || c.Created || c.Changed || c.Sale.Version != 1 {
			t.Fatalf("the same again: %+v %v", c, err)
		}
		c, err = put(r, Match{Absent: true})
		storetest.WantCode(t, err, api.CodeVersionMismatch)
		if c.Sale == nil || c.Sale.Version != 1 {
			t.Errorf("%+v", c.Sale)
		}
		limit := int64(3)
		r.PerUserLimit = &limit
		c, err = put(r, Match{})
		storetest.WantCode(t, err, api.CodeConflict)
		if c.Sale.PerUserLimit != nil {
			t.Error("it was changed")
		}
		w.mustReserve("u", units("s", 1)) // reservations do not raise the version
		if c, err = put(r, Match{Version: 1}); err != nil || !c.Changed || c.Sale.Version != 2 || *c.Sale.PerUserLimit != 3 {
			t.Fatalf("%+v %v", c, err)
		}
		c, err = put(r, Match{Version: 1})
		storetest.WantCode(t, err, api.CodeVersionMismatch)
		if c.Sale.Version != 2 || c.Sale.Items[0].Held != 1 {
			t.Errorf("the present sale: %+v", c.Sale)
		}
		_, c, err = w.Restock(ctx, AddStock{Sale: w.sale, Request: restock("s", 1), Match: Match{Version: 1}})
		storetest.WantCode(t, err, api.CodeVersionMismatch)
		if c.Sale.Version != 2 {
			t.Errorf("the present sale: %+v", c.Sale)
		}
		_, c, err = w.Restock(ctx, AddStock{Sale: w.sale, Request: restock("s", 1), Match: Match{Version: 2}})
		storetest.Must(t, err)
		if c.Sale.Version != 3 || c.Record.Items[0].Total != 6 {
			t.Errorf("%+v", c)
		}
	})
}

func TestS9_WhatCannotBeChanged(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 5, "b": 5}, partitions: 2})
		for name, o := range map[string]offer{
			"a sku is removed":   {stock: map[string]int64{"a": 5}, partitions: 2},
			"other partitions":   {stock: map[string]int64{"a": 5, "b": 5}, partitions: 3},
			"a sku for another":  {stock: map[string]int64{"a": 5, "c": 5}, partitions: 2},
			"partitions dropped": {stock: map[string]int64{"a": 5, "b": 5, "c": 1}, partitions: 1},
		} {
			_, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: w.request(o), Match: Match{Version: 1}})
			if api.CodeOf(err) != api.CodeBounds {
				t.Errorf("%s: %v", name, err)
			}
		}
		c, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: w.request(offer{stock: map[string]int64{"a": 5, "b": 5, "c": 7}, partitions: 2}), Match: Match{Version: 1}})
		storetest.Must(t, err)
		if c.Sale.Version != 2 || len(c.Sale.Items) != 3 {
			t.Errorf("%+v", c.Sale)
		}
		w.mustReserve("u", units("c", 7))
	})
}

// The script leaves what is owed to the record, until it is told.
func TestS9_ChangesAreOwedToTheRecord(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"s": 5}, partitions: 2})
		owed := func(want bool, version, total int64) {
			t.Helper()
			s, open, err := w.UnrecordedSettings(ctx, w.sale)
			storetest.Must(t, err)
			if open != want || s.Version != version || s.Items[0].Total != total || s.Partitions != 2 {
				t.Fatalf("owed %v: %+v", open, s)
			}
		}
		owed(true, 1, 5)
		storetest.Must(t, w.SettingsRecorded(ctx, w.sale, 1))
		owed(false, 1, 5)
		_, err := w.restock("s", 2)
		storetest.Must(t, err)
		owed(true, 2, 7)
		var mu sync.Mutex
		var told []Swept
		another := w.another(Options{OnSwept: func(_ context.Context, s Swept) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, s)
		}})
		_, err = w.End(ctx, EndHold{Sale: w.sale, ID: w.mustReserve("u", units("s", 1)).ID, Sell: true})
		storetest.Must(t, err)
		storetest.Must(t, another.Sweep(ctx))
		settings, orders := 0, int64(0)
		for _, s := range told {
			if s.Sale == w.sale && s.Settings {
				settings++
			}
			if s.Sale == w.sale {
				orders += s.Orders
			}
		}
		if settings != 1 || orders != 1 {
			t.Errorf("the sweeper told %+v", told)
		}
		storetest.Must(t, w.SettingsRecorded(ctx, w.sale, 2))
		storetest.Must(t, w.SettingsRecorded(ctx, w.sale, 1)) // late: only forward
		owed(false, 2, 7)
	})
}

func TestS9_RestockByIdempotencyKey(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 5}, partitions: partitions})
			w.mustReserve("u", units("s", 2))
			first, _, err := w.Restock(t.Context(), AddStock{Sale: w.sale, Request: restock("s", 4), Once: key("r", "4")})
			storetest.Must(t, err)
			w.mustReserve("v", units("s", 3))
			again, c, err := w.Restock(t.Context(), AddStock{Sale: w.sale, Request: restock("s", 4), Match: Match{Version: 1}, Once: key("r", "4")})
			storetest.Must(t, err)
			if again != first || !c.Replayed || c.Changed {
				t.Errorf("first %+v, again %+v, %+v", first, again, c)
			}
			_, _, err = w.Restock(t.Context(), AddStock{Sale: w.sale, Request: restock("s", 5), Once: key("r", "5")})
			storetest.WantCode(t, err, api.CodeIdempotencyReused)
			w.want("s", "4 5 0 9")
		}
	})
}

func TestS9_ChangesReachAllPartitions(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 100}, partitions: 6, limit: 1})
		for n := range 20 {
			w.mustReserve(fmt.Sprint("u", n), units("s", 1))
		}
		later := api.At(w.now().Add(time.Minute))
		r.StartsAt = &later
		// The process dies between the first partition and the others.
		dying := w.faulty(Options{}, func(script string, _ bool) error {
			if script == "settings_apply" {
				return storetest.ErrCut
			}
			return nil
		})
		_, err := dying.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
		storetest.WantCode(t, err, api.CodeUnknownOutcome)         // it was changed
		storetest.Must(t, w.another(Options{}).Sweep(t.Context())) // another finishes
		for n := range 20 {
			_, err := w.reserve(fmt.Sprint("w", n), units("s", 1))
			storetest.WantCode(t, err, api.CodeNotStarted)
		}
		// And the other way round nobody waits for a sweeper: a refusal looks twice.
		now := api.At(w.now())
		r.StartsAt = &now
		_, err = dying.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 2}})
		storetest.WantCode(t, err, api.CodeUnknownOutcome)
		for n := range 20 {
			w.mustReserve(fmt.Sprint("w", n), units("s", 1))
		}
	})
}

func TestS10_LargeNumbers(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": api.MaxStock}, partitions: partitions, limit: api.MaxStock})
			w.want("s", "9007199254740991 0 0 9007199254740991")
			_, err := w.restock("s", 1)
			storetest.WantCode(t, err, api.CodeValidation)
			_, err = w.restock("s", api.MaxStock)
			storetest.WantCode(t, err, api.CodeValidation)
			r := w.mustReserve("u", units("s", 3))
			_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
			storetest.Must(t, err)
			w.want("s", "9007199254740988 0 3 9007199254740991")
			_, err = w.restock("s", -api.MaxStock)
			storetest.WantCode(t, err, api.CodeBounds)
			item, err := w.restock("s", 3-api.MaxStock)
			storetest.Must(t, err)
			if item.Total != 3 {
				t.Errorf("%+v", item)
			}
			item, err = w.restock("s", api.MaxStock-3)
			storetest.Must(t, err)
			if item.Total != api.MaxStock || item.Available != api.MaxStock-3 {
				t.Errorf("%+v", item)
			}
			w.mustAddUp()
		}
	})
}

// TestS16_KnownFaults has those that no other test is about: a counter below
// nought, a sold-out flag that sticks, keys without a lifetime made by a
// decrement, nought taken for true, a double release that makes units.
func TestS16_KnownFaults(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"s": 1, "a": 0}})
		hold := w.mustReserve("u", units("s", 1))
		for n := range 90 {
			_, err := w.reserve(fmt.Sprint("v", n), units("s", 1))
			storetest.WantCode(t, err, api.CodeSoldOut)
			_, err = w.reserve(fmt.Sprint("v", n), units("a", 1))
			storetest.WantCode(t, err, api.CodeSoldOut)
		}
		w.want("s", "0 1 0 1")
		for range 5 {
			_, err := w.End(ctx, EndHold{Sale: w.sale, ID: hold.ID})
			storetest.Must(t, err)
		}
		w.want("s", "1 0 0 1")
		w.mustReserve("v1", units("s", 1))
		// A sale that Redis lost is absent, not sold out, and a decrement makes no key.
		lost := newLiveWorld(t, w.db)
		lost.mustOpen(offer{stock: map[string]int64{"s": 1}})
		p := newPartition(lost.sale, 0)
		storetest.Must(t, w.db.Client().Del(ctx, p.core(p.totals, p.orders)...).Err())
		_, err := lost.reserve("u", units("s", 1))
		storetest.WantCode(t, err, api.CodeSaleNotFound)
		_, err = lost.End(ctx, EndHold{Sale: lost.sale, ID: newID(0), Sell: true})
		storetest.WantCode(t, err, api.CodeSaleNotFound)
		if n := w.db.Client().Exists(ctx, p.settings).Val() + w.db.Client().Exists(ctx, p.stock).Val(); n != 0 {
			t.Errorf("%d keys were made", n)
		}
	})
}

// A client's retry of a reservation whose answer was lost reserves once, with
// and without an idempotency key; and so for every other step.
func TestS16_EveryScriptRunsTwice(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, partitions := range []int64{1, 4} {
			w := newLiveWorld(t, db).faulty(Options{}, func(_ string, answered bool) error {
				if answered {
					return storetest.ErrTwice
				}
				return nil
			})
			everyCall(t, w, partitions)
		}
	})
}

// everyCall makes every kind of change and checks its exact effect.
func everyCall(t *testing.T, w *liveWorld, partitions int64) {
	t.Helper()
	ctx := t.Context()
	r := w.mustOpen(offer{stock: map[string]int64{"s": 10}, limit: 10, partitions: partitions})
	one := w.mustReserve("u", units("s", 2))
	two, err := w.reserveOnce(key("k", "b"), "u", units("s", 3))
	storetest.Must(t, err)
	if two.Replayed {
		t.Error("a retry of our own counts as a replay")
	}
	w.want("s", "5 5 0 10")
	_, err = w.End(ctx, EndHold{Sale: w.sale, ID: one.ID, Sell: true, Once: key("c", "")})
	storetest.Must(t, err)
	e, err := w.End(ctx, EndHold{Sale: w.sale, ID: two.Reservation.ID, Once: key("r", "")})
	storetest.Must(t, err)
	if e.Replayed {
		t.Error("a retry of our own counts as a replay")
	}
	w.want("s", "8 0 2 10")
	item, c, err := w.Restock(ctx, AddStock{Sale: w.sale, Request: restock("s", 5), Match: Match{Version: 1}})
	storetest.Must(t, err)
	if item.Total != 15 || c.Replayed || c.Sale.Version != 2 {
		t.Errorf("%+v %+v", item, c)
	}
	r.Items[0].Stock = new(int64(12))
	c, err = w.Put(ctx, PutSale{Sale: w.sale, Request: r, Match: Match{Version: 2}})
	storetest.Must(t, err)
	if !c.Changed || c.Sale.Version != 3 {
		t.Errorf("%+v", c)
	}
	w.overdue(w.mustReserve("u", units("s", 8)).ID) // from all partitions
	storetest.Must(t, w.Sweep(ctx))
	w.want("s", "10 0 2 12")
	known, err := w.OrdersRecorded(ctx, w.sale, Order{Reservation: one.ID}, Order{Reservation: two.Reservation.ID})
	if err != nil || known != 1 {
		t.Errorf("known %d, %v", known, err)
	}
	order := orderOf(w, "z", 4)
	loading, err := w.begun(ctx, c.Record)
	storetest.Must(t, err)
	if restored, err := w.RestoreOrders(ctx, w.sale, []Order{order}); err != nil || restored > 1 {
		t.Fatal(restored, err)
	}
	storetest.Must(t, w.Open(ctx, w.sale, loading))
	w.want("s", "6 0 6 12")
	w.mustReserve("v", units("s", 6))
	_, err = w.reserve("v", units("s", 1))
	storetest.WantCode(t, err, api.CodeSoldOut)
	items, _, err := w.Reservations(ctx, w.sale, "u", "", 10)
	if err != nil || len(items) != 3 {
		t.Errorf("%d reservations, %v", len(items), err)
	}
	w.mustAddUp()
}
