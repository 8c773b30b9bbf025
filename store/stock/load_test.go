package stock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// emptied is the sale after Redis lost it, with what is on record of it.
func (w *liveWorld) emptied(parts []*partition) {
	w.t.Helper()
	for _, p := range parts {
		storetest.Must(w.t, w.db.Client().Del(context.Background(), p.core(p.orders, p.totals, p.out, p.seen)...).Err())
	}
}

// begun begins a loading of settings, and gives its name.
func (w *liveWorld) begun(ctx context.Context, on Settings) (loading string, err error) {
	on.Loading = NewLoading("")
	return on.Loading, w.Load(ctx, on)
}

// rebuild is what a process does that finds the sale gone.
func (w *liveWorld) rebuild(s Settings, orders []Order) error {
	ctx := context.Background()
	loading, err := w.begun(ctx, s)
	if err != nil {
		return err
	}
	for len(orders) > 0 {
		some := orders[:min(len(orders), 3)]
		if _, err := w.RestoreOrders(ctx, s.ID, some); err != nil {
			return err
		}
		orders = orders[len(some):]
	}
	return w.Open(ctx, s.ID, loading)
}

// soldOrders sells to some users and gives their orders as they are on record.
func (w *liveWorld) soldOrders(users int, n int64) (orders []Order) {
	w.t.Helper()
	for u := range users {
		e, err := w.End(context.Background(), EndHold{Sale: w.sale, ID: w.mustReserve(fmt.Sprint("u", u), units("s", n)).ID, Sell: true})
		storetest.Must(w.t, err)
		orders = append(orders, *e.Order)
	}
	return orders
}

// S17: of two masters that made the same new sale, the one whose sale SQL refused had more
// partitions, and sold before that. Its orders are on record: they are sold in the sale that it
// reads from there, whatever partition their ids name.
func TestS17_OrdersOfASaleMadeWithMorePartitions(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 20}, partitions: 4})
		orders := w.soldOrders(8, 2)
		refused := w.recorded()
		storetest.Must(t, w.Disown(t.Context(), refused, nil))
		on := settingsOf(w.sale, r)
		on.Version, on.Partitions = 1, 1
		storetest.Must(t, w.rebuild(on, orders))
		w.want("s", "4 0 16 20")
		for _, o := range orders {
			got, err := w.Reservation(t.Context(), w.sale, o.Reservation)
			storetest.Must(t, err)
			if got.State != api.ReservationSold {
				t.Errorf("%s is %s", o.Reservation, got.State)
			}
			known, err := w.OrdersRecorded(t.Context(), w.sale, o)
			if err != nil || known != 1 {
				t.Errorf("%s is known %d times, %v", o.Reservation, known, err)
			}
		}
		_, err := w.reserve("rest", units("s", 5))
		storetest.WantCode(t, err, api.CodeSoldOut)
	})
}

// S17: a sale that was changed after the version that SQL refused is not marked for that version.
// Its later change would be taken back, while the record of that change's key stays.
func TestS17_ARefusedVersionIsDisownedAlone(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 3}})
		refused := w.recorded()
		delta := int64(4)
		add := AddStock{Sale: w.sale, Request: &api.StockRequest{SKU: "s", Delta: &delta}, Once: key("later", "")}
		_, _, err := w.Restock(t.Context(), add)
		storetest.Must(t, err)
		present := w.recorded()
		for _, s := range []Settings{refused, present} {
			storetest.Must(t, w.Disown(t.Context(), s, nil))
			found, err := w.readStates(t.Context(), newPartition(w.sale, 0))
			storetest.Must(t, err)
			if found[0].disowned != (s.Version == present.Version) {
				t.Errorf("disowned by version %d of %d: %t", s.Version, present.Version, found[0].disowned)
			}
		}
	})
}

func TestS13_LiveKeysFromTheRecord(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 4} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"a": 7, "s": 30}, partitions: partitions, limit: 3})
			orders := w.soldOrders(10, 2)
			w.mustReserve("holder", units("s", 3)) // open holds are gone with Redis
			parts, _ := w.partitionsOf(t.Context(), w.sale)
			on := w.recorded()
			w.emptied(parts)
			other := w.another(Options{})
			_, err := other.reserve("u1", units("s", 1))
			storetest.WantCode(t, err, api.CodeSaleNotFound)
			_, err = other.begun(t.Context(), on)
			storetest.Must(t, err)
			_, err = w.reserve("u1", units("s", 1))
			if err != error(ErrLoading) {
				t.Fatalf("while it is loaded: %v", err)
			}
			storetest.Must(t, other.rebuild(on, orders)) // begins again: all is idempotent
			w.want("s", "10 0 20 30")
			w.want("a", "7 0 0 7")
			_, err = w.reserve("u1", units("s", 2)) // the limit knows what was sold
			storetest.WantCode(t, err, api.CodeLimitReached)
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: orders[4].Reservation, Sell: true})
			if err != nil || e.Reservation.State != api.ReservationSold || e.Order != nil {
				t.Errorf("a sold reservation: %+v %v", e, err)
			}
			items, _, err := w.Reservations(t.Context(), w.sale, "u4", "", 5)
			if err != nil || len(items) != 1 || items[0].ID != orders[4].Reservation {
				t.Errorf("listed %+v %v", items, err)
			}
			w.mustReserve("new", units("s", 2), units("a", 1))
			w.mustAddUp()
			if s := w.mustRead(); s.Version != 1 {
				t.Errorf("version %d", s.Version)
			}
			if _, open, _ := w.UnrecordedSettings(t.Context(), w.sale); open {
				t.Error("what came from the record is owed to it")
			}
		}
	})
}

