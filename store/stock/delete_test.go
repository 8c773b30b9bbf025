package stock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// left lists the keys of the sale that have no lifetime.
func (w *liveWorld) left() (keys []string) {
	w.t.Helper()
	ctx := context.Background()
	var mu sync.Mutex // the masters are asked at the same time
	look := func(c redisdb.Client) error {
		for _, key := range c.Keys(ctx, "ff:{sale:"+w.sale+":*").Val() {
			if c.TTL(ctx, key).Val() < 0 {
				mu.Lock()
				keys = append(keys, key)
				mu.Unlock()
			}
		}
		return nil
	}
	if cluster, ok := w.db.Client().(*redis.ClusterClient); ok {
		storetest.Must(w.t, cluster.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error { return look(c) }))
		return keys
	}
	storetest.Must(w.t, look(w.db.Client()))
	return keys
}

// S20: a closed sale answers no call, and goes on as it was when it is opened again. What is removed
// leaves no key. A deletion that another load overtook removes nothing.
func TestS20_CloseAndRemove(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		ctx := t.Context()
		w.mustOpen(offer{stock: map[string]int64{"s": 9, "a": 4}, starts: time.Hour, ends: 2 * time.Hour, partitions: 3})
		before := w.numbers("s") + " and " + w.numbers("a")
		d, err := w.BeginDelete(ctx, w.sale, Match{Version: 1})
		storetest.Must(t, err)
		if d.Used || d.Loading == "" || len(d.Name) != nameLength {
			t.Errorf("%+v", d)
		}
		_, err = w.Sale(ctx, w.sale)
		storetest.WantCode(t, err, api.CodeUnavailable)
		_, err = w.reserve("u", units("s", 1))
		storetest.WantCode(t, err, api.CodeUnavailable)
		_, err = w.BeginDelete(ctx, w.sale, Match{})
		storetest.WantCode(t, err, api.CodeUnavailable)
		storetest.Must(t, w.CancelDelete(ctx, Deletion{Sale: w.sale, Name: "another"}))
		if _, err = w.Sale(ctx, w.sale); err == nil {
			t.Error("another deletion opened it")
		}
		storetest.Must(t, w.CancelDelete(ctx, d))
		if after := w.numbers("s") + " and " + w.numbers("a"); after != before {
			t.Errorf("%s became %s", before, after)
		}
		storetest.Must(t, w.FinishDelete(ctx, w.sale, "another load"))
		w.want("s", "9 0 0 9")
		d, err = w.BeginDelete(ctx, w.sale, Match{})
		storetest.Must(t, err)
		for range 2 {
			storetest.Must(t, w.FinishDelete(ctx, w.sale, d.Loading))
		}
		if keys := w.left(); len(keys) > 0 {
			t.Errorf("left: %v", keys)
		}
		if live, err := w.LiveSales(ctx); err != nil || live[w.sale] != 0 {
			t.Errorf("%v, %v", live, err)
		}
		_, err = w.BeginDelete(ctx, w.sale, Match{})
		storetest.WantCode(t, err, api.CodeSaleNotFound)
	})
}

// S20: what a partition owes refuses the deletion, whichever it is, and no partition stays closed. Each
// script that runs twice answers the same.
func TestS20_EachPartitionIsAsked(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		twice := w.faulty(Options{}, func(name string, answered bool) error {
			if answered && strings.HasPrefix(name, "sale_") {
				return storetest.ErrTwice
			}
			return nil
		})
		for user := range 6 {
			w := newLiveWorld(t, w.db)
			r := w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 4})
			held := w.mustReserve(fmt.Sprint("u", user), units("s", 1))
			_, err := w.BeginDelete(t.Context(), w.sale, Match{})
			storetest.WantCode(t, err, api.CodeSaleOpen)
			r.StartsAt, r.EndsAt = new(api.At(r.StartsAt.Add(-2*time.Hour))), new(api.At(r.EndsAt.Add(-2*time.Hour)))
			_, err = w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
			storetest.Must(t, err)
			_, err = twice.BeginDelete(t.Context(), w.sale, Match{})
			storetest.WantCode(t, err, api.CodeOwed)
			e, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: held.ID, Sell: user%2 == 0})
			storetest.Must(t, err)
			if e.Order != nil {
				_, err = twice.BeginDelete(t.Context(), w.sale, Match{})
				storetest.WantCode(t, err, api.CodeOwed)
				_, err = w.OrdersRecorded(t.Context(), w.sale, *e.Order)
				storetest.Must(t, err)
			}
			d, err := twice.BeginDelete(t.Context(), w.sale, Match{Version: 2})
			storetest.Must(t, err)
			if !d.Used {
				t.Error("nobody knows that it was used")
			}
			storetest.Must(t, twice.FinishDelete(t.Context(), w.sale, d.Loading))
			if keys := w.left(); len(keys) > 0 {
				t.Errorf("left: %v", keys)
			}
		}
	})
}

