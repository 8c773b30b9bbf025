package devices_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/queue"
	"fanfare/store/record"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

var like = devices.Query{User: "alice", Type: "like"}

func TestP10_LifetimesFitTogether(t *testing.T) {
	t.Parallel()
	if devices.EntryTTL > 10*time.Minute || devices.MarkTTL > 10*time.Second {
		t.Error("an entry lives longer than 10 min or a mark than 10 s")
	}
	// A reader that began just before the last possible commit must be refused
	// at the mark's end.
	if devices.CommitWithin+devices.MaxRead >= devices.MarkTTL {
		t.Error("a reader that saw the old state may fill after the mark's end")
	}
}

func TestP10_AnEntryLivesAtMostTenMinutes(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		settings, changing := devices.Keys("alice")
		mustTarget(t, w.store, like)
		if ttl := w.db.Client().PTTL(t.Context(), settings).Val(); ttl <= 9*time.Minute || ttl > 10*time.Minute {
			t.Errorf("the entry lives %v", ttl)
		}
		storetest.Must(t, w.store.Mark(t.Context(), "w", "alice", devices.MarkTTL))
		if ttl := w.db.Client().PTTL(t.Context(), changing).Val(); ttl <= 0 || ttl > 10*time.Second {
			t.Errorf("the mark lives %v", ttl)
		}
	})
}

func TestP10_WhileChangingReadersGoToSQL(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, reader := t.Context(), w.another(devices.Options{})
		mustTarget(t, reader, like)
		committed := false
		w.store.BeforeRelay(func() {
			committed = true
			for range 3 {
				if !mustTarget(t, reader, like).OptedOut {
					t.Error("a reader saw the old state after the commit")
				}
				if _, hit := reader.Cached(ctx, "alice", "like"); hit {
					t.Error("an entry was filled while the settings were changing")
				}
			}
		})
		storetest.Must(t, w.store.PutOptOut(ctx, "alice", "like"))
		if !committed {
			t.Fatal("nothing was read")
		}
		mustTarget(t, reader, like)
		if got, hit := reader.Cached(ctx, "alice", "like"); !hit || !got.OptedOut {
			t.Fatalf("after the write the entry is not filled: hit %v, %+v", hit, got)
		}
	})
}

func TestP10_ASlowReaderNeverOverwritesANewerVersion(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		mustCached := func(t *testing.T, what string) {
			t.Helper()
			if got, hit := w.store.Cached(ctx, "alice", "like"); hit && !got.OptedOut {
				t.Fatalf("%s: the old state is cached", what)
			}
		}
		old, err := w.store.BeginRead(ctx, "alice")
		storetest.Must(t, err)
		storetest.Must(t, w.store.PutOptOut(ctx, "alice", "like"))
		old.Fill(ctx)
		mustCached(t, "filled after the version was stored")
		storetest.Must(t, w.store.Mark(ctx, "idle", "alice", devices.MarkTTL))
		storetest.Must(t, w.store.StoreVersion(ctx, "idle", "alice", 0))
		old.Fill(ctx)
		mustCached(t, "filled after another writer came and changed nothing")
		mustTarget(t, w.store, like)
		old.Fill(ctx)
		mustCached(t, "filled over a newer entry")
	})
}

func TestP10_AReaderWhoTookOver5sIsRefused(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		for _, c := range []struct {
			age  time.Duration
			fill bool
		}{{devices.MaxRead + 100*time.Millisecond, false}, {devices.MaxRead / 2, true}} {
			r, err := w.store.BeginRead(ctx, "alice")
			storetest.Must(t, err)
			r.Age(c.age)
			r.Fill(ctx)
			if _, hit := w.store.Cached(ctx, "alice", "like"); hit != c.fill {
				t.Errorf("began %v ago: filled %v", c.age, hit)
			}
		}
	})
}

