package devices_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, devices.Scripts())
	settings, changing := devices.Keys("alice")
	for _, key := range []string{settings, changing} {
		if !strings.HasPrefix(key, "ff:{u:alice}:") {
			t.Errorf("%s is not in the user's slot", key)
		}
	}
}

func TestPutDevice(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		t.Run("TakesAnyCaseAndRefusesWhatIsNoToken", func(t *testing.T) {
			d := mustPut(t, w.store, "alice", strings.ToUpper(strings.Repeat("ab", 32)))
			if d.Token != strings.Repeat("ab", 32) {
				t.Fatalf("token %s", d.Token)
			}
			_, _, err := w.store.PutDevice(t.Context(), "alice", "xyz", &api.DeviceRequest{})
			storetest.WantCode(t, err, api.CodeValidation)
			storetest.WantCode(t, w.store.DeleteDevice(t.Context(), "alice", "xyz"), api.CodeValidation)
		})
		t.Run("AFiftyFirstDeviceIsRefusedAndLeavesNoMark", func(t *testing.T) {
			for i := range api.MaxDevices {
				mustPut(t, w.store, "bob", token(i))
			}
			_, _, err := w.store.PutDevice(t.Context(), "bob", token(99), &api.DeviceRequest{Platform: "apns", Topic: "x", Environment: api.EnvSandbox})
			storetest.WantCode(t, err, api.CodeValidation)
			mustTarget(t, w.store, devices.Query{User: "bob"})
			if got, hit := w.store.Cached(t.Context(), "bob", "x"); !hit || len(got.Devices) != api.MaxDevices {
				t.Fatalf("hit %v with %d devices after a refused write", hit, len(got.Devices))
			}
		})
	})
}

func TestDevicesAndSettings(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, s := t.Context(), w.store
		d := mustPut(t, s, "alice", token(1))
		storetest.Must(t, s.PutOptOut(ctx, "alice", "like"))
		storetest.Must(t, s.PutMute(ctx, "alice", "album:1", nil))
		storetest.Must(t, s.MarkSuspect(ctx, token(1), "BadDeviceToken", d.RegisteredAt))
		got, err := s.Settings(ctx, "alice")
		storetest.Must(t, err)
		if len(got.OptOuts) != 1 || len(got.Mutes) != 1 || len(got.Devices) != 1 || got.Devices[0].State != api.DeviceSuspect || got.Devices[0].Reason != "BadDeviceToken" {
			t.Fatalf("%+v", got)
		}
		storetest.Must(t, s.DeleteOptOut(ctx, "alice", "like"))
		storetest.Must(t, s.DeleteMute(ctx, "alice", "album:1"))
		storetest.Must(t, s.DeleteDevice(ctx, "alice", token(1)))
		list, err := s.Devices(ctx, "alice")
		if err != nil || list.Items == nil || len(list.Items) != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
		got, err = s.Settings(ctx, "alice")
		if err != nil || len(got.OptOuts)+len(got.Mutes)+len(got.Devices) != 0 || got.OptOuts == nil || got.Mutes == nil || got.Devices == nil {
			t.Fatalf("%+v, %v", got, err)
		}
		relay := w.rec.NewRelay(quick, s.Outbox())
		storetest.Eventually(t, 30*time.Second, "the outbox to be swept", func() bool { return relay.Sweep(ctx) == nil && mustOutbox(t, w) == 0 })
	})
}

func TestTargets(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		ctx, s, p := t.Context(), w.store, rand.Text() // the Cluster is shared
		alice, bob, carol := p+"alice", p+"bob", p+"carol"
		until := api.At(time.Now().Add(1500 * time.Millisecond))
		mustPut(t, s, alice, token(1))
		mustPut(t, s, alice, token(2))
		storetest.Must(t, s.PutOptOut(ctx, bob, "like"))
		storetest.Must(t, s.PutMute(ctx, alice, "album:1", &api.MuteRequest{Until: &until}))
		queries := []devices.Query{{User: alice, Type: "like", Object: "album:1"}, {User: bob, Type: "like", Object: ""}, {User: carol, Type: "like", Object: "x"}, {User: bob, Type: "share", Object: "x"}, {User: alice, Type: "share", Object: ""}}
		check := func(t *testing.T, muted bool) {
			found, err := s.Targets(ctx, queries)
			storetest.Must(t, err)
			for i, want := range []string{fmt.Sprint(alice, false, muted, 2), fmt.Sprint(bob, true, false, 0), fmt.Sprint(carol, false, false, 0), fmt.Sprint(bob, false, false, 0), fmt.Sprint(alice, false, false, 2)} {
				if f := found[i]; fmt.Sprint(f.User, f.OptedOut, f.Muted, len(f.Devices)) != want {
					t.Errorf("target %d: %+v, want %s", i, f, want)
				}
			}
		}
		t.Run("FromSQL", func(t *testing.T) { check(t, true) })
		t.Run("FromTheCache", func(t *testing.T) {
			check(t, true)
			for _, u := range []string{alice, bob, carol} {
				if _, hit := s.Cached(ctx, u, "like"); !hit {
					t.Errorf("%s is not cached", u)
				}
			}
		})
		t.Run("AMuteEndsInTheCacheToo", func(t *testing.T) {
			storetest.Eventually(t, 30*time.Second, "the mute ends", func() bool {
				return !mustTarget(t, s, queries[0]).Muted
			})
			if _, hit := s.Cached(ctx, alice, "like"); !hit {
				t.Error("the end of the mute was not seen in the cache")
			}
			check(t, false)
		})
	})
}

