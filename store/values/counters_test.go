package values

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// wantBounds checks a refusal for a bound.
func wantBounds(t testing.TB, err error, value int64) {
	t.Helper()
	storetest.WantCode(t, err, api.CodeBounds)
	var e *api.Error
	if errors.As(err, &e) && e.Facts["value"] != value {
		t.Errorf("the refusal has %v, want %d", e.Facts["value"], value)
	}
}

// V1: a counter never leaves its bounds; an add that would is refused as a whole, or stops at the bound.
func TestV1_Bounds(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		c, name := NewCounters(db), named(t, "n")
		_, err := c.add(t.Context(), name, 1)
		storetest.WantCode(t, err, api.CodeNotFound)
		mustMake(t, c, name, 3, 10, func(r *api.CounterRequest) { r.Local = api.LocalOff })
		for _, one := range []struct {
			delta    int64
			saturate bool
			value    int64
			applied  int64 // 0 without saturate: refused
		}{
			{7, false, 10, 7}, {1, false, 10, 0}, {1, true, 10, 0}, {-11, false, 10, 0}, {-11, true, 0, -10}, {-1, false, 0, 0},
			{4, true, 4, 4}, {api.MaxNumber, false, 4, 0}, {api.MaxNumber, true, 10, 6}, {-api.MaxNumber, true, 0, -10}, {0, true, 0, 0},
		} {
			change, _, err := c.Add(t.Context(), name, one.delta, one.saturate, api.Idempotency{})
			if one.applied == 0 && !one.saturate {
				wantBounds(t, err, one.value)
			} else if err != nil || *change != (api.CounterChange{Value: one.value, Applied: one.applied}) {
				t.Errorf("%+v: %+v, %v", one, change, err)
			}
			mustBe(t, c, name, one.value)
		}

		wide, zero := named(t, "wide"), int64(0)
		_, err = c.Put(t.Context(), wide, &api.CounterRequest{Value: &zero})
		storetest.Must(t, err)
		for _, delta := range []int64{api.MaxNumber, -api.MaxNumber, -api.MaxNumber} {
			if _, err := c.add(t.Context(), wide, delta); err != nil {
				t.Error(err)
			}
		}
		_, err = c.add(t.Context(), wide, -1)
		wantBounds(t, err, -api.MaxNumber)
		got, err := c.Get(t.Context(), wide)
		storetest.Must(t, err)
		if got.Min != nil || got.Max != nil || got.IdleMS != nil || got.StartsAt != nil || got.EndsAt != nil || got.Local != "" {
			t.Errorf("settings that were not set: %+v", got)
		}
	})
}

// V1: nothing is added before the start and from the end on, by Redis' clock.
func TestV1_Window(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		c, name := NewCounters(db), named(t, "n")
		at := func(d time.Duration) *api.Time { a := api.At(time.Now().Add(d)); return &a }
		mustMake(t, c, name, 0, 10, func(r *api.CounterRequest) { r.StartsAt, r.EndsAt = at(time.Hour), at(2*time.Hour) })
		_, err := c.add(t.Context(), name, 1)
		storetest.WantCode(t, err, api.CodeNotStarted)
		var e *api.Error
		if errors.As(err, &e) && (e.RetryAfter < 59*time.Minute || e.RetryAfter > time.Hour) {
			t.Errorf("it starts in %v", e.RetryAfter)
		}
		mustMake(t, c, name, 5, 10, func(r *api.CounterRequest) { r.StartsAt, r.EndsAt = at(-time.Hour), at(time.Hour) })
		_, err = c.add(t.Context(), name, 1)
		storetest.Must(t, err)
		mustMake(t, c, name, 5, 10, func(r *api.CounterRequest) { r.EndsAt = at(-time.Second) })
		_, err = c.add(t.Context(), name, 1)
		storetest.WantCode(t, err, api.CodeEnded)
		mustBe(t, c, name, 5)
	})
}