func TestP10_OneOfTwoWritersCrashingLeavesNoStaleEntry(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, s := t.Context(), w.store
		// The crashing writer commits last, so the other's version is older.
		storetest.Must(t, s.Mark(ctx, "crashing", "alice", 4*time.Second))
		storetest.Must(t, s.Mark(ctx, "other", "alice", devices.MarkTTL))
		other, err := w.rec.PutOptOut(ctx, "alice", "share")
		storetest.Must(t, err)
		old, err := s.BeginRead(ctx, "alice")
		storetest.Must(t, err)
		_, err = w.rec.PutOptOut(ctx, "alice", "like")
		storetest.Must(t, err)
		storetest.Must(t, s.StoreVersion(ctx, "other", "alice", other.Users[0].Version))
		old.Fill(ctx)
		if _, hit := s.Cached(ctx, "alice", "like"); hit {
			t.Fatal("filled though the crashed writer's mark lives")
		}
		if !mustTarget(t, s, like).OptedOut {
			t.Fatal("a reader saw the old state")
		}
		storetest.Eventually(t, 20*time.Second, "the cache is used again after the mark's end", func() bool {
			got := mustTarget(t, s, like)
			_, hit := s.Cached(ctx, "alice", "like")
			return got.OptedOut && hit
		})
	})
}

func TestP10_AWriteIsSeenAtOnceWhateverReadersDo(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		var stop atomic.Bool
		g, ctx := errgroup.WithContext(t.Context())
		for range 4 {
			reader := w.another(devices.Options{})
			g.Go(func() error {
				for !stop.Load() {
					if _, err := reader.Targets(ctx, []devices.Query{{User: "user0"}, {User: "user1"}}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		writers, wctx := errgroup.WithContext(t.Context())
		for i := range 4 {
			s, user, typ := w.another(devices.Options{}), fmt.Sprint("user", i%2), fmt.Sprint("type", i)
			writers.Go(func() error { return toggle(wctx, s, devices.Query{User: user, Type: typ}, 60) })
		}
		err := writers.Wait()
		stop.Store(true)
		storetest.Must(t, g.Wait())
		storetest.Must(t, err)
	})
}

// toggle opts out and in again, looking at the cache after every change.
func toggle(ctx context.Context, s *devices.Store, q devices.Query, times int) error {
	for i := range times {
		change := s.PutOptOut
		if i%2 == 1 {
			change = s.DeleteOptOut
		}
		if err := change(ctx, q.User, q.Type); err != nil {
			return err
		}
		for range 2 {
			found, err := s.Targets(ctx, []devices.Query{q})
			if err != nil {
				return err
			}
			if found[0].OptedOut != (i%2 == 0) {
				return fmt.Errorf("change %d of %+v was not seen", i, q)
			}
		}
	}
	return nil
}

func TestOutbox_AWriterKilledBetweenCommitAndRelay(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		dying := w.another(devices.Options{})
		dying.DropRelay()
		mustPut(t, dying, "alice", token(1))
		mustPut(t, dying, "bob", token(1)) // marks both users
		storetest.Must(t, dying.PutOptOut(ctx, "alice", "like"))
		if n := mustOutbox(t, w); n != 2+3+1 {
			t.Fatalf("%d outbox rows", n)
		}
		if got := mustTarget(t, w.store, like); !got.OptedOut || len(got.Devices) != 0 {
			t.Fatalf("a reader saw the old state: %+v", got)
		}
		storetest.Must(t, w.rec.NewRelay(record.RelayOptions{Age: time.Hour}, w.store.Outbox()).Sweep(ctx))
		if n := mustOutbox(t, w); n != 6 {
			t.Fatalf("rows younger than the relay's age were relayed: %d left", n)
		}
		mustRelay(t, w, quick)
		storetest.Eventually(t, 30*time.Second, "the outbox is swept", func() bool { return mustOutbox(t, w) == 0 })
		if g := mustGuard(t, w, token(1)); !g.Reaches("bob") || g.Reaches("alice") {
			t.Fatalf("guard %+v", g)
		}
		settings, _ := devices.Keys("alice")
		if v, want := w.db.Client().HGet(ctx, settings, "v").Val(), mustVersion(t, w, "alice"); v != want {
			t.Fatalf("version %q was stored, want %s", v, want)
		}
	})
}

func TestP10_AChangeThatRedisMissedIsSweptIn(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		mustTarget(t, w.store, like)
		// A writer that could not reach this Redis has changed nothing.
		away := storetest.Open(t, fmt.Sprintf("redis://127.0.0.1:%d", storetest.FreePort(t)))
		cut := devices.New(away, w.rec, queue.New(away, queue.Options{Name: "notifications"}), devices.Options{})
		storetest.WantCode(t, cut.PutOptOut(ctx, "alice", "like"), api.CodeUnavailable)
		// This Redis has lost the mark of a writer, which died after its commit.
		_, err := w.rec.PutOptOut(ctx, "alice", "like")
		storetest.Must(t, err)
		mustRelay(t, w, record.RelayOptions{})
		storetest.Eventually(t, 30*time.Second, "the stale entry goes", func() bool { return mustTarget(t, w.store, like).OptedOut })
	})
}

