package stock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// toldFact is a fact that a step has left.
type toldFact struct {
	typ, key, at string
	left         time.Time // by Redis' clock
	data         struct {
		Sale, Reservation, User, SKU string
		Lines                        []api.Line
		Available                    int64
		LowAt                        int64     `json:"low_at"`
		CreatedAt                    time.Time `json:"created_at"`
	}
}

// eachOwnLive is eachLive where no sweeper of another test returns holds without telling.
func eachOwnLive(t *testing.T, fn func(t *testing.T, w *liveWorld)) {
	t.Helper()
	storetest.EachRedisOwn(t, func(t *testing.T, db *redisdb.DB) { fn(t, newLiveWorld(t, db)) })
}

// telling is another process, which tells facts of these types, and what it said about outboxes.
func (w *liveWorld) telling(types ...string) (*liveWorld, *toldOutboxes) {
	boxes := &toldOutboxes{sale: w.sale, left: map[FactOutbox]int{}}
	return w.another(Options{Facts: Facts{Tells: func(typ string) bool { return slices.Contains(types, typ) }, Left: boxes.note}}), boxes
}

// toldOutboxes counts how often those of a sale were named.
type toldOutboxes struct {
	sale string
	mu   sync.Mutex
	left map[FactOutbox]int
}

func (b *toldOutboxes) note(o FactOutbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.HasPrefix(o.Name, "sale:"+b.sale+":") { // sweeps find all sales
		b.left[o]++
	}
}

// facts are what the partitions' steps have left, in the order of each.
func (w *liveWorld) facts() (all []toldFact) {
	w.t.Helper()
	for n := range api.MaxPartitions {
		for _, m := range w.db.Client().XRange(context.Background(), newPartition(w.sale, n).facts, "-", "+").Val() {
			f := toldFact{typ: fmt.Sprint(m.Values["t"]), key: fmt.Sprint(m.Values["k"]), at: fmt.Sprint(m.Values["a"])}
			ms, _, _ := strings.Cut(m.ID, "-")
			left, err := strconv.ParseInt(ms, 10, 64)
			storetest.Must(w.t, err)
			f.left = time.UnixMilli(left)
			storetest.Must(w.t, json.Unmarshal([]byte(fmt.Sprint(m.Values["d"])), &f.data))
			if f.data.Sale != w.sale {
				w.t.Fatalf("a fact of another sale: %+v", f)
			}
			all = append(all, f)
		}
	}
	return all
}

// below is what is told of skus that are low: "<sku> <available>/<low_at>", in order.
func (w *liveWorld) below() (told []string) {
	w.t.Helper()
	for _, f := range w.facts() {
		if f.typ != api.FactStockBelow || f.key != w.sale {
			w.t.Fatalf("another fact: %+v", f)
		}
		told = append(told, fmt.Sprintf("%s %d/%d", f.data.SKU, f.data.Available, f.data.LowAt))
	}
	return told
}

func (w *liveWorld) wantBelow(want ...string) {
	w.t.Helper()
	if got := w.below(); !slices.Equal(got, want) {
		w.t.Errorf("it was told %q, want %q", got, want)
	}
}

// put changes the sale.
func (w *liveWorld) put(r *api.SaleRequest) {
	w.t.Helper()
	_, err := w.Put(context.Background(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: api.AnyVersion}})
	storetest.Must(w.t, err)
}

