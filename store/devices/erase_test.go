package devices_test

import (
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/storetest"
)

// E4: what an erased user had is gone from the record, from the cache and from the guards. A user
// who registers again meanwhile keeps the new device and its guard.
func TestE4_DevicesAndSettingsOfAnErasedUser(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, s := t.Context(), w.store
		mustPut(t, s, "alice", token(1))
		mustPut(t, s, "alice", token(2))
		mustPut(t, s, "bob", token(3))
		mustActivity(t, s, "alice", token(4))
		storetest.Must(t, s.PutOptOut(ctx, "alice", "like"))
		if got := mustTarget(t, s, devices.Query{User: "alice", Type: "like"}); !got.OptedOut || len(got.Devices) != 2 {
			t.Fatalf("%+v", got)
		}
		id, err := w.rec.StartErasure(ctx, "alice", time.Now().UnixMilli())
		storetest.Must(t, err)
		o, err := w.rec.OpenOperation(ctx, id)
		storetest.Must(t, err)
		storetest.Eventually(t, time.Minute, "the second of the beginning is over", func() bool { return time.Now().UnixMilli() > o.CreatedAt+1 })
		mustPut(t, s, "alice", token(2))
		for n, want := range []bool{true, false} {
			if found, err := s.Erase(ctx, o); err != nil || found != want {
				t.Fatalf("round %d: found %t, %v", n, found, err)
			}
		}
		got := mustTarget(t, s, devices.Query{User: "alice", Type: "like"})
		if got.OptedOut || len(got.Devices) != 1 || got.Devices[0].Token != token(2) {
			t.Errorf("after it %+v", got)
		}
		if len(got.Activities) != 0 {
			t.Errorf("activities are left: %+v", got.Activities)
		}
		if g := mustGuard(t, w, token(4)); g.State != devices.StateGone || g.User != "" {
			t.Errorf("guard of the activity %+v", g)
		}
		if g := mustGuard(t, w, token(1)); g.State != devices.StateGone || g.User != "" {
			t.Errorf("guard %+v", g)
		}
		if g := mustGuard(t, w, token(2)); !g.Reaches("alice") {
			t.Errorf("guard of the new device %+v", g)
		}
		storetest.Must(t, s.Forget(ctx, "alice"))
		if got := mustTarget(t, s, devices.Query{User: "alice"}); len(got.Devices) != 1 {
			t.Errorf("after Forget %+v", got)
		}
		storetest.Must(t, s.DeleteDevice(ctx, "alice", token(2)))
		mustTarget(t, s, devices.Query{User: "alice"})
		for range 2 {
			storetest.Must(t, s.Forget(ctx, "alice"))
		}
		if keys := w.db.Client().Keys(ctx, "ff:{u:alice}:*").Val(); len(keys) > 0 {
			t.Errorf("keys %v", keys)
		}
		mustPut(t, s, "alice", token(1))
		if got := mustTarget(t, s, devices.Query{User: "alice"}); len(got.Devices) != 1 {
			t.Errorf("who comes back has %+v", got)
		}
		if got := mustTarget(t, s, devices.Query{User: "bob"}); len(got.Devices) != 1 || got.Devices[0].State != api.DeviceActive {
			t.Errorf("bob has %+v", got)
		}
	})
}

// E7: an operation is not done while the guard of a token that the user has lost before still names the user.
func TestE7_GuardsOfLostTokensAreWaitedFor(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*testing.T, *world) *devices.Store{
		"WhatMadeRoom": mustMakeRoom,
		"Removed": func(t *testing.T, w *world) *devices.Store {
			t.Helper()
			mustPut(t, w.store, "alice", token(0))
			mustPut(t, w.store, "alice", token(1))
			away := w.another(devices.Options{})
			away.RefuseGuard(token(0))
			storetest.WantCode(t, away.DeleteDevice(t.Context(), "alice", token(0)), api.CodeUnknownOutcome)
			return away
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *world) {
				ctx, away := t.Context(), lose(t, w)
				id, err := w.rec.StartErasure(ctx, "alice", time.Now().UnixMilli())
				storetest.Must(t, err)
				o, err := w.rec.OpenOperation(ctx, id)
				storetest.Must(t, err)
				if found, err := w.store.Erase(ctx, o); !found || err != nil {
					t.Fatal(found, err)
				}
				for _, relay := range []struct {
					by    *devices.Store
					waits bool
				}{{away, true}, {w.store, false}} {
					mustRelayOnce(t, w, relay.by)
					if n, err := w.rec.OpenErasure(ctx, o, 0); err != nil || (n > 0) != relay.waits {
						t.Errorf("%d rows are waited for, %v; want any: %t", n, err, relay.waits)
					}
					if g := mustGuard(t, w, token(0)); g.Reaches("alice") != relay.waits || (g.User == "alice") != relay.waits {
						t.Errorf("guard %+v; want alice's: %t", g, relay.waits)
					}
				}
			})
		})
	}
}