// A Redis that may be slow, as the embedded one may on a busy machine, has the time for a change that its
// options give it.
func TestASlowRedisTakesAChange(t *testing.T) {
	t.Parallel()
	proxy, url := storetest.ProxyTo(t, storetest.Redis(t).URL())
	const timeout = 4 * time.Second
	w := setupOn(t, storetest.OpenWith(t, redisdb.Options{URL: url, Timeout: timeout}), storetest.SQLite(t))
	mustTarget(t, w.store, like)
	var slow sync.Once
	proxy.OnSent(func(*storetest.ProxyConn, []byte) storetest.Fate {
		slow.Do(func() { <-time.After(timeout * 3 / 5) })
		return storetest.Pass
	})
	storetest.Must(t, w.store.PutOptOut(t.Context(), "alice", "like"))
	if !mustTarget(t, w.store, like).OptedOut {
		t.Error("the change is lost")
	}
}

func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	w := setup(t, server.URL(), storetest.SQLite(t))
	ctx := t.Context()
	mustPut(t, w.store, "alice", token(1))
	mustTarget(t, w.store, like)
	server.Kill()
	if got := mustTarget(t, w.store, like); len(got.Devices) != 1 {
		t.Fatalf("reads do not come from SQL: %+v", got)
	}
	deadline, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	storetest.WantCode(t, w.store.PutOptOut(deadline, "alice", "like"), api.CodeUnavailable)
	if mustTarget(t, w.store, like).OptedOut {
		t.Fatal("the change was refused and is on record")
	}
	server.Restart()
	storetest.Must(t, w.store.PutOptOut(ctx, "alice", "like"))
	storetest.Eventually(t, 30*time.Second, "the cache is used again", func() bool {
		got := mustTarget(t, w.store, like)
		_, hit := w.store.Cached(ctx, "alice", "like")
		return got.OptedOut && hit
	})
}

func TestSQLAway_CachedUsersAreServed(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		mustPut(t, w.store, "alice", token(1))
		storetest.Must(t, w.store.PutMute(t.Context(), "alice", "album:1", nil))
		mustTarget(t, w.store, like)
		away := w.withoutSQL(t)
		found, err := away.Targets(t.Context(), []devices.Query{{User: "alice", Type: "x", Object: "album:1"}})
		if err != nil || len(found[0].Devices) != 1 || !found[0].Muted {
			t.Fatalf("%+v, %v", found, err)
		}
		found, err = away.Targets(t.Context(), []devices.Query{{User: "bob", Type: "x", Object: ""}, like})
		storetest.WantCode(t, err, api.CodeUnavailable)
		storetest.WantCode(t, found[0].Err, api.CodeUnavailable)
		if found[1].Err != nil || len(found[1].Devices) != 1 {
			t.Fatalf("the cached user was not served: %+v", found[1])
		}
		storetest.WantCode(t, away.PutOptOut(t.Context(), "alice", "like"), api.CodeUnavailable)
	})
}

// roundTrips counts the round trips of a client, but for its reading of the
// memory, which comes once a second whatever is done.
type roundTrips struct{ n atomic.Int64 }