// H1: a sale with one partition tells by each step that makes a sku low, and by no other: a reservation, a change of the stock or of
// low_at, its making, and not while it stays low.
func TestH1_AStepTellsThatASKUIsLow(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		w, _ := plain.telling(api.FactStockBelow)
		ctx := t.Context()
		r := w.request(offer{stock: map[string]int64{"a": 10, "b": 1, "s": 9}, hold: 600_000})
		r.Items[0].LowAt, r.Items[1].LowAt = new(int64(4)), new(int64(0))
		w.mustPutNew(r)
		first := w.mustReserve("u", units("a", 5)) // 5 left
		w.wantBelow()
		second := w.mustReserve("v", units("a", 2), units("b", 1), units("s", 8)) // 3 and 0 left
		told := w.below()
		slices.Sort(told)
		if !slices.Equal(told, []string{"a 3/4", "b 0/0"}) {
			t.Errorf("it was told %q", told)
		}
		want := w.below()
		w.mustReserve("x", units("a", 3))
		_, err := w.reserve("y", units("a", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		w.wantBelow(want...)
		_, err = w.End(ctx, EndHold{Sale: w.sale, ID: second.ID}) // 2 again: still low
		storetest.Must(t, err)
		third := w.mustReserve("z", units("a", 1), units("b", 1))
		want = append(want, "b 0/0")
		w.wantBelow(want...)
		w.overdue(first.ID)
		w.mustReserve("w", units("a", 2)) // of 1 and the 5 of a hold that is over: low before the step and after it
		w.wantBelow(want...)
		_, err = w.End(ctx, EndHold{Sale: w.sale, ID: third.ID, Sell: true})
		storetest.Must(t, err)
		_, err = w.restock("a", 6)
		storetest.Must(t, err)
		before := len(w.below())
		_, err = w.restock("a", -6)
		storetest.Must(t, err)
		if now := w.below(); len(now) != before+1 || !strings.HasPrefix(now[before], "a ") {
			t.Errorf("less stock told %q", now[before:])
		}
		now := w.mustRead()
		for i := range r.Items {
			r.Items[i].Stock = &now.Items[i].Total
		}
		r.Items[2].LowAt = new(int64(9))
		w.put(r)
		if now := w.below(); len(now) != before+2 || now[before+1] != "s 9/9" {
			t.Errorf("another low_at told %q", now[before:])
		}
		w.put(r)
		r.Items[2].LowAt = nil
		w.put(r)
		if now := w.below(); len(now) != before+2 {
			t.Errorf("no low_at told %q", now[before:])
		}
		made, _ := newLiveWorld(t, plain.db).telling(api.FactStockBelow)
		r = made.request(offer{stock: map[string]int64{"a": 3, "b": 9}})
		r.Items[0].LowAt, r.Items[1].LowAt = new(int64(3)), new(int64(8))
		made.mustPutNew(r)
		made.wantBelow("a 3/3")
	})
}

// mustPutNew makes the sale from a request.
func (w *liveWorld) mustPutNew(r *api.SaleRequest) {
	w.t.Helper()
	_, err := w.Put(context.Background(), PutSale{Sale: w.sale, Request: r, New: true})
	storetest.Must(w.t, err)
}

// H1: thousands of buyers in several processes empty a sale and give all back, again and again: each time it is told once that
// little is left, also with units that move between partitions while sweepers look.
func TestH1_EachCrossingIsToldOnce(t *testing.T) {
	t.Parallel()
	rounds, buyers := storetest.Sized(8, 4), storetest.Sized(1000, 250)
	for name, partitions := range map[string]int64{"One": 1, "Four": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachLive(t, func(t *testing.T, plain *liveWorld) {
				w, _ := plain.telling(api.FactStockBelow)
				r := w.request(offer{stock: map[string]int64{"s": int64(buyers)}, hold: 600_000, partitions: partitions})
				low := int64(buyers / 10)
				r.Items[0].LowAt = &low
				w.mustPutNew(r)
				other, _ := plain.telling(api.FactStockBelow)
				if partitions > 1 {
					w.sweepOn()
					other.sweepOn()
				}
				for round := range rounds {
					held := make([]string, buyers)
					storetest.AtOnce(t, 64, func(_ context.Context, i int) error {
						for n := i; n < buyers; n += 64 {
							got, err := []*liveWorld{w, other}[n%2].reserve(fmt.Sprint("u", n), units("s", 1))
							if err != nil {
								return err
							}
							held[n] = got.Reservation.ID
						}
						return nil
					})
					w.awaitBelow(round+1, partitions)
					storetest.AtOnce(t, 64, func(ctx context.Context, i int) error {
						for n := i; n < buyers; n += 64 {
							if _, err := []*liveWorld{other, w}[n%2].End(ctx, EndHold{Sale: w.sale, ID: held[n]}); err != nil {
								return err
							}
						}
						return nil
					})
					w.awaitNotLow(partitions)
				}
				for _, f := range w.facts() {
					if f.data.Available > low || f.data.Available < 0 || f.data.LowAt != low {
						t.Errorf("told: %+v", f)
					}
				}
				if n := len(w.facts()); n != rounds {
					t.Errorf("%d crossings were told %d times", rounds, n)
				}
			})
		})
	}
}

