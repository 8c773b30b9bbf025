package stock

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

func TestS4_ConfirmAndRelease(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"s": 10}})
		sold, released, expired := w.mustReserve("u", units("s", 1)), w.mustReserve("u", units("s", 2)), w.mustReserve("u", units("s", 3))
		for range 2 { // again: the same answer
			e, err := w.End(ctx, EndHold{Sale: w.sale, ID: sold.ID, Sell: true})
			storetest.Must(t, err)
			if e.Reservation.State != api.ReservationSold || e.Order == nil || e.Order.Reservation != sold.ID || e.Replayed {
				t.Fatalf("confirm: %+v", e)
			}
			e, err = w.End(ctx, EndHold{Sale: w.sale, ID: released.ID})
			storetest.Must(t, err)
			if e.Reservation.State != api.ReservationReleased || e.Order != nil {
				t.Fatalf("release: %+v", e)
			}
			w.want("s", "6 3 1 10")
		}
		w.overdue(expired.ID)
		for id, state := range map[string]api.ReservationState{released.ID: api.ReservationReleased, expired.ID: api.ReservationExpired} {
			e, err := w.End(ctx, EndHold{Sale: w.sale, ID: id, Sell: true})
			storetest.WantCode(t, err, api.CodeNotHeld)
			if e.Reservation.State != state {
				t.Errorf("confirm: state %s, want %s", e.Reservation.State, state)
			}
		}
		for id, state := range map[string]api.ReservationState{sold.ID: api.ReservationSold, expired.ID: api.ReservationExpired} {
			e, err := w.End(ctx, EndHold{Sale: w.sale, ID: id})
			storetest.WantCode(t, err, api.CodeNotHeld)
			if e.Reservation.State != state {
				t.Errorf("release: state %s, want %s", e.Reservation.State, state)
			}
		}
		w.want("s", "9 0 1 10")
		for _, id := range []string{"", "x", newID(0), newID(5), "zz" + newID(0)[2:], "{x}"} {
			_, err := w.End(ctx, EndHold{Sale: w.sale, ID: id, Sell: true})
			storetest.WantCode(t, err, api.CodeNotFound)
			_, err = w.Reservation(ctx, w.sale, id)
			storetest.WantCode(t, err, api.CodeNotFound)
		}
	})
}

func TestS4_EndsByIdempotencyKey(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}})
		r := w.mustReserve("u", units("s", 1))
		for n := range 3 {
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true, Once: key("c", "")})
			storetest.Must(t, err)
			if e.Replayed != (n > 0) || e.Reservation.State != api.ReservationSold {
				t.Errorf("try %d: %+v", n, e)
			}
		}
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true, Once: key("c", "another")})
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
	})
}

// S4: a repeat under another key changes nothing, and leaves nothing in Redis.
func TestS4_AnEndThatChangesNothingKeepsNoKey(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 10}})
		for _, sell := range []bool{true, false} {
			r := w.mustReserve("u", units("s", 1))
			end := func(k string) Ended {
				e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: sell, Owner: "u", Once: key(k, "")})
				storetest.Must(t, err)
				return e
			}
			first := end(r.ID + "first")
			p := newPartition(w.sale, 0)
			for i := range 5 {
				k := fmt.Sprint(r.ID, "again", i)
				if again := end(k); again.Replayed || again.Reservation.State != first.Reservation.State {
					t.Errorf("%+v, and the first answer was %+v", again, first)
				}
				once := key(k, "")
				if n := w.db.Client().Exists(t.Context(), p.once(once.Name())).Val(); n != 0 {
					t.Error("its key is kept")
				}
			}
			if again := end(r.ID + "first"); !again.Replayed {
				t.Errorf("the key of the first is not kept: %+v", again)
			}
		}
	})
}

