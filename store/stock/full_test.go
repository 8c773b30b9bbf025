package stock

import (
	"context"
	"strings"
	"testing"

	"fanfare/store/storetest"
)

// S6: Redis has no memory left. What gives units back is not refused: holds that are due
// come back, and a release is done.
func TestS6_HoldsEndThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *liveWorld, due, held string) error{
		"Swept":    func(w *liveWorld, _, _ string) error { return w.Sweep(context.Background()) },
		"Released": func(w *liveWorld, _, held string) error { return w.endAll(held, "r") },
		"Extended": func(w *liveWorld, _, held string) error { return w.endAll(held, "h1200000", held, "r") },
		"TooLate":  func(w *liveWorld, due, _ string) error { return w.endAll(due, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLiveWorld(t, storetest.Open(t, storetest.Redis(t).URL()))
			w.mustOpen(offer{stock: map[string]int64{"s": 9}, maxHold: 3_600_000})
			due, held := w.mustReserve("u", units("s", 2)).ID, w.mustReserve("v", units("s", 3)).ID
			paid := w.mustReserve("w", units("s", 4)).ID
			w.overdue(due)
			storetest.Must(t, w.db.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
			if err := end(w, due, held); err != nil {
				t.Errorf("while Redis is full: %v", err)
			}
			if want := map[string]string{"Swept": "2 7 0 9", "Released": "3 6 0 9", "Extended": "3 6 0 9", "TooLate": "2 7 0 9"}[name]; w.numbers("s") != want {
				t.Errorf("%s, want %s", w.numbers("s"), want)
			}
			// Who shares a script with one of them is not refused for it either.
			if err := w.endAll(held, "r", paid, "s"); err != nil {
				t.Errorf("a confirmation beside a release: %v", err)
			}
			w.mustAddUp()
		})
	}
}

// endAll runs one script for holds and what is to become of each: s sold, r released.
func (w *liveWorld) endAll(ends ...string) error {
	p, ctx := newPartition(w.sale, 0), context.Background()
	var calls []*call
	for i := 0; i < len(ends); i += 2 {
		calls = append(calls, &call{args: [callerArgs]any{ends[i], ends[i+1], "", newRequest()}})
	}
	if len(calls) > 1 { // with an idempotency key, too
		calls[0].once, calls[0].args[2] = p.once(newRequest()), strings.Repeat("d", 32)
	}
	cmd := crowdScript{w.scripts.end, []any{w.o.RunID, 1000, 1, ""}, false, 0}.cmd(ctx, p, calls)
	handOut(w.scripts.end, cmd, w.write(ctx, cmd), calls)
	for _, c := range calls {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}