// V1: adds renew the idle time, and a counter that nobody adds to is gone.
func TestV1_Idle(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		c, used, left := NewCounters(db), named(t, "used"), named(t, "left")
		long, short := int64(600_000), int64(60)
		mustMake(t, c, used, 0, 1000, func(r *api.CounterRequest) { r.IdleMS = &long })
		mustMake(t, c, left, 0, 1000, func(r *api.CounterRequest) { r.IdleMS = &short })
		storetest.Must(t, db.Client().PExpire(t.Context(), keysFor(kindCounters, used).content(used), time.Minute).Err())
		left10 := func(what string, renewed bool) {
			t.Helper()
			if ttl := db.Client().PTTL(t.Context(), keysFor(kindCounters, used).content(used)).Val(); (ttl > 9*time.Minute) != renewed {
				t.Errorf("%v are left after %s", ttl, what)
			}
		}
		_, err := c.add(t.Context(), used, 1001)
		wantBounds(t, err, 0)
		_, _, err = c.Add(t.Context(), used, -1, true, api.Idempotency{})
		storetest.Must(t, err)
		mustBe(t, c, used, 0)
		left10("calls that changed nothing", false)
		_, err = c.add(t.Context(), used, 1)
		storetest.Must(t, err)
		left10("an add", true)
		storetest.Eventually(t, soon, "the other is gone", func() bool {
			_, err := c.Get(t.Context(), left)
			return api.CodeOf(err) == api.CodeNotFound
		})
		_, err = c.add(t.Context(), left, 1)
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

// V1: an add whose answer was lost, and a script that is sent twice, count once.
func TestV1_LostAnswersCountOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		var n atomic.Int64
		faulty := storetest.Faulty(t, db, func(name string, answered bool) error {
			if name == "values_run" && answered && n.Add(1)%2 == 0 {
				return storetest.ErrTwice
			}
			return nil
		})
		c, v, name := NewCounters(faulty), NewValues(faulty), named(t, "n")
		mustMake(t, c, name, 0, 100)
		var refusals atomic.Int64
		storetest.AtOnce(t, 150, func(ctx context.Context, i int) error {
			once := api.Idempotency{}
			if i%3 == 0 {
				once = api.Idempotency{Key: fmt.Sprint(i), Body: [32]byte{';', '1', ',', 0}}
			}
			_, _, err := c.Add(ctx, name, 1, false, once)
			if api.CodeOf(err) == api.CodeBounds {
				refusals.Add(1)
				return nil
			}
			return err
		})
		mustBe(t, c, name, 100)
		if refusals.Load() != 50 {
			t.Errorf("%d adds were refused, want 50", refusals.Load())
		}
		for range 20 {
			version, created, err := v.Put(t.Context(), name, []byte("1"), 0, api.Match{Absent: true})
			if err != nil || !created {
				t.Errorf("%d, %v, %v", version, created, err)
			}
			storetest.Must(t, v.Delete(t.Context(), name, api.Match{Version: version}))
		}
	})
}

// V1: a script that arrives after a later one of its process, long after it was sent, changes nothing.
func TestV1_ALateScriptChangesNothing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		c, name := NewCounters(db), named(t, "n")
		mustMake(t, c, name, 0, 100)
		script, p := redisdb.MustScript(scripts, "lua/values_run.lua"), string(keysFor(kindCounters, name))
		run := func(number int) []any {
			answers, err := db.List(t.Context(), redisdb.Write, script.Cmd(t.Context(),
				[]string{p + "run:late", p + "names", p + "v:" + name}, number, 60_000, groupNames, 60_000, "add", name, 1, "0", ""))
			storetest.Must(t, err)
			return answers
		}
		first, second := run(1), run(2)
		if again := run(2); fmt.Sprint(again) != fmt.Sprint(second) || fmt.Sprint(first) == fmt.Sprint(second) {
			t.Errorf("again %v, first %v", again, second)
		}
		if late := run(1); len(late) != 1 || redisdb.Number(late[0]) != 0 {
			t.Errorf("late: %v", late)
		}
		mustBe(t, c, name, 2)
	})
}