// awaitBelow waits until so many facts were told. A sale with one partition has told them before.
func (w *liveWorld) awaitBelow(n int, partitions int64) {
	w.t.Helper()
	if partitions > 1 {
		storetest.Eventually(w.t, patience, "it is told that little is left", func() bool { return len(w.facts()) >= n })
	}
	if got := len(w.facts()); got != n {
		w.t.Fatalf("it was told %d times, want %d", got, n)
	}
}

// awaitNotLow waits until sweepers have seen that the sale is not low any more.
func (w *liveWorld) awaitNotLow(partitions int64) {
	w.t.Helper()
	if partitions == 1 {
		return
	}
	storetest.Eventually(w.t, patience, "it is seen that enough is there", func() bool {
		found, err := w.readStates(context.Background(), newPartition(w.sale, 0))
		storetest.Must(w.t, err)
		return strings.HasSuffix(found[0].low, " ")
	})
}

// H1: of a sale with several partitions nothing is told without proof: if units came back between two reads, the sums say nothing.
func TestH1_PartitionsProveThatASKUIsLow(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, boxes := plain.telling(api.FactStockBelow)
		parts, held := w.mustBeLow(4)
		// After each first read of all four, all units come back, and are reserved again before the next try.
		between, reads := w.between(func(reads int) {
			switch reads % 8 {
			case 4:
				_, err := plain.End(context.Background(), EndHold{Sale: w.sale, ID: held.ID})
				storetest.Must(t, err)
			case 0:
				held = plain.mustReserve("u", units("s", 7))
			}
		})
		_, err := between.tellLow(t.Context(), parts)
		storetest.Must(t, err)
		if w.wantBelow(); *reads != 8*lowTries {
			t.Errorf("%d reads", *reads)
		}
		for range 3 {
			storetest.Must(t, w.Sweep(t.Context()))
		}
		w.wantBelow("s 5/5")
		if boxes.left[parts[0].factOutbox()] == 0 {
			t.Error("nobody was told of the fact")
		}
		_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: held.ID})
		storetest.Must(t, err)
		storetest.Must(t, w.Sweep(t.Context()))
		w.mustReserve("v", units("s", 12))
		storetest.AtOnce(t, 8, func(ctx context.Context, _ int) error { return w.Sweep(ctx) })
		w.wantBelow("s 5/5", "s 0/5")
	})
}

// mustBeLow makes a sale with several partitions of which 5 units are left, and gives the hold of the other 7.
func (w *liveWorld) mustBeLow(partitions int64) ([]*partition, api.Reservation) {
	w.t.Helper()
	r := w.request(offer{stock: map[string]int64{"s": 12}, hold: 600_000, partitions: partitions})
	r.Items[0].LowAt = new(int64(5))
	w.mustPutNew(r)
	parts, err := w.partitionsOf(context.Background(), w.sale)
	storetest.Must(w.t, err)
	return parts, w.mustReserve("u", units("s", 7))
}

// between is another process, in which something happens after each read of a partition, and how many there were.
func (w *liveWorld) between(fn func(reads int)) (*liveWorld, *int) {
	mu, reads := new(sync.Mutex), new(int)
	return w.faulty(Options{Facts: w.o.Facts}, func(name string, answered bool) error {
		mu.Lock()
		defer mu.Unlock()
		if name == "partition_read" && answered {
			*reads++
			fn(*reads)
		}
		return nil
	}), reads
}

