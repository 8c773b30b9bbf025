package devices_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

func entry(user string, n int) api.DeviceEntry {
	return api.DeviceEntry{User: user, Token: token(n), Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox}
}

func mustPutAll(t testing.TB, s *devices.Store, list ...api.DeviceEntry) {
	t.Helper()
	_, err := s.PutDevices(t.Context(), list, api.Idempotency{})
	storetest.Must(t, err)
}

// mustBatches counts the rows of batches that wait.
func mustBatches(t testing.TB, w *world) int {
	t.Helper()
	open, _, err := w.rec.OutboxLag(t.Context(), record.KindDevices)
	storetest.Must(t, err)
	return int(open)
}

// TestP13_GuardsFollowABatch: P4 for each device of a batch, also for the user who lost it.
func TestP13_GuardsFollowABatch(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		d := mustPut(t, w.store, "alice", token(1))
		storetest.Must(t, w.store.Drop(t.Context(), token(1), "Unregistered", api.At(time.Now()), d.RegisteredAt))
		mustPut(t, w.store, "alice", token(2))
		mustPut(t, w.store, "alice", token(3))
		storetest.Must(t, w.store.DeleteDevice(t.Context(), "alice", token(3)))
		for _, user := range []string{"alice", "bob"} {
			mustTarget(t, w.store, devices.Query{User: user})
		}
		mustPutAll(t, w.store, entry("alice", 1), entry("bob", 2), entry("bob", 3), entry("carl", 4))
		for n, user := range map[int]string{1: "alice", 2: "bob", 3: "bob", 4: "carl"} {
			if g := mustGuard(t, w, token(n)); !g.Reaches(user) {
				t.Errorf("device %d: guard %+v", n, g)
			}
		}
		for user, want := range map[string]int{"alice": 1, "bob": 2, "carl": 1} {
			if got := mustTarget(t, w.store, devices.Query{User: user}); len(got.Devices) != want {
				t.Errorf("%s is sent to %d devices, want %d", user, len(got.Devices), want)
			}
		}
	})
}

// TestP13_AllUsersAreMarkedFirst: between commit and relay readers see the new settings of every
// user whom the batch touches, and cache none.
func TestP13_AllUsersAreMarkedFirst(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		reader := w.another(devices.Options{})
		mustPut(t, w.store, "loser", token(0))
		list := []api.DeviceEntry{entry("u0", 0)}
		want := map[string]int{"loser": 0, "u0": 1}
		for i := 1; i < 20; i++ {
			user := fmt.Sprint("u", i)
			list, want[user] = append(list, entry(user, i)), 1
		}
		for user := range want {
			mustTarget(t, reader, devices.Query{User: user}) // caches it
		}
		look := func(cached bool) {
			for user, n := range want {
				if got := mustTarget(t, reader, devices.Query{User: user}); len(got.Devices) != n {
					t.Errorf("%s has %d devices, want %d", user, len(got.Devices), n)
				}
				if _, hit := reader.Cached(t.Context(), user, ""); hit != cached {
					t.Errorf("%s is cached: %t, want %t", user, hit, cached)
				}
			}
		}
		committed := false
		w.store.BeforeRelay(func() { committed = true; look(false) })
		mustPutAll(t, w.store, list...)
		if !committed {
			t.Fatal("nothing was read")
		}
		look(true)
	})
}

// TestP13_ARefusedBatchLeavesNoMark, nor does one that is repeated.
func TestP13_ARefusedBatchLeavesNoMark(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		once := api.Idempotency{Scope: "s", Key: "k"}
		look := func(what string) {
			mustTarget(t, w.store, devices.Query{User: "bob"})
			if _, hit := w.store.Cached(t.Context(), "bob", ""); !hit {
				t.Errorf("%s: bob is not cached", what)
			}
		}
		for n := range 2 {
			replayed, err := w.store.PutDevices(t.Context(), []api.DeviceEntry{entry("bob", 1)}, once)
			if err != nil || replayed != (n == 1) {
				t.Fatalf("call %d: %t, %v", n, replayed, err)
			}
			look(fmt.Sprint("call ", n))
		}
		var many []api.DeviceEntry
		for i := range api.MaxDevices {
			many = append(many, entry("bob", 10+i))
		}
		_, err := w.store.PutDevices(t.Context(), many, api.Idempotency{})
		storetest.WantCode(t, err, api.CodeValidation)
		look("refused")
	})
}

