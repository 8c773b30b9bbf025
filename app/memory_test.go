package app

import (
	"runtime"
	"testing"
	"time"
)

// TestGCPercent: the live heap may grow to roomyHeap, or to twice its size.
func TestGCPercent(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 4 * mib: 400, 10 * mib: 260, 16 * mib: 125, 20 * mib: 100, 35 * mib: 100, roomyHeap: 100, 4 << 30: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("with %d MiB that live GOGC is %d, want %d", live/mib, got, want)
		}
		if heap := live + live*uint64(gcPercent(live))/100; heap > max(roomyHeap, 2*live) {
			t.Errorf("%d MiB that live may grow to %d", live/mib, heap/mib)
		}
	}
}

// TestAfterEachCollection: the function that adapts GOGC runs at once and after each collection,
// not only after the first.
func TestAfterEachCollection(t *testing.T) {
	t.Parallel()
	runs := make(chan bool, 100)
	afterEachCollection(func() {
		select {
		case runs <- true:
		default: // later tests cause collections as well
		}
	})
	for n := range 4 {
		select {
		case <-runs:
		case <-time.After(20 * time.Second):
			t.Fatalf("after %d runs there is none", n)
		}
		runtime.GC()
	}
}