// H1: a sku that is low is told although units come back and are taken again all the time.
func TestH1_ALowSKUIsToldWhileUnitsComeAndGo(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, _ := plain.telling(api.FactStockBelow)
		parts, held := w.mustBeLow(4)
		between, reads := w.between(func(reads int) {
			if reads%4 == 0 {
				_, err := plain.End(context.Background(), EndHold{Sale: w.sale, ID: held.ID})
				storetest.Must(t, err)
				held = plain.mustReserve("u", units("s", 7))
			}
		})
		_, err := between.tellLow(t.Context(), parts)
		storetest.Must(t, err)
		if w.wantBelow("s 5/5"); *reads != 8*lowTries {
			t.Errorf("%d reads", *reads)
		}
		storetest.Must(t, w.Sweep(t.Context()))
		w.wantBelow("s 5/5")
	})
}

// H1: a sale with several partitions that Redis lost, and that is read back, does not tell again that it is low, but tells what becomes
// low after that.
func TestH1_ALostSaleIsNotLowAgain(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, _ := plain.telling(api.FactStockBelow)
		r := w.request(offer{stock: map[string]int64{"a": 9, "s": 12}, hold: 600_000, partitions: 3})
		r.Items[0].LowAt, r.Items[1].LowAt = new(int64(3)), new(int64(5))
		w.mustPutNew(r)
		sold := w.soldOrders(4, 2) // 4 are left
		storetest.Must(t, w.Sweep(t.Context()))
		w.wantBelow("s 4/5")
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		on := w.recorded()
		w.emptied(parts)
		storetest.Must(t, w.rebuild(on, sold))
		for range 2 {
			storetest.Must(t, w.Sweep(t.Context()))
		}
		w.wantBelow("s 4/5")
		held := w.mustReserve("x", units("a", 6))
		storetest.Must(t, w.Sweep(t.Context()))
		w.wantBelow("s 4/5", "a 3/3")
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: held.ID})
		storetest.Must(t, err)
		storetest.Must(t, w.Sweep(t.Context()))
		w.mustReserve("y", units("a", 6))
		storetest.Must(t, w.Sweep(t.Context()))
		w.wantBelow("s 4/5", "a 3/3", "a 3/3")
	})
}

// H1: each hold that is over is told once, whoever finds it and wherever a process dies, and none that ended otherwise. Its fact has
// the hold, and the end of it.
func TestH1_HoldsThatExpireAreToldOnce(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		w, boxes := plain.telling(api.FactHoldExpired)
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"a": 1000, "s": 1000}, hold: 600_000, partitions: 2})
		expired := map[string]api.Reservation{}
		for n := range 60 {
			r := w.mustReserve(fmt.Sprint("u", n), units("s", 2), units("a", 1))
			switch n % 4 {
			case 0:
				_, err := w.End(ctx, EndHold{Sale: w.sale, ID: r.ID, Sell: true})
				storetest.Must(t, err)
			case 1:
				_, err := w.End(ctx, EndHold{Sale: w.sale, ID: r.ID})
				storetest.Must(t, err)
			default:
				expired[r.ID] = r
			}
		}
		w.mustReserve("erased", units("s", 1))
		if e, err := w.EraseUser(ctx, w.sale, "erased", w.now().UnixMilli()); err != nil || e.Released != 1 {
			t.Errorf("erased: %+v, %v", e, err)
		}
		for id := range expired {
			w.overdue(id)
		}
		storetest.AtOnce(t, 12, func(ctx context.Context, i int) error {
			switch i % 4 {
			case 0:
				return w.Sweep(ctx)
			case 1:
				_ = plain.faulty(Options{Facts: w.o.Facts}, storetest.DieAt(i).Fault).Sweep(ctx)
			case 2:
				for id := range expired {
					_, err := w.End(ctx, EndHold{Sale: w.sale, ID: id, Sell: i > 6})
					if api.CodeOf(err) != api.CodeNotHeld {
						return fmt.Errorf("a hold that is over: %w", err)
					}
				}
			case 3:
				_, err := w.reserve(fmt.Sprint("late", i), units("s", 999))
				if err != nil && api.CodeOf(err) != api.CodeSoldOut {
					return err
				}
			}
			return nil
		})
		facts := w.facts()
		for _, f := range facts {
			r, ok := expired[f.key]
			if delete(expired, f.key); !ok || f.typ != api.FactHoldExpired || f.at != "1" || f.data.Reservation != r.ID || f.data.User != r.User || !slices.Equal(f.data.Lines, r.Lines) {
				t.Errorf("told: %+v of %+v", f, r)
			}
		}
		if len(expired) > 0 {
			t.Errorf("%d were not told", len(expired))
		}
		if len(boxes.left) != 2 {
			t.Errorf("%v were named", boxes.left)
		}
	})
}