func TestS4_SoldAtOnce(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 3}, hold: -1})
		got, err := w.reserveOnce(key("k", "b"), "u", units("s", 2))
		storetest.Must(t, err)
		if got.Reservation.State != api.ReservationSold || got.Reservation.ExpiresAt != nil || got.Order == nil || got.Order.CreatedAt == 0 {
			t.Fatalf("%+v", got)
		}
		again, err := w.reserveOnce(key("k", "b"), "u", units("s", 2))
		storetest.Must(t, err)
		if !again.Replayed || again.Reservation.State != api.ReservationSold || again.Reservation.ID != got.Reservation.ID {
			t.Fatalf("%+v", again)
		}
		w.want("s", "1 0 2 3")
		waiting, err := w.WaitingOrders(t.Context(), Ref{w.sale, 0}, Order{}, 10)
		storetest.Must(t, err)
		if len(waiting) != 1 || waiting[0].Reservation != got.Reservation.ID || waiting[0].User != "u" || waiting[0].Lines[0] != units("s", 2) {
			t.Errorf("waiting %+v", waiting)
		}
	})
}

// TestS5_ConfirmRacesWithExpiry confirms 500 holds at most 50 ms around their
// end, while a sweeper runs: exactly one wins each time.
func TestS5_ConfirmRacesWithExpiry(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const batches, each = 5, 100
		w.mustOpen(offer{stock: map[string]int64{"s": batches * each}, hold: 300})
		another := w.another(Options{SweepEvery: 5 * time.Millisecond})
		another.mustRead()
		another.sweepOn()
		var confirmed, expired atomic.Int64
		for range batches {
			var all sync.WaitGroup
			for n := range each {
				all.Go(func() {
					r, err := w.reserve(fmt.Sprint("u", n), units("s", 1))
					if err != nil {
						t.Error(err)
						return
					}
					at := r.Reservation.ExpiresAt.Add(time.Duration(rand.IntN(100)-50) * time.Millisecond)
					timer := time.NewTimer(time.Until(at))
					defer timer.Stop()
					<-timer.C
					won(w, r.Reservation.ID, &confirmed, &expired)
				})
			}
			all.Wait()
		}
		if confirmed.Load()+expired.Load() != batches*each || confirmed.Load() == 0 || expired.Load() == 0 {
			t.Errorf("%d confirmed, %d expired", confirmed.Load(), expired.Load())
		}
		w.want("s", fmt.Sprint(expired.Load(), 0, confirmed.Load(), batches*each))
	})
}

// won confirms, and checks that the answer stays true.
func won(w *liveWorld, id string, confirmed, expired *atomic.Int64) {
	_, err := w.End(context.Background(), EndHold{Sale: w.sale, ID: id, Sell: true})
	now, e := w.Reservation(context.Background(), w.sale, id)
	switch {
	case e != nil:
		w.t.Error(e)
	case err == nil && now.State == api.ReservationSold:
		confirmed.Add(1)
	case api.CodeOf(err) == api.CodeNotHeld && now.State == api.ReservationExpired:
		expired.Add(1)
	default:
		w.t.Errorf("confirm said %v, and the reservation is %s", err, now.State)
	}
}

func TestS6_NotConfirmableAfterItsEnd(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 1}, hold: 30})
		r := w.mustReserve("u", units("s", 1))
		storetest.Eventually(t, patience, "the hold is over", func() bool { return !w.now().Before(r.ExpiresAt.Time) })
		got, err := w.Reservation(t.Context(), w.sale, r.ID)
		storetest.Must(t, err)
		if got.State != api.ReservationExpired {
			t.Errorf("it reads %s", got.State)
		}
		_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: r.ID, Sell: true})
		storetest.WantCode(t, err, api.CodeNotHeld)
		w.want("s", "1 0 0 1")
	})
}

func TestS6_AvailableAtOnceForAReservation(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 4}, hold: 30, partitions: 2})
		r := w.mustReserve("u", units("s", 3))
		w.mustReserve("v", units("s", 1))
		last := w.mustReserveLate("w", r.ExpiresAt.Time, units("s", 4))
		if last.State != api.ReservationHeld {
			t.Errorf("%+v", last)
		}
	})
}

// mustReserveLate reserves as soon as a time has come, and by refusals only
// before it (and the moment in which another hold ends).
func (w *liveWorld) mustReserveLate(user string, at time.Time, lines ...api.Line) (r api.Reservation) {
	w.t.Helper()
	storetest.Eventually(w.t, patience, "reserved after the end of the holds", func() bool {
		over := w.now().After(at.Add(100 * time.Millisecond))
		got, err := w.reserve(user, lines...)
		if err != nil && over {
			w.t.Fatal(err)
		}
		r = got.Reservation
		return err == nil
	})
	return r
}