// V1: a repeat under the same Idempotency-Key gets the first answer, and another body is refused.
func TestV1_Repeats(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		c, name, other := NewCounters(db), named(t, "n"), named(t, "m")
		mustMake(t, c, name, 0, 100)
		mustMake(t, c, other, 0, 100)
		once := api.Idempotency{Scope: "s", Key: named(t, "key"), Body: [32]byte{1}}
		for round := range 3 {
			change, again, err := c.Add(t.Context(), name, 5, false, once)
			if err != nil || *change != (api.CounterChange{Value: 5, Applied: 5}) || again != (round > 0) {
				t.Errorf("round %d: %+v, %v, %v", round, change, again, err)
			}
			_, err = c.add(t.Context(), name, 1)
			storetest.Must(t, err)
		}
		mustBe(t, c, name, 8)
		lives := db.Client().PTTL(t.Context(), keysFor(kindCounters, name).once(once.Name(name))).Val()
		if lives < 23*time.Hour || lives > 24*time.Hour {
			t.Errorf("the record lives for %v", lives)
		}
		differs := once
		differs.Body[0]++
		_, _, err := c.Add(t.Context(), name, 6, false, differs)
		storetest.WantCode(t, err, api.CodeIdempotencyReused)
		_, again, err := c.Add(t.Context(), other, 5, false, once) // another counter, so another call
		if err != nil || again {
			t.Errorf("%v, %v", again, err)
		}
	})
}

// V2: a counter at its bound refuses from memory for at most 100 ms, and only what Redis would have refused then.
func TestV2_RefusalsFromMemory(t *testing.T) {
	t.Parallel()
	db, scripts := counting(t, storetest.Open(t, storetest.Redis(t).URL()), "values_run")
	c, name := NewCounters(db), named(t, "n")
	mustMake(t, c, name, 9, 10)
	asks := func(want bool, what string, call func() error) {
		t.Helper()
		before := scripts.Load()
		wantBounds(t, call(), 9)
		if asked := scripts.Load() > before; asked != want {
			t.Errorf("%s: Redis was asked: %v", what, asked)
		}
	}
	add := func(delta int64) func() error {
		return func() error { _, err := c.add(t.Context(), name, delta); return err }
	}
	known := func(delta int64) { // Redis refuses it now, and the refusal is fresh
		t.Helper()
		storetest.Eventually(t, soon, "the refusal is forgotten", func() bool { return c.refusals.find(name, delta, false) == nil })
		asks(true, "the first", add(delta))
	}
	storetest.Eventually(t, soon, "within 100 ms", func() bool { // a busy machine may need more
		known(3)
		began, before := time.Now(), scripts.Load()
		for _, delta := range []int64{3, 4, 3} {
			wantBounds(t, add(delta)(), 9)
		}
		return time.Since(began) < refusalTime/2 && scripts.Load() == before
	})
	asks(true, "a smaller add", add(2))
	asks(true, "with an Idempotency-Key", func() error {
		_, _, err := c.Add(t.Context(), name, 3, false, api.Idempotency{Key: named(t, "key")})
		return err
	})
	known(3)
	if change, _, err := c.Add(t.Context(), name, 3, true, api.Idempotency{}); err != nil || change.Applied != 1 {
		t.Errorf("with saturate: %+v, %v", change, err)
	}
	_, err := c.add(t.Context(), name, -1)
	storetest.Must(t, err)
	known(3)
	_, err = c.add(t.Context(), name, -1) // a change ends what is known
	storetest.Must(t, err)
	_, err = c.add(t.Context(), name, 1)
	storetest.Must(t, err)
	asks(true, "after a change", add(3))

	mustMake(t, c, name, 9, 10, func(r *api.CounterRequest) { r.Local = api.LocalOff })
	for range 3 {
		asks(true, "with local off", add(3))
	}
}

// V2: the memory for refusals is bounded.
func TestV2_RefusalsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRefusals()
	for i := range 3 * maxRefusals {
		r.learn(time.Now(), []*call{{name: fmt.Sprint(i), status: beyond, rest: "1,", args: [3]any{int64(1), "", ""}}})
		if len(r.all) > maxRefusals {
			t.Fatalf("%d are remembered", len(r.all))
		}
	}
}