// H1: each order is told when the record has it, once, however often that is noted and wherever a process dies.
func TestH1_OrdersOnRecordAreToldOnce(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, boxes := plain.telling(api.FactOrderCreated)
		w.mustOpen(offer{stock: map[string]int64{"s": 100}, hold: 600_000, partitions: 2})
		orders := w.soldOrders(30, 2)
		if len(w.facts()) > 0 {
			t.Fatal("orders were told that the record does not have")
		}
		for n := range 6 {
			_, _ = plain.faulty(Options{Facts: w.o.Facts}, storetest.DieAt(n).Fault).OrdersRecorded(t.Context(), w.sale, orders[:25]...)
		}
		storetest.AtOnce(t, 4, func(ctx context.Context, i int) error {
			known, err := w.OrdersRecorded(ctx, w.sale, orders[i:]...)
			if err == nil && known != 30-i {
				err = fmt.Errorf("%d of %d are known", known, 30-i)
			}
			return err
		})
		told := map[string]bool{}
		for _, f := range w.facts() {
			i := slices.IndexFunc(orders, func(o Order) bool { return o.Reservation == f.key })
			if i < 0 || told[f.key] {
				t.Fatalf("told: %+v", f)
			}
			told[f.key] = true
			o := orders[i]
			if d := f.data; f.typ != api.FactOrderCreated || f.at != fmt.Sprint(o.CreatedAt) || d.Reservation != o.Reservation || d.User != o.User || !slices.Equal(d.Lines, o.Lines) || d.CreatedAt.UnixMilli() != o.CreatedAt {
				t.Errorf("told: %+v of %+v", f, o)
			}
		}
		if len(told) != 30 || len(boxes.left) == 0 {
			t.Errorf("%d orders were told, in %v", len(told), boxes.left)
		}
		for i := range 2 {
			if n := w.db.Client().ZCard(t.Context(), newPartition(w.sale, i).orders).Val(); n != 0 {
				t.Errorf("%d orders still wait", n)
			}
		}
	})
}

// H1: an order that Redis lost is told when it is brought back from the record. Of a sale that Redis did not have nothing is told,
// neither of orders nor of stock.
func TestH1_OrdersThatRedisLost(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, _ := plain.telling(api.FactOrderCreated, api.FactStockBelow)
		r := w.request(offer{stock: map[string]int64{"s": 10}, hold: 600_000})
		r.Items[0].LowAt = new(int64(5))
		w.mustPutNew(r)
		sold := w.soldOrders(2, 2)
		_, err := w.OrdersRecorded(t.Context(), w.sale, sold...)
		storetest.Must(t, err)
		lost := orderOf(w, "z", 3) // 3 are left
		for range 2 {
			_, err = w.RestoreOrders(t.Context(), w.sale, append([]Order{lost}, sold...))
			storetest.Must(t, err)
		}
		types := ""
		for _, f := range w.facts()[2:] {
			types += f.typ + " " + f.key + "\n"
		}
		if want := "stock.below " + w.sale + "\norder.created " + lost.Reservation + "\n"; types != want {
			t.Errorf("told:\n%swant:\n%s", types, want)
		}
		on, before := w.recorded(), len(w.facts())
		parts, _ := w.partitionsOf(t.Context(), w.sale)
		w.emptied(parts)
		storetest.Must(t, w.rebuild(on, append([]Order{lost}, sold...)))
		w.want("s", "3 0 7 10")
		if n := len(w.facts()); n != before {
			t.Errorf("%d facts were told again", n-before)
		}
		if item := w.mustRead().Items[0]; item.LowAt == nil || *item.LowAt != 5 {
			t.Errorf("read back: %+v", item)
		}
	})
}