// second is the promise's second. On the embedded Redis, whose scripts the race
// detector slows many times, it is longer.
func (w *liveWorld) second() time.Duration {
	if w.db.Embedded() {
		return 3 * time.Second
	}
	return time.Second
}

func TestS6_AvailableWithinASecondThoughNobodyCalls(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 300}, hold: 200, partitions: 3})
		var ends time.Time
		for n := range 250 {
			r := w.mustReserve(fmt.Sprint("u", n), units("s", 1))
			ends = r.ExpiresAt.Time
		}
		fresh := w.another(Options{}) // knows nothing of the sale but the registry
		fresh.sweepOn()
		storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "300 0 0 300" })
		if late := w.now().Sub(ends); late > w.second() {
			t.Errorf("%v after the last hold's end", late)
		}
	})
}

// A sale whose keys are broken keeps no other from being swept.
func TestS6_OneBrokenSaleHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 5}})
	w.overdue(w.mustReserve("u", units("s", 5)).ID)
	for range 20 {
		broken := newLiveWorld(t, w.db)
		broken.mustOpen(offer{stock: map[string]int64{"s": 5}})
		storetest.Must(t, w.db.Client().Set(t.Context(), newPartition(broken.sale, 0).due, "x", 0).Err())
	}
	if err := w.Sweep(t.Context()); err == nil {
		t.Error("nobody is told")
	}
	w.want("s", "5 0 0 5")
}

// A sweeper that knew of no sale finds another process's first one in time.
func TestS6_AnIdleSweeperIsInTime(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.another(Options{}).sweepOn()
		w.mustOpen(offer{stock: map[string]int64{"s": 5}, hold: 1})
		r := w.mustReserve("u", units("s", 5))
		storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "5 0 0 5" })
		if late := w.now().Sub(r.ExpiresAt.Time); late > w.second() {
			t.Errorf("%v after the hold's end", late)
		}
	})
}

func TestS7_NoLifetimeWhileTheSaleLives(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 2})
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		storetest.Must(t, w.retire(t.Context(), parts)) // as if the end had been moved meanwhile
		w.mustReserve("u", units("s", 8))
		_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: w.mustReserve("v", units("s", 1)).ID, Sell: true})
		storetest.Must(t, err)
		lifetimes := func() (with, without int) {
			for _, p := range parts {
				for _, key := range p.core(p.orders, p.totals, p.out, p.seen, p.restocks) {
					switch ttl := w.db.Client().PTTL(t.Context(), key).Val(); {
					case ttl == -1:
						without++
					case ttl > 0:
						with++
					}
				}
			}
			return with, without
		}
		storetest.Must(t, w.Sweep(t.Context()))
		if with, without := lifetimes(); with != 0 || without < 10 {
			t.Errorf("%d keys have a lifetime, %d have none", with, without)
		}
		// A week after its end all is there; on the ninth day nothing, once nothing is left to do.
		week := 7 * 24 * time.Hour
		storetest.Must(t, w.ended(r, parts, week))
		storetest.Must(t, w.Sweep(t.Context()))
		if with, without := lifetimes(); with != 0 || without < 8 {
			t.Errorf("a week after its end %d keys have a lifetime, %d have none", with, without)
		}
		storetest.Must(t, w.ended(r, parts, week+24*time.Hour+time.Minute))
		storetest.Must(t, w.Sweep(t.Context()))
		if with, without := lifetimes(); with != 0 || without != 0 {
			t.Errorf("long over: %d keys have a lifetime, %d have none", with, without)
		}
		sales, err := w.another(Options{}).LiveSales(t.Context())
		storetest.Must(t, err)
		if _, ok := sales[w.sale]; ok {
			t.Error("it is still in the registry")
		}
	})
}

