package stock

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// key makes an idempotency key with a body.
func key(name, body string) api.Idempotency {
	return api.Idempotency{Scope: "test", Key: name, Body: sha256.Sum256([]byte(body))}
}

func (w *liveWorld) reserveOnce(once api.Idempotency, user string, lines ...api.Line) (Reserved, error) {
	return w.Reserve(context.Background(), ReserveStock{Sale: w.sale, Once: once, Request: &api.ReservationRequest{User: user, Lines: lines}})
}

// everything is all that Redis has of the sale.
func (w *liveWorld) everything() map[string]string {
	w.t.Helper()
	parts, err := w.partitionsOf(context.Background(), w.sale)
	storetest.Must(w.t, err)
	all := map[string]string{}
	c := w.db.Client()
	for _, p := range parts {
		for _, key := range []string{p.settings, p.stock, p.reservations, p.totals, p.out} {
			for field, v := range c.HGetAll(context.Background(), key).Val() {
				all[key+" "+field] = v
			}
		}
		for _, key := range []string{p.due, p.orders} {
			for _, z := range c.ZRangeWithScores(context.Background(), key, 0, -1).Val() {
				all[key+" "+z.Member.(string)] = fmt.Sprint(z.Score)
			}
		}
	}
	return all
}

// overdue makes a hold's time be over since long, as if nobody had looked since.
func (w *liveWorld) overdue(id string) {
	w.t.Helper()
	p, err := w.partitionByID(context.Background(), w.sale, id)
	storetest.Must(w.t, err)
	c := w.db.Client()
	text := c.HGet(context.Background(), p.reservations, id).Val()
	f := strings.Split(text, "|")
	f[3] = "1"
	storetest.Must(w.t, c.HSet(context.Background(), p.reservations, id, strings.Join(f, "|")).Err())
	storetest.Must(w.t, c.ZAdd(context.Background(), p.due, redis.Z{Score: 1, Member: id}).Err())
}

func TestS1_OneRoundTripDoesItAll(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 100, "b": 100}, limit: 90})
		var roundTrips, commands atomic.Int64
		var warm atomic.Bool
		one := w.faulty(Options{}, func(name string, _ bool) error {
			if warm.Load() && name != "stock_reserve" {
				return errors.New("another step: " + name)
			}
			return nil
		})
		one.send = func(ctx context.Context, m redisdb.Mode, cmds ...redis.Cmder) error {
			roundTrips.Add(1)
			commands.Add(int64(len(cmds)))
			return one.Live.db.Share(ctx, m, cmds...)
		}
		one.mustReserve("warm", units("a", 1)) // learns how many partitions there are
		warm.Store(true)
		roundTrips.Store(0)
		commands.Store(0)
		_, err := one.reserveOnce(key("k", "b"), "u", units("a", 1), units("b", 2))
		storetest.Must(t, err)
		if roundTrips.Load() != 1 || commands.Load() != 1 {
			t.Errorf("%d round trips with %d commands", roundTrips.Load(), commands.Load())
		}
	})
}

func TestS1_ReplayComesFirst(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 2}, limit: 2})
		first, err := w.reserveOnce(key("k", "two"), "u", units("s", 2))
		storetest.Must(t, err)
		again := func(when string) {
			t.Helper()
			got, err := w.reserveOnce(key("k", "two"), "u", units("s", 2))
			storetest.Must(t, err)
			if !got.Replayed || got.Reservation.ID != first.Reservation.ID || !got.Reservation.ExpiresAt.Equal(first.Reservation.ExpiresAt.Time) || got.Reservation.State != api.ReservationHeld {
				t.Fatalf("%s: %+v, first %+v", when, got.Reservation, first.Reservation)
			}
		}
		again("sold out, and the limit reached")
		_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: first.Reservation.ID})
		storetest.Must(t, err)
		again("released")
		_, err = w.reserveOnce(key("k", "another body"), "u", units("s", 1))
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		over := api.At(w.now().Add(-1))
		r.EndsAt = &over
		_, err = w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
		storetest.Must(t, err)
		again("ended")
		_, err = w.reserve("u", units("s", 1))
		storetest.WantCode(t, err, api.CodeEnded)
		w.want("s", "2 0 0 2")
	})
}