// TestP13_AWriterKilledBetweenCommitAndRelay: another process relays the batch.
func TestP13_AWriterKilledBetweenCommitAndRelay(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		mustPut(t, w.store, "alice", token(1))
		dying := w.another(devices.Options{})
		dying.DropRelay()
		mustPutAll(t, dying, entry("bob", 1), entry("carl", 2))
		if got := mustTarget(t, w.store, devices.Query{User: "alice"}); len(got.Devices) != 0 {
			t.Fatalf("a reader saw the old state: %+v", got)
		}
		storetest.Must(t, w.rec.NewRelay(record.RelayOptions{Age: time.Hour}, w.store.Outbox()).Sweep(t.Context()))
		if n := mustBatches(t, w); n != 1 || !mustGuard(t, w, token(1)).Reaches("alice") {
			t.Fatalf("a row younger than the relay's age was relayed: %d left", n)
		}
		mustRelay(t, w, quick)
		storetest.Eventually(t, 30*time.Second, "the outbox to be swept", func() bool { return mustBatches(t, w) == 0 })
		if g := mustGuard(t, w, token(1)); !g.Reaches("bob") || g.Reaches("alice") {
			t.Errorf("guard %+v", g)
		}
		if g := mustGuard(t, w, token(2)); !g.Reaches("carl") {
			t.Errorf("guard %+v", g)
		}
		for _, user := range []string{"alice", "bob", "carl"} {
			settings, _ := devices.Keys(user)
			want := mustVersion(t, w, user)
			if v := w.db.Client().HGet(t.Context(), settings, "v").Val(); v != want {
				t.Errorf("version %q of %s was stored, want %s", v, user, want)
			}
		}
	})
}

// TestP13_WhatAMasterLostIsToldAgain: P10 for a batch.
func TestP13_WhatAMasterLostIsToldAgain(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Redis(t).URL(), storetest.MySQL(t))
	mustPut(t, w.store, "alice", token(1))
	mustTarget(t, w.store, devices.Query{User: "alice"})
	old := mustCopy(t, w)
	mustPutAll(t, w.store, entry("bob", 1))
	old(t.Context())
	if got := mustTarget(t, w.store, devices.Query{User: "alice"}); len(got.Devices) != 1 {
		t.Fatalf("nothing was lost: %+v", got)
	}
	mustRelay(t, w, record.RelayOptions{})
	storetest.Eventually(t, 20*time.Second, "the batch to be told again", func() bool {
		return len(mustTarget(t, w.store, devices.Query{User: "alice"}).Devices) == 0 && mustGuard(t, w, token(1)).Reaches("bob")
	})
	storetest.Eventually(t, 30*time.Second, "the outbox to be swept", func() bool { return mustBatches(t, w) == 0 })
}

// TestP13_BatchesAgainstEverything: batches with the same tokens in opposite order, single calls and
// removals at the same time. All calls succeed, and in the end caches and guards agree with the
// record.
func TestP13_BatchesAgainstEverything(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		const tokens, users = 40, 3
		other := w.another(devices.Options{})
		user := func(i int) string { return fmt.Sprint("user", i%users) }
		storetest.AtOnce(t, 12, func(ctx context.Context, i int) error {
			s := []*devices.Store{w.store, other}[i%2]
			for round := range 3 {
				list := make([]api.DeviceEntry, tokens)
				for k := range list {
					list[k] = entry(user(i+k*(i%3)+round), k)
				}
				if i%4 < 2 {
					slices.Reverse(list)
				}
				err := insist(ctx, func() error {
					switch d := list[i]; {
					case i < 6:
						_, err := s.PutDevices(ctx, list, api.Idempotency{})
						return err
					case i < 9:
						_, _, err := s.PutDevice(ctx, d.User, d.Token, &api.DeviceRequest{Platform: d.Platform, Topic: d.Topic, Environment: d.Environment})
						return err
					default:
						return s.DeleteDevice(ctx, d.User, d.Token)
					}
				})
				if err != nil {
					return fmt.Errorf("caller %d, round %d: %w", i, round, err)
				}
			}
			return nil
		})
		// A relay may give up while others keep changing a token.
		mustRelay(t, w, quick)
		storetest.Eventually(t, 20*time.Second, "the outbox to be swept", func() bool { return mustOutbox(t, w)+mustBatches(t, w) == 0 })
		truth, err := w.rec.DevicesByToken(t.Context(), func() (all []string) {
			for n := range tokens {
				all = append(all, token(n))
			}
			return all
		}()...)
		storetest.Must(t, err)
		has := map[string]int{}
		for n := range tokens {
			g, d := mustGuard(t, w, token(n)), truth[token(n)]
			has[d.User]++
			if d.User != "" && (!g.Reaches(d.User) || g.RegisteredAt != d.RegisteredAt) || d.User == "" && g.State != devices.StateGone {
				t.Errorf("token %d: on record %+v, guard %+v", n, d, g)
			}
		}
		for i := range users {
			if n := len(mustTarget(t, w.store, devices.Query{User: user(i)}).Devices); n != has[user(i)] {
				t.Errorf("%s is sent to %d devices, on record are %d", user(i), n, has[user(i)])
			}
		}
	})
}

// TestP13_ABadRowHoldsUpNoOther: a batch whose row cannot be read stays, and the others are relayed.
func TestP13_ABadRowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		w.store.DropRelay()
		mustPutAll(t, w.store, entry("alice", 1))
		page, err := w.rec.OutboxPage(t.Context(), record.KindDevices, 0, record.OpenRow{}, 10)
		storetest.Must(t, err)
		rows := []record.OutboxRow{{ID: "bad", Kind: record.KindDevices, Payload: "?"}, page[0].OutboxRow}
		done, err := w.store.Outbox()[record.KindDevices](t.Context(), rows)
		if err == nil || !slices.Equal(done, []string{page[0].ID}) || !mustGuard(t, w, token(1)).Reaches("alice") {
			t.Errorf("done: %v, %v", done, err)
		}
	})
}
