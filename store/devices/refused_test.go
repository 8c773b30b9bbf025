package devices_test

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// refusals are the ways in which a Redis takes no writes. Each returns what ends it. All but Frozen answer
// reads.
var refusals = map[string]func(testing.TB, *storetest.RedisServer) (end func()){
	"NOREPLICAS": func(t testing.TB, r *storetest.RedisServer) func() {
		return refuseBy(t, r, "NOREPLICAS", [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"})
	},
	"READONLY": func(t testing.TB, r *storetest.RedisServer) func() {
		return refuseBy(t, r, "READONLY", [][]any{{"REPLICAOF", "127.0.0.1", storetest.FreePort(t)}}, []any{"REPLICAOF", "NO", "ONE"})
	},
	"MISCONF": func(t testing.TB, r *storetest.RedisServer) func() {
		storetest.Must(t, os.RemoveAll(r.Client().ConfigGet(t.Context(), "dir").Val()["dir"])) // so that it cannot save
		return refuseBy(t, r, "MISCONF", [][]any{{"CONFIG", "SET", "save", "3600 1"}, {"BGSAVE"}}, []any{"CONFIG", "SET", "save", ""})
	},
	"Frozen": func(_ testing.TB, r *storetest.RedisServer) func() { r.Pause(); return r.Resume },
}

// refuseBy runs commands after which the server refuses writes with this error, and returns what runs the
// command that ends it.
func refuseBy(t testing.TB, r *storetest.RedisServer, prefix string, begin [][]any, end []any) func() {
	t.Helper()
	for _, args := range begin {
		storetest.Must(t, r.Client().Do(t.Context(), args...).Err())
	}
	storetest.Eventually(t, 30*time.Second, "writes are refused", func() bool {
		err := r.Client().Set(t.Context(), "probe", 1, time.Second).Err()
		return err != nil && (strings.HasPrefix(err.Error(), prefix) || strings.HasPrefix(err.Error(), "MOVED"))
	})
	return func() { storetest.Must(t, r.Client().Do(context.Background(), end...).Err()) }
}

var apnsDevice = api.DeviceRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox}

// changes are the writes that take something from alice, who has the tokens 1 and 2.
var changes = map[string]func(context.Context, *devices.Store) error{
	"LogOut":   func(ctx context.Context, s *devices.Store) error { return s.DeleteDevice(ctx, "alice", token(1)) },
	"HandOver": func(ctx context.Context, s *devices.Store) error { return put(ctx, s, "bob", 1, "") },
	"Replaces": func(ctx context.Context, s *devices.Store) error { return put(ctx, s, "alice", 3, token(1)) },
	"Batch": func(ctx context.Context, s *devices.Store) error {
		_, err := s.PutDevices(ctx, []api.DeviceEntry{entry("carl", 4), entry("bob", 1)}, api.Idempotency{Scope: "s", Key: "batch"})
		return err
	},
	"Browser": func(ctx context.Context, s *devices.Store) error {
		r := &api.BrowserRequest{Platform: "webpush", Topic: "shop", Subscription: subscription, Replaces: token(1)}
		_, err := s.PutBrowser(ctx, "alice", r, api.Idempotency{Scope: "s", Key: "browser"})
		return err
	},
	"Drop": func(ctx context.Context, s *devices.Store) error {
		return s.Drop(ctx, token(1), "Unregistered", api.Time{}, api.At(time.Now().Add(time.Hour)))
	},
	"OptOut": func(ctx context.Context, s *devices.Store) error { return s.PutOptOut(ctx, "alice", "like") },
	"OptIn":  func(ctx context.Context, s *devices.Store) error { return s.DeleteOptOut(ctx, "alice", "share") },
	"Mute":   func(ctx context.Context, s *devices.Store) error { return s.PutMute(ctx, "alice", "album:2", nil) },
	"Unmute": func(ctx context.Context, s *devices.Store) error { return s.DeleteMute(ctx, "alice", "album:1") },
	"Suspect": func(ctx context.Context, s *devices.Store) error {
		return s.MarkSuspect(ctx, token(1), "BadDeviceToken", api.At(time.Now().Add(time.Hour)))
	},
}

var subscription = api.Subscription{}

func put(ctx context.Context, s *devices.Store, user string, n int, replaces string) error {
	r := apnsDevice
	r.Replaces = replaces
	_, _, err := s.PutDevice(ctx, user, token(n), &r)
	return err
}

// takesDevice are the changes after which nothing may go to alice's device 1, or, for the others, after which
// her settings differ.
func takesDevice(name string) bool {
	switch name {
	case "LogOut", "HandOver", "Replaces", "Batch", "Browser", "Drop":
		return true
	}
	return false
}

// mustHaveAlice makes alice's settings and caches them.
func mustHaveAlice(t testing.TB, w *world) {
	t.Helper()
	mustPut(t, w.store, "alice", token(1))
	mustPut(t, w.store, "alice", token(2))
	storetest.Must(t, w.store.PutOptOut(t.Context(), "alice", "share"))
	storetest.Must(t, w.store.PutMute(t.Context(), "alice", "album:1", nil))
	mustTarget(t, w.store, like)
}

// mustSettings is what is on record of alice.
func mustSettings(t testing.TB, w *world) *api.NotificationSettings {
	t.Helper()
	got, err := w.store.Settings(t.Context(), "alice")
	storetest.Must(t, err)
	return got
}

// wantTold checks that the cache and the guard agree with the record, from which the change has taken
// something.
func wantTold(t testing.TB, w *world, name string, before *api.NotificationSettings) {
	t.Helper()
	now := mustSettings(t, w)
	if reflect.DeepEqual(now, before) {
		t.Errorf("%s changed nothing", name)
	}
	cached, hit := w.store.Cached(t.Context(), "alice", "like")
	for range 2 { // from SQL, and then from the cache
		got := mustTarget(t, w.store, devices.Query{User: "alice", Type: "like", Object: "album:2"})
		if got.OptedOut != (name == "OptOut") || got.Muted != (name == "Mute") || takesDevice(name) && hasToken(got, token(1)) {
			t.Errorf("after %s: %+v", name, got)
		}
	}
	if takesDevice(name) && (hit && hasToken(cached, token(1)) || mustGuard(t, w, token(1)).Reaches("alice")) {
		t.Errorf("after %s the device still is alice's: cached %+v, guard %+v", name, cached, mustGuard(t, w, token(1)))
	}
}

func hasToken(got devices.Target, tok string) bool {
	for _, d := range got.Devices {
		if d.Token == tok {
			return true
		}
	}
	return false
}

// TestP4_NothingIsWrittenThatRedisIsNotTold: while a Redis takes no writes, a call that would change a user's
// settings is refused, and nothing has happened.
func TestP4_NothingIsWrittenThatRedisIsNotTold(t *testing.T) {
	t.Parallel()
	for way, refuse := range refusals {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			for name, change := range changes {
				w := setup(t, server.URL(), storetest.SQLite(t))
				storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
				mustHaveAlice(t, w)
				before, rows := mustSettings(t, w), mustOutbox(t, w)+mustBatches(t, w)
				end := refuse(t, server)
				storetest.WantCode(t, change(t.Context(), w.store), api.CodeUnavailable)
				if got := mustSettings(t, w); !reflect.DeepEqual(got, before) || mustOutbox(t, w)+mustBatches(t, w) != rows {
					t.Errorf("%s was refused and is on record: %+v", name, got)
				}
				end()
				storetest.Must(t, change(t.Context(), w.store))
				wantTold(t, w, name, before)
				if way == "MISCONF" {
					server = storetest.Redis(t) // this one cannot write its log
				}
			}
		})
	}
}