// S7: what nobody knows any more, when somebody reserved last, ends no sale: its idle
// time begins anew.
func TestS7_ALossOfRedisEndsNoIdleSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const idle = time.Minute
		w.mustOpen(offer{stock: map[string]int64{"s": 30}, starts: -time.Hour, idle: idle.Milliseconds(), partitions: 3})
		orders := w.soldOrders(3, 2)
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		on := w.recorded()
		w.emptied(parts)
		storetest.Must(t, w.rebuild(on, orders))
		for n := range 6 {
			w.mustReserve(fmt.Sprint("buyer", n), units("s", 1))
		}
		// One that is read from the record and was not lost goes on as it was.
		for _, p := range parts {
			storetest.Must(t, w.db.Client().HSet(t.Context(), p.settings, "used", w.now().Add(-2*idle).UnixMilli()).Err())
		}
		storetest.Must(t, w.rebuild(on, orders))
		_, err := w.reserve("late", units("s", 1))
		storetest.WantCode(t, err, api.CodeEnded)
	})
}

// S13: while a sale is read from the record nobody is told that a reservation is not
// there, or not sold.
func TestS13_ReservationsAreNotReadFromHalfALedger(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 30}, partitions: 2})
		orders := w.soldOrders(2, 2)
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		on := w.recorded()
		w.emptied(parts)
		_, err := w.begun(t.Context(), on)
		storetest.Must(t, err)
		read := func(w *liveWorld, want error) {
			t.Helper()
			if r, err := w.Reservation(t.Context(), w.sale, orders[0].Reservation); err != want {
				t.Errorf("read %+v %v, want %v", r, err, want)
			}
			if list, _, err := w.Reservations(t.Context(), w.sale, "u0", "", 5); err != want || want == nil && len(list) != 1 {
				t.Errorf("listed %+v %v, want %v", list, err, want)
			}
		}
		read(w, ErrLoading)
		storetest.Must(t, w.rebuild(on, orders))
		read(w, nil)
		read(w.another(Options{RunID: "another"}), ErrStaleRun)
	})
}

// What one partition owed and another paid is no more work for the sweeps.
func TestS17_ADebtThatIsPaidIsForgotten(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 30}, partitions: 4})
		orders := w.soldOrders(10, 2)
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		on := w.recorded()
		w.emptied(parts)
		storetest.Must(t, w.rebuild(on, orders)) // all stock is in the first one: the others owe
		storetest.Must(t, w.Sweep(t.Context()))
		found, err := w.sweep(t.Context(), nil)
		for _, f := range found {
			if f.sale == w.sale && f.answer.oversold {
				t.Errorf("partition %d still owes: %+v", f.index, f.answer)
			}
		}
		storetest.Must(t, err)
		w.want("s", "10 0 20 30")
		w.mustAddUp()
	})
}

// recorded is what is on record of the sale's settings.
func (w *liveWorld) recorded() Settings {
	w.t.Helper()
	s, _, err := w.UnrecordedSettings(context.Background(), w.sale)
	storetest.Must(w.t, err)
	return s
}

// Several processes rebuild at once, and one dies at every step: the result is
// the same.
func TestS13_RebuiltByManyAndByTheDead(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 20}, partitions: partitions})
			orders := w.soldOrders(6, 2)
			parts, _ := w.partitionsOf(t.Context(), w.sale)
			on := w.recorded()
			w.emptied(parts)
			for n := range 12 {
				_ = w.mortal(storetest.DieAt(n)).rebuild(on, orders)
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					err := w.another(Options{}).rebuild(on, orders)
					if err != nil && err != error(ErrStaleRun) { // another one has begun since
						t.Error(err)
					}
				})
			}
			all.Wait()
			storetest.Must(t, w.rebuild(on, orders)) // each of them may have begun too early to open
			w.want("s", "8 0 12 20")
			w.mustAddUp()
			w.mustReserve("all", units("s", 8))
		}
	})
}

