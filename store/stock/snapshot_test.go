package stock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// S12: many buyers of a sale in many partitions that is sold out, again and again: the proofs
// that it is do not follow each other at once, and each buyer has his refusal.
func TestS12_ProofsHaveARest(t *testing.T) {
	t.Parallel()
	eachLive(t, func(t *testing.T, w *liveWorld) {
		w.mustOpen(offer{stock: map[string]int64{"s": 4}, partitions: 4})
		w.mustReserve("all", units("s", 4))
		var sweeps atomic.Int64
		x := w.faulty(Options{}, func(script string, answered bool) error {
			if script == "sale_sweep" && answered {
				sweeps.Add(1)
			}
			return nil
		})
		began := time.Now()
		var buyers sync.WaitGroup
		for n := range 8 {
			buyers.Go(func() {
				for i := range 12 {
					_, err := x.reserve(fmt.Sprint("u", n, ".", i), units("s", 1))
					if api.CodeOf(err) != api.CodeSoldOut {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		buyers.Wait()
		if took, n := time.Since(began), sweeps.Load()/4; n < 1 || n > int64(took/snapshotRest)+2 {
			t.Errorf("%d proofs in %v", n, took)
		}
		_, err := w.restock("s", 1) // a unit that is there is not refused
		storetest.Must(t, err)
		x.mustReserve("late", units("s", 1))
	})
}