// Facts that were not moved keep a sale that is deleted, or over for long, until they are.
func TestARemovedSaleTakesNoFactsWithIt(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		for name, partitions := range map[string]int64{"One": 1, "Three": 3} {
			plain := newLiveWorld(t, plain.db)
			w, boxes := plain.telling(api.FactOrderCreated, api.FactHoldExpired)
			var moved []string
			away := true
			w.o.Facts.Move = func(ctx context.Context, o FactOutbox) error {
				if away {
					return errors.New("a lane is away")
				}
				for _, m := range w.db.Client().XRangeN(ctx, o.Key, "-", "+", 7).Val() {
					moved = append(moved, fmt.Sprint(m.Values["k"]))
					storetest.Must(t, w.db.Client().XDel(ctx, o.Key, m.ID).Err())
				}
				return nil
			}
			r := w.mustOpen(offer{stock: map[string]int64{"s": 100}, hold: 600_000, partitions: partitions})
			for n := range 20 {
				w.overdue(w.mustReserve(fmt.Sprint("u", n), units("s", 1)).ID)
			}
			r.EndsAt = new(api.At(w.now()))
			w.put(r)
			d, err := w.BeginDelete(t.Context(), w.sale, Match{}) // finds the holds
			storetest.Must(t, err)
			if err := w.FinishDelete(t.Context(), w.sale, d.Loading); err == nil {
				t.Errorf("%s: it was removed", name)
			}
			storetest.Must(t, w.Sweep(t.Context()))
			if n := len(w.facts()); n != 20 || len(boxes.left) != int(partitions) {
				t.Errorf("%s: %d facts are left, and %d outboxes were named", name, n, len(boxes.left))
			}
			away = false
			storetest.Must(t, w.FinishDelete(t.Context(), w.sale, d.Loading))
			slices.Sort(moved)
			if keys := w.left(); len(keys) > 0 || len(slices.Compact(moved)) != 20 {
				t.Errorf("%s: left: %v, moved: %v", name, keys, moved)
			}
		}
	})
}

// A sale that ended long ago is not removed before its facts were moved, and a sweep names their outbox.
func TestAnOldSaleKeepsItsFacts(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		w, boxes := plain.telling()
		r := w.mustOpen(offer{stock: map[string]int64{"s": 9}})
		p := newPartition(w.sale, 0)
		storetest.Must(t, w.db.Client().XAdd(t.Context(), &redis.XAddArgs{Stream: p.facts, Values: []string{"t", "a", "k", "b", "a", "", "d", `{"sale":"` + w.sale + `"}`}}).Err())
		storetest.Must(t, w.ended(r, []*partition{p}, keptAfterEnd+time.Hour))
		storetest.Must(t, w.Sweep(t.Context()))
		if len(w.facts()) != 1 || boxes.left[p.factOutbox()] == 0 {
			t.Errorf("%d facts are there, %v", len(w.facts()), boxes.left)
		}
		storetest.Must(t, w.db.Client().XTrimMaxLen(t.Context(), p.facts, 0).Err())
		storetest.Must(t, w.Sweep(t.Context()))
		if keys := w.left(); len(keys) > 0 {
			t.Errorf("left: %v", keys)
		}
	})
}

// tellingName is the name of a script that tells facts, and "" of any other command. Those of reservations and sweeps have the key that
// never exists only if they do.
func tellingName(cmd redis.Cmder) string {
	switch name := storetest.NameOf(cmd); name {
	case "orders_recorded", "stock_low":
		return name
	case "stock_reserve", "reservation_end", "sale_sweep":
		if slices.ContainsFunc(cmd.Args(), func(arg any) bool { return strings.HasSuffix(fmt.Sprint(arg), ":never") }) {
			return name
		}
	}
	return ""
}