// After a fail-over that lost writes: what is on record as sold is sold, holds
// that it knows as sold too, and what cannot be covered is told.
func TestS17_ReconciledWithTheRecord(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: partitions})
			held := w.mustReserve("u", units("s", 4)) // its confirmation was lost
			lost := orderOf(w, "v", 5)                // so were the hold and the confirmation of this
			w.mustReserve("w", units("s", 3))         // sold a second time meanwhile
			known := Order{Reservation: held.ID, Sale: w.sale, User: "u", Lines: held.Lines, CreatedAt: 1}
			for range 2 {
				storetest.Must(t, w.rebuild(w.recorded(), []Order{known, lost}))
			}
			f, err := w.Figures(t.Context())
			over := f.Oversold[w.sale]
			if err != nil || over["s"] != 2 || len(over) != 1 {
				t.Errorf("oversold %v %v", over, err)
			}
			w.want("s", "0 3 9 10")
			w.mustAddUp()
			_, err = w.reserve("x", units("s", 1))
			storetest.WantCode(t, err, api.CodeSoldOut)
			// What comes back covers it first.
			_, err = w.restock("s", 1)
			storetest.Must(t, err)
			items, _, _ := w.Reservations(t.Context(), w.sale, "w", "", 1)
			_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: items[0].ID})
			storetest.Must(t, err)
			storetest.Must(t, w.Sweep(t.Context())) // in another partition, too
			f, err = w.Figures(t.Context())
			over = f.Oversold[w.sale]
			if err != nil || len(over) != 0 {
				t.Errorf("oversold %v %v", over, err)
			}
			w.want("s", "2 0 9 11")
			w.mustReserve("x", units("s", 2))
			w.mustAddUp()
		}
	})
}

// A sale remembers under which run of the server it was made: under another
// nothing changes until it was compared with the record.
func TestS17_AnotherRunChangesNothing(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		first := w.another(Options{RunID: "run-1"})
		first.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: 2})
		r := first.mustReserve("u", units("s", 7))
		var mu sync.Mutex
		stale := map[string]bool{}
		second := w.another(Options{RunID: "run-2", OnStale: func(_ context.Context, sale string) {
			mu.Lock()
			defer mu.Unlock()
			stale[sale] = true
		}})
		before := first.everything()
		request := first.request(offer{stock: map[string]int64{"s": 11}, partitions: 2})
		calls := map[string]func() error{
			"reserve": func() error { _, err := second.reserve("u", units("s", 1)); return err },
			"confirm": func() error {
				_, err := second.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
				return err
			},
			"release": func() error { _, err := second.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID}); return err },
			"restock": func() error { _, err := second.restock("s", 1); return err },
			"read":    func() error { _, err := second.Sale(t.Context(), w.sale); return err },
			"put": func() error {
				_, err := second.Put(t.Context(), PutSale{Sale: w.sale, Request: request, Match: Match{Version: 1}})
				return err
			},
		}
		for name, call := range calls {
			if err := call(); err != error(ErrStaleRun) {
				t.Errorf("%s: %v", name, err)
			}
		}
		storetest.Must(t, second.Sweep(t.Context()))
		if !stale[w.sale] {
			t.Error("the sweeper did not tell")
		}
		if after := first.everything(); fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("something changed:\n%v\n%v", before, after)
		}
		storetest.Must(t, second.rebuild(first.recorded(), nil))
		_, err := second.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
		storetest.Must(t, err)
		_, err = first.reserve("u", units("s", 1))
		if err != error(ErrStaleRun) {
			t.Errorf("the old run: %v", err)
		}
	})
}

// A Cluster lost one master: one partition is gone, the others live. The sale is
// stale until the record has said what was sold there.
func TestS13_APartitionIsLost(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for gone := range 3 {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 30}, partitions: 3})
			orders := w.soldOrders(9, 1)
			parts, _ := w.partitionsOf(t.Context(), w.sale)
			on := w.recorded()
			w.emptied(parts[gone : gone+1])
			user := usersOf(gone, 3, 1)[0]
			_, err := w.another(Options{}).reserve(user, units("s", 1))
			if err != error(ErrStaleRun) && err != error(ErrAbsent) {
				t.Errorf("partition %d is gone: %v", gone, err)
			}
			storetest.Must(t, w.rebuild(on, orders))
			w.want("s", "21 0 9 30")
			w.mustAddUp()
			w.mustReserve(user, units("s", 21))
		}
	})
}