func TestS1_ARefusalIsNotKept(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 1}})
		hold := w.mustReserve("other", units("s", 1))
		_, err := w.reserveOnce(key("k", "b"), "u", units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		_, err = w.End(t.Context(), EndHold{Sale: w.sale, ID: hold.ID})
		storetest.Must(t, err)
		got, err := w.reserveOnce(key("k", "b"), "u", units("s", 1))
		storetest.Must(t, err)
		if got.Replayed {
			t.Error("a refusal was kept")
		}
	})
}

// The checks come in the order of the contract: replay, window, limit, stock.
func TestS1_OrderOfRefusals(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		r := w.mustOpen(offer{stock: map[string]int64{"s": 1}, limit: 1})
		w.mustReserve("u", units("s", 1))
		_, err := w.reserve("u", units("s", 1)) // at the limit, and sold out
		storetest.WantCode(t, err, api.CodeLimitReached)
		_, err = w.reserve("v", units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
		_, err = w.reserve("v", units("none", 1))
		storetest.WantCode(t, err, api.CodeValidation)
		later := api.At(w.now().Add(patience))
		r.StartsAt = &later
		_, err = w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
		storetest.Must(t, err)
		_, err = w.reserve("u", units("s", 1))
		storetest.WantCode(t, err, api.CodeNotStarted)
		_, err = w.another(Options{}).Reserve(t.Context(), ReserveStock{Sale: w.sale + "x", Request: &api.ReservationRequest{User: "u", Lines: []api.Line{units("s", 1)}}})
		storetest.WantCode(t, err, api.CodeSaleNotFound)
	})
}

func TestS1_ARefusalChangesNothing(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"a": 5, "b": 1}, limit: 4})
		w.mustReserve("u", units("a", 3))
		before := w.everything()
		for code, lines := range map[api.Code][]api.Line{
			api.CodeLimitReached: {units("a", 2)},
			api.CodeSoldOut:      {units("a", 1), units("b", 2)},
			api.CodeValidation:   {units("a", 1), units("zzz", 1)},
		} {
			user := "u"
			if code != api.CodeLimitReached {
				user = "v"
			}
			_, err := w.reserveOnce(key(string(code), "b"), user, lines...)
			storetest.WantCode(t, err, code)
			if after := w.everything(); !maps.Equal(before, after) {
				t.Fatalf("%s changed something:\n%v\n%v", code, before, after)
			}
		}
	})
}

// More holds are due than one script returns: the call repeats before it refuses.
func TestS1_ManyDueHoldsAreReturnedBeforeARefusal(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const n = 3*dueAtOnce + 5
		w.mustOpen(offer{stock: map[string]int64{"s": n}, limit: n})
		for range n {
			w.overdue(w.mustReserve("u", units("s", 1)).ID)
		}
		w.mustReserve("u", units("s", n)) // at the limit too, until they are returned
		w.want("s", fmt.Sprint(0, n, 0, n))
		_, err := w.reserve("v", units("s", 1))
		storetest.WantCode(t, err, api.CodeSoldOut)
	})
}

func TestS2_AllLinesOrNone(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 4} {
			w := newLiveWorld(t, w.db)
			w.mustOpen(offer{stock: map[string]int64{"a": 10, "b": 4, "c": 10}, partitions: partitions})
			got, err := w.reserve("u", units("a", 3), units("b", 5), units("c", 1))
			storetest.WantCode(t, err, api.CodeSoldOut)
			if got.SoldOut.Available["b"] != 4 || got.SoldOut.Version != 1 {
				t.Errorf("%+v", got.SoldOut)
			}
			w.want("a", "10 0 0 10")
			w.mustReserve("u", units("a", 3), units("b", 4), units("c", 1))
			w.want("a", "7 3 0 10")
			w.want("b", "0 4 0 4")
			w.want("c", "9 1 0 10")
			w.mustAddUp()
		}
	})
}