// ended has a sale end in the past, with nothing held and nothing owed.
func (w *liveWorld) ended(r *api.SaleRequest, parts []*partition, ago time.Duration) error {
	ctx := context.Background()
	for _, p := range parts {
		for range 2 { // what is returned is known for an hour
			for _, z := range w.db.Client().ZRange(ctx, p.due, 0, -1).Val() {
				w.overdue(z)
			}
			if err := w.Sweep(ctx); err != nil {
				return err
			}
		}
		for _, id := range w.db.Client().ZRange(ctx, p.orders, 0, -1).Val() {
			if known, err := w.OrdersRecorded(ctx, w.sale, Order{Reservation: id}); err != nil || known != 1 {
				return fmt.Errorf("known %d: %w", known, err)
			}
		}
	}
	past := api.At(w.now().Add(-ago))
	starts := api.At(past.Add(-time.Hour))
	r.StartsAt, r.EndsAt = &starts, &past
	c, err := w.Put(ctx, PutSale{Sale: w.sale, Request: r, Match: Match{Version: api.AnyVersion}})
	if err != nil {
		return err
	}
	return w.SettingsRecorded(ctx, w.sale, c.Sale.Version)
}

func TestS7_TheWindowIsRedisClocks(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 9}, starts: 300 * time.Millisecond, ends: 700 * time.Millisecond, partitions: 2})
		if s := w.mustRead(); s.State != api.SaleUpcoming && w.now().Before(r.StartsAt.Time) {
			t.Errorf("it is %s", s.State)
		}
		hold, done := api.Reservation{}, false
		for !done {
			before := w.now()
			got, err := w.reserve("u", units("s", 1))
			after := w.now()
			switch api.CodeOf(err) {
			case api.CodeNotStarted:
				if !before.Before(r.StartsAt.Time) {
					t.Fatalf("not started at %v, it starts at %v", before, r.StartsAt)
				}
			case api.CodeEnded:
				if after.Before(r.EndsAt.Time) {
					t.Fatalf("ended at %v, it ends at %v", after, r.EndsAt)
				}
				done = true
			case "":
				if after.Before(r.StartsAt.Time) || !before.Before(r.EndsAt.Time) {
					t.Fatalf("reserved between %v and %v", before, after)
				}
				if hold.ID != "" { // one is kept
					_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: got.Reservation.ID})
					storetest.Must(t, err)
				} else {
					hold = got.Reservation
				}
			default:
				t.Fatal(err)
			}
		}
		if s := w.mustRead(); s.State != api.SaleEnded {
			t.Errorf("it is %s", s.State)
		}
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: hold.ID, Sell: true}) // allowed while the hold lives
		storetest.Must(t, err)
	})
}