// S13: a Cluster lost the first partition of a sale that was never on record, and
// others not: a new sale of the same name has its own total and no unit more.
func TestS13_PartitionsThatOutlivedTheirSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 30}, partitions: 3})
		w.mustReserve("u", units("s", 2))
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		w.emptied(parts[:1])
		w = w.another(Options{})
		_, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, New: true})
		storetest.WantCode(t, err, api.CodeUnknownOutcome)
		on, err := w.Settings(t.Context(), w.sale)
		storetest.Must(t, err)
		if _, err := w.reserve(usersOf(1, 3, 1)[0], units("s", 1)); err != error(ErrLoading) {
			t.Errorf("before it was loaded: %v", err)
		}
		storetest.Must(t, w.rebuild(on, nil))
		w.mustAddUp()
		if sale := w.mustRead(); sale.Version != 1 || sale.Items[0].Total != 30 {
			t.Errorf("%+v", sale)
		}
	})
}

// S17: of two who load a sale the last to begin opens it: the other may not have found
// all that the last one puts back.
func TestS17_TheLastLoadingOpens(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: 3})
		on := w.recorded()
		first, err := w.begun(t.Context(), on)
		storetest.Must(t, err)
		last, err := w.another(Options{}).begun(t.Context(), on)
		storetest.Must(t, err)
		if err := w.Open(t.Context(), w.sale, first); err != error(ErrStaleRun) {
			t.Errorf("the first one opens it: %v", err)
		}
		if _, err := w.reserve("u", units("s", 1)); err != error(ErrLoading) {
			t.Errorf("it is open: %v", err)
		}
		storetest.Must(t, w.Open(t.Context(), w.sale, last))
		w.mustReserve("u", units("s", 10))
	})
}

// S17: a process that stood still between the two halves of a transfer while Redis lost
// the first and the sale was read from the record does not make units of the second.
func TestS17_ATransferWhoseDebitWasLost(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx, c := t.Context(), w.db.Client()
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: 2})
		on := w.recorded()
		parts, _ := w.partitionsOf(ctx, w.sale)
		before := c.HGetAll(ctx, parts[0].stock).Val()
		var id string
		stands := w.faulty(Options{}, func(script string, answered bool) error {
			if script != "transfer_credit" || answered || id != "" {
				return nil
			}
			for id = range c.HGetAll(ctx, parts[0].out).Val() {
			}
			storetest.Must(t, c.HSet(ctx, parts[0].stock, before).Err())
			storetest.Must(t, c.Del(ctx, parts[0].out).Err())
			return w.rebuild(on, nil)
		})
		found, err := w.readStates(ctx, parts...)
		storetest.Must(t, err)
		_, _ = stands.move(ctx, parts, []debit{{from: parts[0], moves: found[0].moves, to: 1, want: map[string]int64{"s": 3}}}, false)
		if id == "" {
			t.Fatal("nothing was on its way: the test shows nothing")
		}
		w.want("s", "10 0 0 10")
		w.mustAddUp()
	})
}

// S17: what was loaded in one run of Redis is not opened in the next, which may
// have lost some of it.
func TestS17_LoadedInOneRunAndOpenedInAnother(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t, "--appendonly", "yes", "--appendfsync", "always")
	for _, partitions := range []int64{1, 3} {
		w := newLiveWorld(t, storetest.Open(t, server.URL()))
		w = w.another(Options{RunID: ServerRunID})
		w.mustOpen(offer{stock: map[string]int64{"s": 10}, partitions: partitions})
		on := w.recorded()
		loading, err := w.begun(t.Context(), on)
		storetest.Must(t, err)
		server.Restart()
		storetest.Eventually(t, patience, "Redis is back", func() bool {
			_, err := w.Settings(t.Context(), w.sale)
			return err == nil
		})
		if err := w.Open(t.Context(), w.sale, loading); err != error(ErrStaleRun) {
			t.Errorf("opened in another run: %v", err)
		}
		storetest.Must(t, w.rebuild(on, nil))
		w.mustReserve("u", units("s", 10))
	}
}

// TestS13_TwoLoadsOpenNoMixedSale: two loads end each with one of the partitions. Neither
// may open the sale: units on their way between partitions of two loads would never arrive.
func TestS13_TwoLoadsOpenNoMixedSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 2})
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		on := w.recorded()
		var loads [2]string
		for i := range loads {
			loads[i], err = w.begun(t.Context(), on)
			storetest.Must(t, err)
		}
		storetest.Must(t, w.db.Client().HSet(t.Context(), parts[0].settings, "loading", loads[1]).Err())
		storetest.Must(t, w.db.Client().HSet(t.Context(), parts[1].settings, "loading", loads[0]).Err())
		for _, loading := range []string{loads[0], loads[1], loads[0]} {
			if err := w.Open(t.Context(), w.sale, loading); !errors.Is(err, ErrStaleRun) {
				t.Errorf("opened by a load with one partition: %v", err)
			}
		}
		if _, err := w.Sale(t.Context(), w.sale); !errors.Is(err, ErrLoading) {
			t.Errorf("the sale is not closed: %v", err)
		}
		storetest.Must(t, w.rebuild(on, nil))
		w.mustReserve("u", units("s", 9))
	})
}
