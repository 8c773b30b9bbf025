package stock

import (
	"context"
	"testing"

	"fanfare/store/storetest"
)

// The figures of operators are there although a sale cannot be read.
func TestFiguresWithoutADamagedSale(t *testing.T) {
	t.Parallel()
	w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
	w.mustOpen(offer{stock: map[string]int64{"s": 9}, partitions: 3})
	for _, user := range []string{"u", "v"} {
		_, err := w.End(t.Context(), EndHold{Sale: w.sale, ID: w.mustReserve(user, units("s", 1)).ID, Sell: true})
		storetest.Must(t, err)
	}
	storetest.Must(t, w.db.Client().HSet(t.Context(), newPartition(w.sale, 1).stock, "s", "0 1 2 3").Err())
	for range 10 { // so that some come first, in whatever order
		damaged := newLiveWorld(t, w.db)
		damaged.mustOpen(offer{stock: map[string]int64{"s": 5}, partitions: 2})
		storetest.Must(t, w.db.Client().Set(t.Context(), newPartition(damaged.sale, 1).stock, "x", 0).Err())
	}
	f, err := w.another(Options{}).Figures(t.Context())
	storetest.Must(t, err)
	if f.Waiting != 2 || f.Oldest <= 0 || f.Oversold[w.sale]["s"] != 3 || len(f.Oversold) != 1 || f.Unread != 10 || f.Open != 11 {
		t.Errorf("%+v", f)
	}
}

// S6, S13: one master of a Cluster is away: the sales of the others are sold, their due
// holds come back and their orders are found.
func TestS6_OneMasterAway(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	for _, node := range cluster.Nodes { // the others go on
		storetest.Must(t, node.Client().ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	db := storetest.Open(t, cluster.URL())
	gone := cluster.MasterOf(t, saleRegistry)
	var dead, alive []*liveWorld
	for len(dead) < 2 || len(alive) < 4 {
		w := newLiveWorld(t, db)
		w.mustOpen(offer{stock: map[string]int64{"s": 5}, hold: 3000})
		if cluster.MasterOf(t, newPartition(w.sale, 0).stock) == gone {
			dead = append(dead, w)
		} else {
			alive = append(alive, w)
		}
	}
	owed := make(chan Swept, 100)
	sweeper := newLiveWorld(t, db).another(Options{OnSwept: func(_ context.Context, s Swept) {
		select {
		case owed <- s:
		default:
		}
	}})
	sweeper.sweepOn()
	storetest.Eventually(t, patience, "it knows all sales", func() bool {
		sales, err := sweeper.LiveSales(t.Context())
		known := 0
		sweeper.known.Range(func(any, any) bool { known++; return true })
		return err == nil && known == len(sales)
	})
	gone.Kill()
	for _, w := range alive {
		w.mustReserve("u", units("s", 5))
	}
	for _, w := range alive {
		storetest.Eventually(t, patience, "the units are back", func() bool { return w.numbers("s") == "5 0 0 5" })
	}
	sold := alive[0]
	_, err := sold.End(t.Context(), EndHold{Sale: sold.sale, ID: sold.mustReserve("v", units("s", 5)).ID, Sell: true})
	storetest.Must(t, err)
	storetest.Eventually(t, patience, "the order that waits is found", func() bool {
		select {
		case s := <-owed:
			return s.Sale == sold.sale && s.Orders == 1
		default:
			return false
		}
	})
}