func TestP4_GuardFollowsTheDevice(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, s := t.Context(), w.store
		d := mustPut(t, s, "alice", token(1))
		want := devices.Guard{User: "alice", RegisteredAt: d.RegisteredAt, Topic: "com.example.app", Environment: api.EnvSandbox, State: api.DeviceActive}
		if g := mustGuard(t, w, token(1)); g != want || !g.Reaches("alice") {
			t.Fatalf("registered: %+v, want %+v", g, want)
		}
		d = mustPut(t, s, "bob", token(1))
		if g := mustGuard(t, w, token(1)); g.Reaches("alice") || !g.Reaches("bob") {
			t.Fatalf("moved: %+v", g)
		}
		storetest.Must(t, s.MarkSuspect(ctx, token(1), "BadDeviceToken", d.RegisteredAt))
		if g := mustGuard(t, w, token(1)); g.State != api.DeviceSuspect || !g.Reaches("bob") {
			t.Fatalf("suspect: %+v", g)
		}
		storetest.Must(t, s.Drop(ctx, token(1), "Unregistered", api.At(time.Now()), d.RegisteredAt))
		if g := mustGuard(t, w, token(1)); g.State != api.DeviceDropped || g.Reaches("bob") {
			t.Fatalf("dropped: %+v", g)
		}
		mustPut(t, s, "bob", token(1))
		if g := mustGuard(t, w, token(1)); !g.Reaches("bob") {
			t.Fatalf("revived: %+v", g)
		}
		storetest.Must(t, s.DeleteDevice(ctx, "bob", token(1)))
		if g := mustGuard(t, w, token(1)); g.State != devices.StateGone || g.Reaches("bob") || g.Reaches("") {
			t.Fatalf("removed: %+v", g)
		}
	})
}

// W3: a registration removes the token that it replaces, if it is the user's own: nothing more goes to it, not
// even what waits. A full user has room for the new one.
func TestW3_AReplacedTokenGetsNothing(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		for i := range api.MaxDevices {
			mustPut(t, w.store, "bob", token(i))
		}
		mustPut(t, w.store, "eve", token(100))
		r := &api.DeviceRequest{Platform: "apns", Topic: "t", Environment: api.EnvSandbox, Replaces: token(1)}
		before := mustOutbox(t, w)
		_, created, err := w.store.PutDevice(t.Context(), "bob", token(200), r)
		storetest.Must(t, err)
		if g := mustGuard(t, w, token(1)); !created || g.State != devices.StateGone || !mustGuard(t, w, token(200)).Reaches("bob") {
			t.Errorf("the replaced token: %+v", g)
		}
		if n := mustOutbox(t, w) - before; n != 3 {
			t.Errorf("%d rows of the outbox, want one of the user and of both tokens", n)
		}
		r.Replaces = token(100)
		if _, _, err := w.store.PutDevice(t.Context(), "bob", token(200), r); err != nil || !mustGuard(t, w, token(100)).Reaches("eve") {
			t.Errorf("another user's token: %v", err)
		}
		if target := mustTarget(t, w.store, devices.Query{User: "bob", Type: "t"}); len(target.Devices) != api.MaxDevices {
			t.Errorf("bob has %d devices", len(target.Devices))
		}
	})
}

func TestP4_AnOlderRelayNeverHasTheLastWord(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		slow, fast := w.another(devices.Options{}), w.store
		slow.BeforeGuard(func() { mustPut(t, fast, "bob", token(1)) })
		mustPut(t, slow, "alice", token(1))
		if g := mustGuard(t, w, token(1)); !g.Reaches("bob") {
			t.Fatalf("the slow writer's guard stands: %+v", g)
		}
	})
}