// H1: with no type turned on nothing is written, and no script has to do with facts.
func TestH1_WithoutTypesNothingIsWritten(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, plain *liveWorld) {
		var scripts atomic.Int64
		w := &liveWorld{Live: New(storetest.FaultyBy(t, plain.db, tellingName, func(string, bool) error {
			scripts.Add(1)
			return nil
		}), Options{}), t: t, db: plain.db}
		for _, partitions := range []int64{1, 3} {
			w.sale = "sale." + newRequest()[:12]
			r := w.request(offer{stock: map[string]int64{"s": 10}, hold: 600_000, partitions: partitions})
			r.Items[0].LowAt = new(int64(8))
			w.mustPutNew(r)
			w.overdue(w.mustReserve("u", units("s", 3)).ID)
			storetest.Must(t, w.Sweep(t.Context()))
			orders := w.soldOrders(3, 2)
			_, err := w.OrdersRecorded(t.Context(), w.sale, orders...)
			storetest.Must(t, err)
			storetest.Must(t, w.Sweep(t.Context()))
			if keys := w.left(); slices.ContainsFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":out") && strings.Contains(key, "facts") }) {
				t.Errorf("there are %v", keys)
			}
		}
		if scripts.Load() > 0 {
			t.Error("a script that tells facts ran")
		}
		w.o.Facts.Tells = func(string) bool { return true }
		if w.mustReserve("v", units("s", 1)); scripts.Load() == 0 {
			t.Error("no script tells facts, although all types are on")
		}
	})
}

// A Redis without memory tells of the holds that it returns, and of the orders that went on record.
func TestAFullRedisTellsFacts(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w, _ := newLiveWorld(t, storetest.Open(t, server.URL())).telling(api.FactHoldExpired, api.FactOrderCreated)
	w.mustOpen(offer{stock: map[string]int64{"s": 10}, hold: 600_000})
	held, orders := w.mustReserve("h", units("s", 1)), w.soldOrders(2, 1)
	w.overdue(held.ID)
	storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	if err := server.Client().Set(t.Context(), "x", "y", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	storetest.Must(t, w.Sweep(t.Context()))
	_, err := w.OrdersRecorded(t.Context(), w.sale, orders...)
	storetest.Must(t, err)
	if facts := w.facts(); len(facts) != 3 {
		t.Errorf("told: %+v", facts)
	}
}

// S23: low_at is a setting like the others: it is shown, and a sale that is sent back keeps its version.
func TestS23_LowAt(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, w.db)
			r := w.request(offer{stock: map[string]int64{"a": 5, "b": 5, "s": 5}, partitions: partitions})
			r.Items[0].LowAt, r.Items[2].LowAt = new(int64(0)), new(int64(3))
			w.mustPutNew(r)
			lows := func() (all string) {
				for _, i := range w.mustRead().Items {
					if i.LowAt == nil {
						all += i.SKU + " - "
					} else {
						all += fmt.Sprint(i.SKU, " ", *i.LowAt, " ")
					}
				}
				return all
			}
			if got := lows(); got != "a 0 b - s 3 " {
				t.Errorf("shown: %s", got)
			}
			item, err := w.restock("s", 2)
			if storetest.Must(t, err); item.LowAt == nil || *item.LowAt != 3 {
				t.Errorf("restocked: %+v", item)
			}
			r.Items[2].Stock = new(int64(7))
			slices.Reverse(r.Items)
			w.put(r)
			if now := w.mustRead(); now.Version != 2 {
				t.Errorf("the same sale is version %d", now.Version)
			}
			r.Items[0].LowAt = nil
			w.put(r)
			if got := lows(); !strings.Contains(got, "s - ") || w.mustRead().Version != 3 {
				t.Errorf("changed: %s", got)
			}
		}
	})
}