func (h *roundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *roundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "info" {
			h.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (h *roundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "info" { // Run's look at the server, at any time
			h.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestTargets_APageOfAThousandCachedUsersIsOnePipeline(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Redis(t).URL(), storetest.SQLite(t))
	page := make([]devices.Query, 1000)
	for i := range page {
		page[i] = devices.Query{User: fmt.Sprint("u", i), Type: "like", Object: "album:1"}
	}
	_, err := w.store.Targets(t.Context(), page)
	storetest.Must(t, err)
	count := &roundTrips{}
	w.db.Client().AddHook(count)
	before := count.n.Load()
	_, err = w.withoutSQL(t).Targets(t.Context(), page)
	storetest.Must(t, err)
	if n := count.n.Load() - before; n != 1 {
		t.Fatalf("%d round trips", n)
	}
}

func BenchmarkTargets1000(b *testing.B) {
	w := setup(b, storetest.Redis(b).URL(), storetest.SQLite(b))
	page := make([]devices.Query, 1000)
	for i := range page {
		page[i] = devices.Query{User: fmt.Sprint("u", i), Type: "like", Object: "album:1"}
		mustPut(b, w.store, page[i].User, token(i))
	}
	for _, c := range []struct {
		name  string
		clear bool
	}{{"Cached", false}, {"Missed", true}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if c.clear {
					b.StopTimer()
					storetest.Must(b, w.db.Client().FlushAll(b.Context()).Err())
					b.StartTimer()
				}
				_, err := w.store.Targets(b.Context(), page)
				storetest.Must(b, err)
			}
		})
	}
}

func TestP10_ALargeAudienceReadsTheCacheAndDoesNotFillIt(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		page := []devices.Query{like}
		for i := range 300 {
			page = append(page, devices.Query{User: fmt.Sprint("fan", i), Type: "like"})
			storetest.Must(t, w.store.PutOptOut(ctx, page[1+i].User, "like"))
		}
		for i := range page {
			page[i].NoFill = true
		}
		mustTarget(t, w.store, like) // by an event of her own
		found, err := w.store.Targets(ctx, page)
		storetest.Must(t, err)
		for i, f := range found[1:] {
			if !f.OptedOut || f.Err != nil {
				t.Fatalf("fan %d: %+v", i, f)
			}
		}
		for i, q := range page {
			if _, hit := w.store.Cached(ctx, q.User, "like"); hit != (i == 0) {
				t.Errorf("%s is cached: %v; only the user who was written to alone should be", q.User, hit)
			}
		}
		cached, err := w.withoutSQL(t).Targets(ctx, page[:1])
		if err != nil || cached[0].Err != nil {
			t.Errorf("the cache was not read: %v", err)
		}
		// Somebody whom both kinds ask for is cached.
		both := append(page[1:3:3], devices.Query{User: "fan0", Type: "like"})
		_, err = w.store.Targets(ctx, both)
		storetest.Must(t, err)
		if _, hit := w.store.Cached(ctx, "fan0", "like"); !hit {
			t.Error("the user of a small event was not cached")
		}
		if _, hit := w.store.Cached(ctx, "fan1", "like"); hit {
			t.Error("the user of a large one was cached")
		}
	})
}

func TestP10_ARedisThatFillsUpCachesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t, storetest.Redis(t).URL(), storetest.SQLite(t))
	ctx := t.Context()
	// Whatever else uses memory meanwhile is little beside this.
	storetest.Must(t, w.db.Client().Set(ctx, "ballast", make([]byte, 32<<20), 0).Err())
	info, err := w.db.Client().InfoMap(ctx, "memory").Result()
	storetest.Must(t, err)
	var used int
	_, err = fmt.Sscan(info["Memory"]["used_memory"], &used)
	storetest.Must(t, err)
	for _, c := range []struct {
		percent int
		cached  bool
	}{{75, false}, {65, true}} {
		storetest.Must(t, w.db.Client().ConfigSet(ctx, "maxmemory", fmt.Sprint(used/c.percent*100)).Err())
		w.db.Check(ctx)
		mustTarget(t, w.store, like)
		if _, hit := w.store.Cached(ctx, "alice", "like"); hit != c.cached {
			t.Errorf("at %d %% of maxmemory: cached %v", c.percent, hit)
		}
	}
}

// mustVersion is the version of a user's settings on record. It begins with SQL's clock.
func mustVersion(t *testing.T, w *world, user string) string {
	t.Helper()
	versions, err := w.rec.UserVersions(t.Context(), []string{user})
	storetest.Must(t, err)
	return strconv.FormatInt(versions[user], 10)
}