// P4, P10: after any order of writes, the guard and the cache have the state that is on record in the end, with
// the keys of a browser's last registration.
func TestConcurrentWritesOfOneTokenAllSucceed(t *testing.T) {
	t.Parallel()
	const endpoint = "https://fcm.googleapis.com/x"
	put := map[string]func(ctx context.Context, s *devices.Store, user string) error{
		token(1): func(ctx context.Context, s *devices.Store, user string) error {
			_, _, err := s.PutDevice(ctx, user, token(1), &api.DeviceRequest{Platform: "apns", Topic: "x", Environment: api.EnvSandbox})
			return err
		},
		api.TokenOfEndpoint(endpoint): func(ctx context.Context, s *devices.Store, user string) error {
			r := &api.BrowserRequest{Platform: "webpush", Topic: "x", Subscription: storetest.Subscription(t, endpoint)}
			_, err := s.PutBrowser(ctx, user, r, api.Idempotency{})
			return err
		},
	}
	for token, put := range put {
		eachWorld(t, func(t *testing.T, w *world) {
			other := w.another(devices.Options{})
			storetest.AtOnce(t, 24, func(ctx context.Context, i int) error {
				s := w.store
				if i%2 == 0 {
					s = other
				}
				return insist(ctx, func() error {
					if i%6 == 5 {
						return s.DeleteDevice(ctx, fmt.Sprint("user", i%3), token)
					}
					err := put(ctx, s, fmt.Sprint("user", i%3))
					if errors.Is(err, record.ErrOwnerChanged) {
						return errors.New("it gave up: " + err.Error()) // without its code, by which insist would try again
					}
					return err
				})
			})
			// A relay may give up while others keep changing the token.
			mustRelay(t, w, quick)
			storetest.Eventually(t, 30*time.Second, "the outbox is empty", func() bool { return mustOutbox(t, w) == 0 })
			truth, err := w.rec.DevicesByToken(t.Context(), token)
			storetest.Must(t, err)
			g, owner := mustGuard(t, w, token), truth[token].User
			if owner != "" && !g.Reaches(owner) || owner == "" && g.State != devices.StateGone || g.Target != truth[token].Target {
				t.Fatalf("on record with %q, guard %+v", owner, g)
			}
			for i := range 3 {
				user := fmt.Sprint("user", i)
				found := mustTarget(t, w.store, devices.Query{User: user}).Devices
				if (len(found) == 1) != (user == owner) || len(found) == 1 && found[0].Target != truth[token].Target {
					t.Errorf("%s has %d devices, the owner is %q", user, len(found), owner)
				}
			}
		})
	}
}

// W2: the same endpoint with other keys replaces them, in the guard, in the cache and on record. A repeat under
// the idempotency key of the former registration changes nothing.
func TestW2_NewKeysReplaceThose(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		const endpoint = "https://fcm.googleapis.com/x"
		first, second := storetest.Subscription(t, endpoint), storetest.Subscription(t, endpoint)
		put := func(s api.Subscription, key string) record.Registered {
			t.Helper()
			done, err := w.store.PutBrowser(t.Context(), "bob", &api.BrowserRequest{Platform: "webpush", Topic: "shop", Subscription: s, Locale: "de", Replaces: token(1)},
				api.Idempotency{Scope: "bob", Key: key})
			storetest.Must(t, err)
			return done
		}
		mustPut(t, w.store, "bob", token(1))
		for range 2 {
			if done := put(first, "1"); !done.Created {
				t.Errorf("registered %+v", done)
			}
		}
		check := func(want api.Subscription) {
			t.Helper()
			g := mustGuard(t, w, api.TokenOfEndpoint(endpoint))
			if g.Target != want.Target() || g.Topic != "shop" || !g.Reaches("bob") || mustGuard(t, w, token(1)).State != devices.StateGone {
				t.Errorf("guard %+v", g)
			}
			for _, from := range []string{"SQL", "the cache"} {
				found := mustTarget(t, w.store, devices.Query{User: "bob"}).Devices
				if len(found) != 1 || found[0].Target != want.Target() || found[0].Locale != "de" || found[0].PlatformOf() != api.PlatformWebPush {
					t.Errorf("from %s: %+v", from, found)
				}
			}
			if cached, hit := w.store.Cached(t.Context(), "bob", ""); !hit || len(cached.Devices) != 1 || cached.Devices[0].Target != want.Target() {
				t.Errorf("cached: %v %+v", hit, cached)
			}
		}
		check(first)
		if done := put(second, "2"); done.Created || done.Replayed {
			t.Errorf("registered again %+v", done)
		}
		check(second)
		if done := put(first, "1"); !done.Created || !done.Replayed {
			t.Errorf("replayed %+v", done)
		}
		check(second)
		g, err := w.store.GuardOf(t.Context(), "bob", api.TokenOfEndpoint(endpoint))
		if err != nil || g.Target != second.Target() {
			t.Errorf("the guard of a retried dead letter: %+v, %v", g, err)
		}
	})
}
