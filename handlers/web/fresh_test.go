package web

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Callers share a reading even if it takes longer than its value stays fresh.
func TestFreshSharesASlowReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := &Fresh[int]{Every: time.Second, Read: func(context.Context) int {
			time.Sleep(3 * time.Second) //nolint:forbidigo // by synctest's clock
			reads++
			return reads
		}}
		begin, got := time.Now(), make(chan int)
		for range 3 {
			go func() { got <- f.Get(t.Context()) }()
		}
		for range 3 {
			if n := <-got; n != 1 || time.Since(begin) != 3*time.Second {
				t.Errorf("reading %d after %v", n, time.Since(begin))
			}
		}
		if n := f.Get(t.Context()); n != 2 {
			t.Errorf("later: reading %d", n)
		}
	})
}