// V1: with Redis away nothing happens, and the error says so.
func TestV1_RedisAway(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	c, name := NewCounters(storetest.Open(t, server.URL())), named(t, "n")
	mustMake(t, c, name, 0, 10)
	server.Kill()
	_, err := c.add(t.Context(), name, 1)
	storetest.WantCode(t, err, api.CodeUnavailable)
	server.Restart()
	storetest.Eventually(t, soon, "it answers again", func() bool {
		_, err := c.add(t.Context(), name, 1)
		return api.CodeOf(err) == api.CodeNotFound // this Redis keeps nothing
	})
}

// V1: names of counters that were renewed stay, and those that are gone make room, however many are looked at first.
func TestV1_GoneNamesMakeRoom(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		script, p, number := redisdb.MustScript(scripts, "lua/values_run.lua"), "ff:{counters.few-"+named(t, "g")+"}:", 0
		const room = 40
		set := func(name string, idle any) string {
			number++
			answers, err := db.List(t.Context(), redisdb.Write, script.Cmd(t.Context(),
				[]string{p + "run:x", p + "names", p + "v:" + name}, number, 60_000, room, 60_000, "set", name, 1, "0:9:::60000:", idle))
			storetest.Must(t, err)
			return redisdb.TextAt(answers, 1)
		}
		due := func() { // all seem to be gone, as if each had been renewed since
			for n := range room {
				storetest.Must(t, db.Client().ZAdd(t.Context(), p+"names", redis.Z{Score: float64(n), Member: fmt.Sprint("n", n)}).Err())
			}
		}
		for n := range room {
			set(fmt.Sprint("n", n), 60_000)
		}
		due()
		if got := set("more", 60_000); got != "3" {
			t.Errorf("one more than there is room for: %s", got)
		}
		due()
		storetest.Must(t, db.Client().Del(t.Context(), p+"v:n39").Err())
		if got := set("more", 60_000); got != "1,1" {
			t.Errorf("with room again: %s", got)
		}
		if got := set("other", 60_000); got != "3" {
			t.Errorf("one more again: %s", got)
		}
		storetest.Must(t, db.Client().Del(t.Context(), p+"v:n5").Err())
		if got := set("n5", 60_000); got != "1,1" {
			t.Errorf("a name that is counted already: %s", got)
		}
	})
}

// V1: while the slot of counters and values moves, in whatever order its keys do, a call is done or refused as a whole.
func TestV1_ASlotThatMoves(t *testing.T) {
	t.Parallel()
	cluster := storetest.PrivateCluster(t, 0)
	db := storetest.Open(t, cluster.URL())
	for round, early := range []string{"", "run:", "names", "v:"} {
		c, name, value := NewCounters(db), named(t, "n"), int64(0)
		mustMake(t, c, name, 0, 1000)
		m := storetest.BeginMove(t, cluster, keysFor(kindCounters, name).content(name))
		for _, k := range m.Rest() {
			if early != "" && strings.Contains(k, "}:"+early) {
				m.Move(k)
			}
		}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := c.add(ctx, name, 1)
			cancel()
			switch {
			case err == nil:
				value++
			case api.CodeOf(err) != api.CodeUnavailable:
				t.Errorf("round %d: %v", round, err)
			}
			both := func(ctx context.Context, i int) error { // deleted and made again, perhaps in one script
				if i == 0 {
					return ignoreAway(c.Delete(ctx, name+"-b"))
				}
				_, err := c.Put(ctx, name+"-b", &api.CounterRequest{Value: new(int64)})
				return ignoreAway(err)
			}
			storetest.AtOnce(t, 2, both)
		}
		m.Finish()
		storetest.Eventually(t, soon, "the counter is there", func() bool { _, err := c.Get(t.Context(), name); return err == nil })
		mustBe(t, c, name, value)
		storetest.Eventually(t, soon, "it counts", func() bool { _, err := c.add(t.Context(), name, 1); return err == nil })
		mustBe(t, c, name, value+1)
	}
}

// ignoreAway leaves out the error of a call that was refused because the slot moves.
func ignoreAway(err error) error {
	if api.CodeOf(err) == api.CodeUnavailable {
		return nil
	}
	return err
}