// S20: a hold that is over does not refuse a deletion, however many there are.
func TestS20_HoldsThatAreOver(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		const holds = 2*sweptAtOnce + 50
		r := w.mustOpen(offer{stock: map[string]int64{"s": holds}, hold: 1})
		for n := range holds {
			w.mustReserve(fmt.Sprint("u", n), units("s", 1))
		}
		ends := api.At(w.now())
		r.EndsAt = &ends
		_, err := w.Put(t.Context(), PutSale{Sale: w.sale, Request: r, Match: Match{Version: 1}})
		storetest.Must(t, err)
		storetest.Eventually(t, patience, "all holds are over", func() bool {
			_, err := w.BeginDelete(t.Context(), w.sale, Match{})
			if err != nil {
				storetest.WantCode(t, err, api.CodeOwed)
			}
			return err == nil
		})
	})
}

// Whoever dies at any step of the end of a sale, another process that knows only the registry finds the
// sale as long as keys of it are left, and removes them.
func TestS20_WhoeverDiesTheKeysAreFound(t *testing.T) {
	t.Parallel()
	// Each prepares the sale, and gives the way in which it ends.
	ways := map[string]func(w *liveWorld) func(w *liveWorld) error{
		"Deleted": func(w *liveWorld) func(w *liveWorld) error {
			w.mustOpen(offer{stock: map[string]int64{"s": 9}, starts: time.Hour, ends: 2 * time.Hour, partitions: 3})
			d, err := w.BeginDelete(t.Context(), w.sale, Match{})
			storetest.Must(w.t, err)
			return func(w *liveWorld) error { return w.FinishDelete(t.Context(), w.sale, d.Loading) }
		},
		"LongOver": func(w *liveWorld) func(w *liveWorld) error {
			r := w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 3})
			parts, err := w.partitionsOf(t.Context(), w.sale)
			storetest.Must(w.t, err)
			storetest.Must(w.t, w.ended(r, parts, keptAfterEnd+time.Minute))
			return func(w *liveWorld) error { return w.retire(t.Context(), parts) }
		},
	}
	eachLive(t, func(t *testing.T, w *liveWorld) {
		for name, way := range ways {
			deaths := 0
			for n, dead := 0, true; dead; n++ {
				w := newLiveWorld(t, w.db)
				end := way(w)
				m := storetest.DieAt(n)
				err := end(w.mortal(m))
				if dead = m.Dead(); !dead {
					storetest.Must(t, err)
				} else {
					deaths++
				}
				live, err := w.another(Options{}).LiveSales(t.Context())
				storetest.Must(t, err)
				keys := w.left()
				if len(keys) > 0 && (live[w.sale] == 0 || !slices.Contains(keys, newPartition(w.sale, 0).settings)) {
					t.Fatalf("%s: dead at contact %d: nobody knows of %v", name, n, keys)
				}
				storetest.Must(t, end(w.another(Options{})))
				if keys := w.left(); len(keys) > 0 {
					t.Fatalf("%s: dead at contact %d: left %v", name, n, keys)
				}
			}
			if deaths < 4 {
				t.Errorf("%s: only %d deaths: the end has more steps", name, deaths)
			}
		}
	})
}

// A sale that is entered in the registry again while its keys are removed stays there.
func TestS20_WhatIsMadeMeanwhileStaysRegistered(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, starts: time.Hour, ends: 2 * time.Hour})
		d, err := w.BeginDelete(t.Context(), w.sale, Match{})
		storetest.Must(t, err)
		meanwhile := w.faulty(Options{}, func(name string, answered bool) error {
			if name == "sale_remove" && !answered {
				return w.register(t.Context(), w.sale, 1)
			}
			return nil
		})
		storetest.Must(t, meanwhile.FinishDelete(t.Context(), w.sale, d.Loading))
		if live, err := w.another(Options{}).LiveSales(t.Context()); err != nil || live[w.sale] != 1 {
			t.Errorf("%v, %v", live[w.sale], err)
		}
	})
}

// A removal that comes too late, when another sale has the id, takes that one out of nothing.
func TestS20_ALateRemovalLeavesTheNextSaleRegistered(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 9}, starts: time.Hour, ends: 2 * time.Hour})
		d, err := w.BeginDelete(t.Context(), w.sale, Match{})
		storetest.Must(t, err)
		storetest.Must(t, w.FinishDelete(t.Context(), w.sale, d.Loading))
		w.mustOpen(offer{stock: map[string]int64{"s": 4}})
		storetest.Must(t, w.another(Options{}).FinishDelete(t.Context(), w.sale, d.Loading))
		if live, err := w.another(Options{}).LiveSales(t.Context()); err != nil || live[w.sale] != 1 {
			t.Errorf("%v, %v", live[w.sale], err)
		}
		w.want("s", "4 0 0 4")
	})
}
