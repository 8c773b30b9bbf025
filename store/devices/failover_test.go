package devices_test

import (
	"context"
	"testing"
	"time"

	"fanfare/store/devices"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// A master dies after it answered and before its replica has what it answered for: the
// replica has the state of a second ago. Whatever the writers told the old one is told
// again within 10 s.
func TestP10_WhatAMasterLostIsToldAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Redis(t).URL(), storetest.MySQL(t))
	ctx := t.Context()
	other := devices.Query{User: "bob", Type: "like"}
	mustPut(t, w.store, "alice", token(1))
	mustPut(t, w.store, "alice", token(2))
	mustTarget(t, w.store, like)
	mustTarget(t, w.store, other)
	old := mustCopy(t, w)

	mustPut(t, w.store, "bob", token(1))
	storetest.Must(t, w.store.DeleteDevice(ctx, "alice", token(2)))
	storetest.Must(t, w.store.PutOptOut(ctx, "bob", "like"))
	old(ctx)
	lost := time.Now()
	if got := mustTarget(t, w.store, like); len(got.Devices) != 2 {
		t.Fatalf("nothing was lost: %+v", got)
	}
	mustRelay(t, w, record.RelayOptions{})
	// Promised are 10 s; a busy machine takes its time.
	storetest.Eventually(t, 20*time.Second, "everything to be told again", func() bool {
		return len(mustTarget(t, w.store, like).Devices) == 0 && mustTarget(t, w.store, other).OptedOut &&
			mustGuard(t, w, token(1)).Reaches("bob") && mustGuard(t, w, token(2)).State == devices.StateGone
	})
	t.Logf("right again after %v", time.Since(lost).Round(time.Millisecond))
	storetest.Eventually(t, 30*time.Second, "the outbox to be swept", func() bool { return mustOutbox(t, w) == 0 })
}

// mustCopy copies all of Redis, and gives what puts it back as it was then.
func mustCopy(t testing.TB, w *world) func(context.Context) {
	t.Helper()
	type entry struct {
		name, dump string
		ttl        time.Duration
	}
	var all []entry
	c := w.db.Client()
	names, err := c.Keys(t.Context(), "ff:*").Result()
	storetest.Must(t, err)
	for _, name := range names {
		dump, err := c.Dump(t.Context(), name).Result()
		storetest.Must(t, err)
		all = append(all, entry{name, dump, max(0, c.PTTL(t.Context(), name).Val())})
	}
	return func(ctx context.Context) {
		storetest.Must(t, c.FlushDB(ctx).Err())
		for _, e := range all {
			storetest.Must(t, c.Restore(ctx, e.name, e.ttl, e.dump).Err())
		}
	}
}