// TestP4_RefusedAfterTheCommit: a change that is on record and that Redis was not told is answered
// unknown_outcome, as often as it is repeated, until Redis was told. Meanwhile nobody reads the cache.
func TestP4_RefusedAfterTheCommit(t *testing.T) {
	t.Parallel()
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := storetest.Redis(t)
			w := setup(t, server.URL(), storetest.SQLite(t))
			mustHaveAlice(t, w)
			before, dying := mustSettings(t, w), w.another(devices.Options{})
			var end func()
			dying.BeforeRelay(func() { end = refusals["NOREPLICAS"](t, server) })
			storetest.WantCode(t, change(t.Context(), dying), api.CodeUnknownOutcome)
			if reflect.DeepEqual(mustSettings(t, w), before) {
				t.Fatal("it is not on record")
			}
			if cached, hit := w.store.Cached(t.Context(), "alice", "like"); hit {
				t.Errorf("readers trust the cache: %+v", cached)
			}
			storetest.WantCode(t, change(t.Context(), w.store), api.CodeUnavailable)
			end()
			storetest.Must(t, change(t.Context(), w.store))
			wantTold(t, w, name, before)
		})
	}
}

// TestP4_AFullRedisTakesThem: a Redis whose memory is full refuses none of these changes.
func TestP4_AFullRedisTakesThem(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	for name, change := range changes {
		w := setup(t, server.URL(), storetest.SQLite(t))
		storetest.Must(t, server.Client().FlushAll(t.Context()).Err())
		mustHaveAlice(t, w)
		before := mustSettings(t, w)
		storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		if err := change(t.Context(), w.store); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wantTold(t, w, name, before)
		storetest.Must(t, server.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	}
}

// TestP4_OneMasterTakesNoWrites: it is enough that the master of the user's settings, or of the guard,
// refuses.
func TestP4_OneMasterTakesNoWrites(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	for n, node := range c.Nodes {
		w := setup(t, c.URL(), storetest.SQLite(t))
		user := usersOf(t, c, node, true, 1)[0]
		for i := range 8 { // their guards are on all masters
			mustPut(t, w.store, user, token(100*n+i))
		}
		mustTarget(t, w.store, devices.Query{User: user})
		var guardOnly, neither int
		other := usersOf(t, c, node, false, 1)[0]
		for i := range 8 {
			mustPut(t, w.store, other, token(100*n+50+i))
		}
		mustTarget(t, w.store, devices.Query{User: other})
		end := refusals["NOREPLICAS"](t, node)
		for i := range 8 {
			storetest.WantCode(t, w.store.DeleteDevice(t.Context(), user, token(100*n+i)), api.CodeUnavailable)
			switch err := w.store.DeleteDevice(t.Context(), other, token(100*n+50+i)); api.CodeOf(err) {
			case api.CodeUnavailable:
				guardOnly++
			default:
				storetest.Must(t, err)
				neither++
			}
		}
		for user, want := range map[string]int{user: 8, other: guardOnly} {
			if got := mustTarget(t, w.store, devices.Query{User: user}); len(got.Devices) != want {
				t.Errorf("%s has %d devices, want %d", user, len(got.Devices), want)
			}
		}
		if guardOnly == 0 || neither == 0 {
			t.Errorf("%d guards were on that master, %d not", guardOnly, neither)
		}
		end()
		for i := range 8 {
			storetest.Must(t, w.store.DeleteDevice(t.Context(), user, token(100*n+i)))
		}
		if got := mustTarget(t, w.store, devices.Query{User: user}); len(got.Devices) != 0 {
			t.Errorf("%s has %d devices", user, len(got.Devices))
		}
	}
}

// TestP4_ALateCommandChangesNothing: what a Redis runs only after its writer has given up does not replace the
// guard of a later writer, not even if a removal lies between.
func TestP4_ALateCommandChangesNothing(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		late := w.another(devices.Options{})
		run := late.LateGuard()
		storetest.WantCode(t, put(t.Context(), late, "alice", 1, ""), api.CodeUnknownOutcome)
		storetest.Must(t, w.store.DeleteDevice(t.Context(), "alice", token(1)))
		storetest.Must(t, run(t.Context()))
		if g := mustGuard(t, w, token(1)); g.State != devices.StateGone {
			t.Errorf("after a removal: %+v", g)
		}
		storetest.WantCode(t, put(t.Context(), late, "alice", 1, ""), api.CodeUnknownOutcome)
		mustPut(t, w.store, "bob", token(1))
		storetest.Must(t, run(t.Context()))
		if g := mustGuard(t, w, token(1)); !g.Reaches("bob") {
			t.Errorf("after a hand-over: %+v", g)
		}
	})
}

