package batch_test

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"

	"fanfare/store/batch"
	"fanfare/store/storetest"
)

// A group keeps nothing of a run that has ended: neither its items nor its result. Many groups live as long as
// what they serve, a sale for example, and most of them have no other run for a long time.
func TestAnEndedRunIsForgotten(t *testing.T) {
	t.Parallel()
	g := batch.New(batch.Options{Timeout: time.Minute}, func(context.Context, []*[1 << 10]byte) (*[1 << 10]byte, error) {
		return new([1 << 10]byte), nil
	})
	item, result := func() (item, result weak.Pointer[[1 << 10]byte]) {
		in := new([1 << 10]byte)
		out, err := g.Do(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return weak.Make(in), weak.Make(out)
	}()
	storetest.Eventually(t, patience, "the item and the result are forgotten", func() bool {
		runtime.GC()
		return item.Value() == nil && result.Value() == nil
	})
	runtime.KeepAlive(g)
}