// No file of the live stock asks this process's clock, but where time passes for
// the process itself: so a clock that is an hour off decides nothing.
func TestS7_NoClockOfOurOwn(t *testing.T) {
	t.Parallel()
	allowed := map[string]bool{"unusableFor": true, "sweep": true, "note": true}
	files, err := filepath.Glob("*.go")
	storetest.Must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		storetest.Must(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || allowed[f.Name.Name] {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && (s.Sel.Name == "Now" || s.Sel.Name == "Since" || s.Sel.Name == "Until") {
						t.Errorf("%s: %s calls time.%s", name, f.Name.Name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// S6: a registry that has lost a sale, as it does with another master of a Cluster, gets it
// from a sweeper who knows the sale, so that processes that start later sweep it, too.
func TestS6_ASaleThatTheRegistryLost(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, hold: 300, partitions: 2})
		w.mustReserve("u", units("s", 4))
		storetest.Must(t, w.db.Client().HDel(t.Context(), saleRegistry, w.sale).Err())
		storetest.Must(t, w.Sweep(t.Context()))
		w.another(Options{}).sweepOn()
		storetest.Eventually(t, patience, "the hold comes back", func() bool { return w.mustRead().Items[0].Available == 9 })
	})
}

// A hold that outlives the sale by more than the keys do keeps all of it, in whatever
// partition it is.
func TestS7_NoPartitionGoesBeforeTheLast(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 3})
		storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
		parts, err := w.partitionsOf(t.Context(), w.sale)
		storetest.Must(t, err)
		held := w.mustReserve("u", units("s", 1))
		for _, p := range parts {
			storetest.Must(t, w.db.Client().HSet(t.Context(), p.settings, "ends", w.now().Add(-keptAfterEnd-time.Hour).UnixMilli()).Err())
		}
		there := func() (n int) {
			for _, p := range parts {
				found, err := w.db.Client().Exists(t.Context(), p.settings).Result()
				storetest.Must(t, err)
				n += int(found)
			}
			return n
		}
		storetest.Must(t, w.retire(t.Context(), parts))
		sales, err := w.registered(t.Context())
		storetest.Must(t, err)
		if _, listed := sales[w.sale]; there() != len(parts) || !listed {
			t.Errorf("%d of %d partitions are left, registered: %t", there(), len(parts), listed)
		}
		p, err := w.partitionByID(t.Context(), w.sale, held.ID)
		storetest.Must(t, err)
		storetest.Must(t, w.db.Client().Del(t.Context(), p.due).Err())    // as if it had ended long ago
		opened := w.now().Add(time.Second - keptAfterOpening).UnixMilli() // and been read back almost an hour ago
		storetest.Must(t, w.db.Client().HSet(t.Context(), parts[1].settings, "opened", opened).Err())
		storetest.Must(t, w.retire(t.Context(), parts))
		if there() != len(parts) {
			t.Errorf("%d of %d partitions are left of a sale that was read back", there(), len(parts))
		}
		storetest.Must(t, w.db.Client().HDel(t.Context(), parts[1].settings, "opened").Err())
		release, err := w.lockMoves(t.Context(), parts)
		storetest.Must(t, err)
		release()
		w.unusableFor(parts[2])
		storetest.Must(t, w.retire(t.Context(), parts))
		if there() != 0 {
			t.Errorf("%d partitions are left", there())
		}
		sales, err = w.registered(t.Context())
		storetest.Must(t, err)
		w.forgetUnusable(sales)
		for _, kept := range []*sync.Map{&w.known, &w.unusable} {
			kept.Range(func(name, _ any) bool { t.Errorf("%v is kept in memory", name); return true })
		}
	})
}

func TestS7_IdleEndsTheSale(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const idle = 400 * time.Millisecond
		w.mustOpen(offer{stock: map[string]int64{"s": 1000}, idle: idle.Milliseconds(), partitions: 3})
		// One user keeps the sale alive in his partition: all others too.
		begin := w.now()
		tick := time.NewTicker(idle / 8)
		defer tick.Stop()
		for w.now().Sub(begin) < 3*idle {
			w.mustReserve("busy", units("s", 1))
			<-tick.C
		}
		for n := range 6 {
			w.mustReserve(fmt.Sprint("late", n), units("s", 1))
		}
		last := w.now()
		storetest.Eventually(t, patience, "it has ended", func() bool { return w.mustRead().State == api.SaleEnded })
		if quiet := w.now().Sub(last); quiet < idle-50*time.Millisecond {
			t.Errorf("it ended after %v", quiet)
		}
		for n := range 6 {
			_, err := w.reserve(fmt.Sprint("late", n), units("s", 1))
			storetest.WantCode(t, err, api.CodeEnded)
		}
	})
}

func TestReservationsOfAUser(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 100}, partitions: 4})
		var ids []string
		for n := range 7 {
			ids = append([]string{w.mustReserve("u", units("s", int64(n+1))).ID}, ids...)
			w.mustReserve("v", units("s", 1))
		}
		var got []string
		cursor := ""
		for pages := 0; pages == 0 || cursor != ""; pages++ {
			items, next, err := w.Reservations(t.Context(), w.sale, "u", cursor, 3)
			storetest.Must(t, err)
			for _, r := range items {
				got = append(got, r.ID)
			}
			if cursor = next; pages > 3 {
				t.Fatal("it does not end")
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			t.Errorf("listed %v, want %v", got, ids)
		}
		other := w.mustReserve("v", units("s", 1)).ID
		for _, bad := range []string{"x", newID(0), other} {
			_, _, err := w.Reservations(t.Context(), w.sale, "u", bad, 3)
			storetest.WantCode(t, err, api.CodeValidation)
		}
		items, next, err := w.Reservations(t.Context(), w.sale, "nobody", "", 3)
		if err != nil || len(items) != 0 || next != "" {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
}
