package stock

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// awaitTold waits until there are more facts about a key than before, and returns when the last of them was left.
func (w *liveWorld) awaitTold(key string, before int) time.Time {
	w.t.Helper()
	var facts []toldFact
	storetest.Eventually(w.t, patience, "it is told of "+key, func() bool {
		facts = slices.DeleteFunc(w.facts(), func(f toldFact) bool { return f.key != key })
		return len(facts) > before
	})
	return facts[len(facts)-1].left
}

// H1, S6: that a hold is over is told within a second, though nobody calls, by a process that knows nothing of the sale but the registry.
func TestH1_HoldsThatExpireAreToldInTime(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		sweeper, _ := plain.telling(api.FactHoldExpired)
		sweeper.sweepOn()
		for _, partitions := range []int64{1, 3} {
			w := newLiveWorld(t, plain.db)
			w.mustOpen(offer{stock: map[string]int64{"s": 100}, hold: 700, partitions: partitions})
			storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1)) // otherwise the sale never rests
			storetest.InTime(t, w.second(), fmt.Sprintf("the end of a hold is told, with %d partitions", partitions), func(n int) time.Duration {
				r := w.mustReserve(fmt.Sprint("u", n), units("s", 1))
				return w.awaitTold(r.ID, 0).Sub(r.ExpiresAt.Time)
			})
		}
	})
}

// H1: a sku of a sale with several partitions that stays low for two seconds is told: while the sale sells, before it begins and
// after its end, when nobody can reserve and it is seldom swept.
func TestH1_ALowSKUIsToldInTime(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		const partitions, day = 4, 24 * time.Hour
		sweeper, _ := plain.telling(api.FactStockBelow)
		sweeper.sweepOn()
		for name, o := range map[string]offer{"Selling": {}, "BeforeItBegins": {starts: day, ends: 2 * day}, "AfterItsEnd": {starts: -2 * day, ends: -day}} {
			w := newLiveWorld(t, plain.db)
			o.stock, o.hold, o.partitions = map[string]int64{"s": 12}, 600_000, partitions
			r := w.request(o)
			r.Items[0].LowAt = new(int64(5))
			w.mustPutNew(r)
			storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1)) // otherwise the sale never rests
			var held api.Reservation
			makeLow := func(low bool) {
				switch {
				case name != "Selling":
					r.Items[0].Stock = new(map[bool]int64{true: 4, false: 12}[low])
					c, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: api.AnyVersion}})
					storetest.Must(t, err)
					storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, c.Version))
				case low:
					held = w.mustReserve("u", units("s", 8))
				default:
					_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: held.ID})
					storetest.Must(t, err)
				}
			}
			storetest.InTime(t, time.Second+w.second(), name+": a sku that is low is told", func(n int) time.Duration {
				began := w.now()
				makeLow(true)
				told := w.awaitTold(w.sale, n)
				makeLow(false)
				w.awaitNotLow(partitions)
				return told.Sub(began)
			})
		}
	})
}

// H1: a sku of a sale with several partitions that is low when the type is turned on is told by the next sweep, also in a sale that
// rests.
func TestH1_ASKUIsLowWhenTheTypeIsTurnedOn(t *testing.T) {
	t.Parallel()
	eachOwnLive(t, func(t *testing.T, plain *liveWorld) {
		var on atomic.Bool
		var sale atomic.Value // the one whose sweeps are counted
		var sweeps atomic.Int64
		sale.Store("")
		db := storetest.FaultyBy(t, plain.db, func(cmd redis.Cmder) string {
			if slices.Contains(cmd.Args(), any(newPartition(sale.Load().(string), 0).due)) {
				return "sweep"
			}
			return ""
		}, func(_ string, answered bool) error {
			if answered {
				sweeps.Add(1)
			}
			return nil
		})
		sweeper := &liveWorld{Live: New(db, Options{Facts: Facts{Tells: func(string) bool { return on.Load() }}}), t: t, db: db}
		sweeper.sweepOn()
		storetest.InTime(t, time.Second+plain.second(), "a sku that is low is told", func(int) time.Duration {
			on.Store(false)
			w := newLiveWorld(t, plain.db)
			r := w.request(offer{stock: map[string]int64{"s": 5}, hold: 600_000, partitions: 3})
			r.Items[0].LowAt = new(int64(5))
			w.mustPutNew(r)
			storetest.Must(t, w.SettingsRecorded(t.Context(), w.sale, 1))
			sale.Store(w.sale)
			before := sweeps.Load()
			storetest.Eventually(t, patience, "the sale is swept", func() bool { return sweeps.Load() > before })
			w.wantBelow()
			began := w.now()
			on.Store(true)
			return w.awaitTold(w.sale, 0).Sub(began)
		})
	})
}

// H1: how long a rest may be, by what is told within a time.
func TestARestIsNotTooLong(t *testing.T) {
	t.Parallel()
	every := New(&redisdb.DB{}, Options{}).o.SweepEvery
	if toldRest+every > time.Second || openRest+every > 2*time.Second || farRest > time.Minute {
		t.Errorf("a sale rests for up to %v, %v and %v", toldRest, openRest, farRest)
	}
}