func TestS3_LimitCountsHeldAndSold(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"a": 50, "b": 50}, limit: 5, partitions: 2})
		first := w.mustReserve("u", units("a", 2), units("b", 1))
		_, err := w.reserve("u", units("b", 3))
		storetest.WantCode(t, err, api.CodeLimitReached)
		var e *api.Error
		if errors.As(err, &e); e.Facts["remaining"] != int64(2) {
			t.Errorf("remaining %v", e.Facts["remaining"])
		}
		_, err = w.End(ctx, EndHold{Sale: w.sale, ID: first.ID, Sell: true})
		storetest.Must(t, err)
		_, err = w.reserve("u", units("b", 3)) // sold units count
		storetest.WantCode(t, err, api.CodeLimitReached)
		second := w.mustReserve("u", units("b", 2))
		_, err = w.End(ctx, EndHold{Sale: w.sale, ID: second.ID})
		storetest.Must(t, err)
		third := w.mustReserve("u", units("b", 2)) // released ones came back
		w.overdue(third.ID)
		w.mustReserve("u", units("b", 2)) // and so did expired ones
		w.mustReserve("v", units("b", 5)) // another user has a limit of his own
	})
}

func TestS3_ParallelRequestsCannotBothPass(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 1000}, limit: 3, partitions: 4})
		const users, each = 20, 6
		var won sync.Map
		var all sync.WaitGroup
		for n := range users * each {
			all.Go(func() {
				user := fmt.Sprint("u", n%users)
				_, err := w.reserve(user, units("s", 2))
				if err == nil {
					c, _ := won.LoadOrStore(user, new(atomic.Int64))
					c.(*atomic.Int64).Add(1)
				} else if api.CodeOf(err) != api.CodeLimitReached {
					t.Error(err)
				}
			})
		}
		all.Wait()
		won.Range(func(user, n any) bool {
			if n.(*atomic.Int64).Load() != 1 {
				t.Errorf("%v won %d times", user, n.(*atomic.Int64).Load())
			}
			return true
		})
		w.want("s", fmt.Sprint(1000-2*users, 2*users, 0, 1000))
	})
}

// A thousand buyers, a hundred units: exactly a hundred are sold, also with
// random quantities and in several processes, and nothing is refused in vain.
func TestThousandBuyersHundredUnits(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for _, partitions := range []int64{1, 8} {
			for _, most := range []int64{1, 7} {
				t.Run(fmt.Sprintf("%d partitions, up to %d units", partitions, most), func(t *testing.T) {
					t.Parallel()
					buyOut(newLiveWorld(t, w.db), partitions, most)
				})
			}
		}
	})
}

func buyOut(w *liveWorld, partitions, most int64) {
	buyers, stock := int64(1000), int64(100)
	if w.db.Embedded() { // its Lua is slow
		buyers, stock = buyers/partitions, stock/partitions
	}
	w.mustOpen(offer{stock: map[string]int64{"s": stock}, partitions: partitions, hold: -1})
	processes := []*liveWorld{w, w.another(Options{}), w.another(Options{})}
	var sold atomic.Int64
	var all sync.WaitGroup
	todo := make(chan int64, buyers)
	for n := range buyers {
		todo <- n
	}
	close(todo)
	for k := range 40 {
		all.Go(func() {
			for n := range todo {
				want := 1 + n%most
				_, err := processes[k%len(processes)].reserve(fmt.Sprint("buyer", n), units("s", want))
				if err == nil {
					sold.Add(want)
				} else if api.CodeOf(err) != api.CodeSoldOut {
					w.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if sold.Load() != stock {
		w.t.Errorf("%d units were sold", sold.Load())
	}
	w.want("s", fmt.Sprint(0, 0, stock, stock))
	w.mustAddUp()
}

// TestAllKeysOfAPartitionShareASlot leaves one of everything and computes slots.
func TestAllKeysOfAPartitionShareASlot(t *testing.T) {
	t.Parallel()
	w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 3})
	_, err := w.reserveOnce(key("{x}", "b"), "u", units("s", 9))
	storetest.Must(t, err)
	_, _, err = w.Restock(t.Context(), AddStock{Sale: w.sale, Request: restock("s", 3), Once: key("{y}", "b")})
	storetest.Must(t, err)
	keys := w.db.Client().Keys(t.Context(), "*{sale:"+w.sale+":*").Val()
	if len(keys) < 12 {
		t.Errorf("keys %v", keys)
	}
	for _, key := range keys {
		if strings.Count(key, "{") != 1 || strings.Count(key, "}:") != 1 || !strings.HasPrefix(key, "ff:{sale:"+w.sale+":") {
			t.Errorf("key %s", key)
		}
	}
}

func restock(sku string, delta int64) *api.StockRequest {
	return &api.StockRequest{SKU: sku, Delta: &delta}
}