// TestP10_OneMasterAwayHoldsUpNoOthersRows: the rows of the outbox whose users and tokens are on other masters
// are done in the first round.
func TestP10_OneMasterAwayHoldsUpNoOthersRows(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	w := setup(t, c.URL(), storetest.SQLite(t))
	w.store.DropRelay()
	users := append(usersOf(t, c, c.Nodes[0], true, 5), usersOf(t, c, c.Nodes[0], false, 600)...)
	for i, user := range users {
		storetest.Must(t, w.store.PutOptOut(t.Context(), user, "like"))
		if i < 40 {
			mustPut(t, w.store, user, token(i))
		}
	}
	guards, _, err := w.rec.OutboxLag(t.Context(), record.KindGuard)
	storetest.Must(t, err)
	c.Nodes[0].Kill()
	err = w.rec.NewRelay(quick, w.store.Outbox()).Sweep(t.Context())
	left, _, err2 := w.rec.OutboxLag(t.Context(), record.KindGuard)
	storetest.Must(t, err2)
	if err == nil || left == 0 || left > guards*2/3 {
		t.Errorf("%d of %d guards are left: %v", left, guards, err)
	}
	page, err := w.rec.OutboxPage(t.Context(), record.KindSettings, 0, record.OpenRow{}, 100)
	storetest.Must(t, err)
	if len(page) != 10 {
		t.Errorf("%d rows of settings are left", len(page))
	}
	for _, row := range page {
		if settings, _ := devices.Keys(row.Subject); c.MasterOf(t, settings) != c.Nodes[0] {
			t.Errorf("a row of %s is left", row.Subject)
		}
	}
}

// P10: a user whose master is away holds up no guards of a batch on the other masters.
func TestP10_OneMasterAwayHoldsUpNoGuardsOfABatch(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 0, "--cluster-require-full-coverage", "no")
	w := setup(t, c.URL(), storetest.SQLite(t))
	w.store.DropRelay()
	users := append(usersOf(t, c, c.Nodes[0], true, 1), usersOf(t, c, c.Nodes[0], false, 29)...)
	var list []api.DeviceEntry
	for i, user := range users {
		list = append(list, entry(user, i))
	}
	_, err := w.store.PutDevices(t.Context(), list, api.Idempotency{})
	storetest.Must(t, err)
	c.Nodes[0].Kill()
	if err := w.rec.NewRelay(quick, w.store.Outbox()).Sweep(t.Context()); err == nil {
		t.Error("the relay did not notice that a master is away")
	}
	written := 0
	for _, node := range c.Nodes[1:] {
		for i := range users {
			keys, err := node.Client().Keys(t.Context(), "ff:{q:notifications:*"+devices.GuardName(token(i))).Result()
			storetest.Must(t, err)
			written += len(keys)
		}
	}
	if written < len(users)/3 {
		t.Errorf("%d guards of %d are written", written, len(users))
	}
}
