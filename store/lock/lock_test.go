package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	storetest.Checks(t, lock.Lua)
}

func TestK1_EveryKeyHasATTLAfterEveryCommand(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: 5 * time.Millisecond, Retention: time.Minute, MaxAttempts: 1000})
		ctx := t.Context()
		var leases []*lock.Lease
		random := rand.New(rand.NewPCG(1, 2))
		for n := range 600 {
			id := fmt.Sprint("id", random.IntN(3))
			if a := mustTry(t, l, id); a.Lease != nil {
				leases = append(leases, a.Lease)
			}
			if len(leases) > 0 {
				old := leases[random.IntN(len(leases))]
				act := []func(context.Context) (bool, error){old.Renew, old.Fail, old.Release}[random.IntN(3)]
				if n%50 == 49 {
					act = old.Done
				}
				if _, err := act(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for k := range 3 {
				key := keyOf(l, fmt.Sprint("id", k))
				if ttl := db.Client().PTTL(ctx, key).Val(); ttl == -1 {
					t.Fatalf("%s has no TTL after step %d", key, n)
				}
			}
		}
	})
}

func TestK2_AttemptsAndFencesRise(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, contenders := range []int{2, 7, 20} {
			t.Run(fmt.Sprint(contenders), func(t *testing.T) {
				t.Parallel()
				const kills = 4
				// Long enough that who holds it last says so in time, on any machine.
				l := setup(t, db, lock.Options{Lease: 500 * time.Millisecond, MaxAttempts: 50})
				var mu sync.Mutex
				var attempts []int
				var fences []int64
				var wg sync.WaitGroup
				for range contenders {
					wg.Go(func() {
						for {
							a, err := l.Acquire(context.Background(), "x")
							if err != nil {
								t.Error(err)
								return
							}
							if a.Status == lock.Done {
								return
							}
							mu.Lock()
							attempts, fences = append(attempts, a.Attempt), append(fences, a.Lease.Fence)
							n := len(attempts)
							mu.Unlock()
							if n > kills {
								mustBe(t, true, "done", a.Lease.Done)
							} // else killed: never heard of again
						}
					})
				}
				wg.Wait()
				want := []int{1, 2, 3, 4, 5}
				if !slices.Equal(attempts, want) {
					t.Errorf("attempts %v, want %v", attempts, want)
				}
				if !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != len(fences) {
					t.Errorf("fences %v do not strictly rise", fences)
				}
			})
		}
		t.Run("AlsoAfterTheRecordExpired", func(t *testing.T) {
			t.Parallel()
			l := setup(t, db, lock.Options{Lease: 20 * time.Millisecond, Retention: 20 * time.Millisecond})
			first := mustHold(t, l, "x").Fence
			eventually(t, "the record expired", func() bool { return db.Client().Exists(t.Context(), keyOf(l, "x")).Val() == 0 })
			if second := mustHold(t, l, "x").Fence; second <= first {
				t.Errorf("fence %d after %d", second, first)
			}
		})
	})
}

func TestK3_DoneBetweenCheckAndAcquire(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: 30 * time.Millisecond})
		for n := range 50 {
			id := fmt.Sprint("x", n)
			holder := mustHold(t, l, id)
			if n%2 == 0 {
				waitOver(t, l, id)
			}
			var done, acquired atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() { ok, _ := holder.Done(context.Background()); done.Store(ok) })
			wg.Go(func() { acquired.Store(mustTry(t, l, id).Status == lock.Acquired) })
			wg.Wait()
			if done.Load() == acquired.Load() {
				t.Fatalf("done %v and acquired %v: exactly one must be", done.Load(), acquired.Load())
			}
		}
	})
}

func TestK4_ALateContenderIsToldDone(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: 10 * time.Millisecond, Retention: 300 * time.Millisecond})
		mustBe(t, true, "done", mustHold(t, l, "x").Done)
		for range 5 {
			if a := mustTry(t, lock.New(db, lock.Options{Name: lock.NameOf(l)}), "x"); a.Status != lock.Done {
				t.Errorf("late contender: %v", a.Status)
			}
		}
		eventually(t, "the mark ends with the retention", func() bool { return mustTry(t, l, "x").Status == lock.Acquired })
	})
}

func TestK5_ASupersededHolderChangesNothing(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		t.Run("Superseded", func(t *testing.T) {
			t.Parallel()
			l := setup(t, db, lock.Options{Lease: 30 * time.Millisecond})
			old := mustHold(t, l, "x")
			waitOver(t, l, "x")
			next := mustHold(t, l, "x")
			before := db.Client().Get(t.Context(), keyOf(l, "x")).Val()
			mustBe(t, false, "renew", old.Renew)
			mustBe(t, false, "fail", old.Fail)
			mustBe(t, false, "release", old.Release)
			mustBe(t, false, "done", old.Done)
			if after := db.Client().Get(t.Context(), keyOf(l, "x")).Val(); after != before {
				t.Errorf("record was %s, is %s", before, after)
			}
			mustBe(t, true, "done of the holder", next.Done)
			mustBe(t, false, "done after done", old.Done)
		})
		for name, act := range map[string]func(*lock.Lease) func(context.Context) (bool, error){
			"Done":    func(h *lock.Lease) func(context.Context) (bool, error) { return h.Done },
			"Fail":    func(h *lock.Lease) func(context.Context) (bool, error) { return h.Fail },
			"Release": func(h *lock.Lease) func(context.Context) (bool, error) { return h.Release },
			"Renew":   func(h *lock.Lease) func(context.Context) (bool, error) { return h.Renew },
		} {
			t.Run("LateButLast"+name, func(t *testing.T) {
				t.Parallel()
				l := setup(t, db, lock.Options{Lease: 5 * time.Millisecond})
				h := mustHold(t, l, "x")
				waitOver(t, l, "x")
				mustBe(t, true, name, act(h))
				mustBe(t, true, name+" repeated by the client", act(h))
			})
		}
	})
}

func TestK8_AnyLeaseWorks(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, lease := range []time.Duration{time.Millisecond, 333 * time.Millisecond, 1250 * time.Millisecond} {
			t.Run(lease.String(), func(t *testing.T) {
				t.Parallel()
				l := setup(t, db, lock.Options{Lease: lease})
				before := time.Now()
				h := mustHold(t, l, "x")
				if h.Left() > lease {
					t.Errorf("%v left of %v", h.Left(), lease)
				}
				a, err := l.Acquire(t.Context(), "x")
				if took := time.Since(before); err != nil || a.Attempt != 2 || took < lease-time.Millisecond { // a moment of Redis is a whole ms
					t.Errorf("second attempt %d after %v, %v", a.Attempt, took, err)
				}
			})
		}
	})
}

func TestK10_RedisEmptiedInMidLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Minute})
		h := mustHold(t, l, "x")
		if err := db.Client().Del(t.Context(), keyOf(l, "x")).Err(); err != nil {
			t.Fatal(err)
		}
		mustBe(t, false, "renew", h.Renew)
		if h.Alive() {
			t.Error("alive after the loss")
		}
		mustBe(t, false, "done", h.Done)
		if again := mustTry(t, l, "x"); again.Attempt != 1 || again.Lease.Fence <= h.Fence {
			t.Errorf("one extra attempt with a higher fence expected: %+v", again)
		}
	})
}

func TestK11_IdentifiersAreIndependentAndChecked(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{})
		for _, id := range []string{"a", "A", "a.b", "a:b", "a@b", "a-b", "a_b"} {
			if a := mustTry(t, l, id); a.Status != lock.Acquired || a.Attempt != 1 {
				t.Errorf("%s: %+v", id, a)
			}
		}
		for _, id := range []string{"", "a b", "{a}", "a}", "ä", "a\n", string(make([]byte, 129))} {
			if _, err := l.TryAcquire(t.Context(), id); api.CodeOf(err) != api.CodeValidation {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

func TestK12_OnlyRedisClockDecides(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		// The scripts get durations only: no moment of a client's clock goes over
		// the wire, so an hour's error of it can't matter. What comes back is
		// what is left of the lease, turned into a moment of the monotonic clock.
		l := setup(t, db, lock.Options{Lease: time.Minute})
		h := mustHold(t, l, "x")
		if left := h.Left(); left > time.Minute || left < 30*time.Second {
			t.Errorf("%v left", left)
		}
		a := mustTry(t, l, "x")
		if a.Status != lock.Held || a.Left > time.Minute || a.Left < 30*time.Second {
			t.Errorf("%+v", a)
		}
	})
}

func TestK13_ManyConnectionsOneHolder(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Minute})
		var acquired atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if mustTry(t, l, "x").Status == lock.Acquired {
					acquired.Add(1)
				}
			})
		}
		wg.Wait()
		if acquired.Load() != 1 {
			t.Errorf("%d holders", acquired.Load())
		}
	})
}

func TestK14_TombstonesAreCheap(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	l := setup(t, db, lock.Options{})
	for i := range 100 {
		id := fmt.Sprintf("3fa85f64-5717-4562-b3fc-%012d", i)
		mustBe(t, true, "done", mustHold(t, l, id).Done)
		size, err := db.Client().MemoryUsage(t.Context(), keyOf(l, id)).Result()
		storetest.Must(t, err)
		if size > 200 {
			t.Errorf("%d bytes for a tombstone", size)
		}
	}
}

// K5: a hold that was given up is over: a repeat is answered the same, and another result, or a
// renewal, changes nothing.
func TestK5_AHoldEndsOnce(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Minute})
		hold := mustHold(t, l, "x")
		mustBe(t, true, "fail", hold.Fail)
		mustBe(t, true, "fail again", hold.Fail)
		mustBe(t, false, "release after fail", hold.Release)
		mustBe(t, false, "done after fail", hold.Done)
		mustBe(t, false, "renew after fail", hold.Renew)
		if a := mustTry(t, l, "x"); a.Status != lock.Acquired || a.Attempt != 2 {
			t.Errorf("%+v", a)
		}
	})
}

// K2: a fence is above the last one also where that is ahead of the clock, which was set back.
func TestK2_FencesRiseWhenTheClockDoesNot(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{})
		last := time.Now().Add(time.Hour).UnixMicro()
		record := fmt.Sprintf("Q:0:0:%d:0:release", last)
		storetest.Must(t, db.Client().Set(t.Context(), keyOf(l, "x"), record, time.Minute).Err())
		if got := mustHold(t, l, "x").Fence; got != last+1 {
			t.Errorf("fence %d after %d", got, last)
		}
	})
}

func TestARepeatedRequestIsAnsweredTheSame(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Minute, MaxAttempts: 1})
		for range 3 {
			a, err := lock.TryAgain(t.Context(), l, "x", "request")
			if err != nil || a.Status != lock.Acquired || a.Attempt != 1 {
				t.Fatalf("%+v, %v", a, err)
			}
			if mustTry(t, l, "x").Status != lock.Held {
				t.Fatal("acquired twice")
			}
		}
		a, _ := lock.TryAgain(t.Context(), l, "x", "request")
		mustBe(t, true, "fail", a.Lease.Fail)
		for range 2 {
			if a, _ := lock.TryAgain(t.Context(), l, "x", "first"); !a.First {
				t.Errorf("%+v", a)
			}
		}
		if mustTry(t, l, "x").First {
			t.Error("two are told first")
		}
	})
}

// TestAnUnknownAcquireIsGivenBack: what was taken for a caller who never learns of it, since
// he was cancelled or the connection broke, is free again, and was no attempt.
func TestAnUnknownAcquireIsGivenBack(t *testing.T) {
	t.Parallel()
	proxy, through := storetest.ProxyTo(t, storetest.Redis(t).URL())
	for name, fate := range map[string]storetest.Fate{"cancelled": storetest.Swallow, "reset": storetest.Reset} {
		l := setup(t, storetest.Open(t, through), lock.Options{Lease: time.Hour, MaxAttempts: 1})
		mustHold(t, l, "warm")
		ctx, cancel := context.WithCancel(t.Context())
		var lost atomic.Int64
		proxy.OnAnswer(func(*storetest.ProxyConn, []byte) storetest.Fate {
			if lost.Add(1) > 1 {
				return storetest.Pass
			}
			if fate == storetest.Swallow {
				cancel()
			}
			return fate
		})
		_, err := lock.TryAgain(ctx, l, "x", "request")
		cancel()
		proxy.OnAnswer(nil)
		if fate == storetest.Swallow {
			storetest.WantCode(t, err, api.CodeUnknownOutcome)
		}
		if err != nil {
			eventually(t, name+": it is free again", func() bool { return !lock.HeldNow(t.Context(), l, "x") })
		}
		if a := mustTry(t, l, "x"); a.Attempt != 1 || (a.Status == lock.Acquired) != (err != nil) {
			t.Errorf("%s: %+v after %v", name, a, err)
		}
	}
}

func TestKeepRenewsUntilTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: 300 * time.Millisecond})
		h := mustHold(t, l, "x")
		held, stop := h.Keep(t.Context())
		defer stop()
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a, err := l.Acquire(waiting, "x"); err == nil {
			t.Fatalf("%v although the lease is kept", a.Status)
		}
		db.Client().Del(t.Context(), keyOf(l, "x"))
		select {
		case <-held.Done():
		case <-time.After(5 * time.Second):
			t.Error("the context did not end with the lease")
		}
	})
}

// A record lives as long as the lease that was renewed last, whatever it was given
// at first: one that ends early lets another in beside the holder.
func TestRenewingKeepsTheRecordAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		const lease, retention = time.Minute, 10 * time.Second
		l := setup(t, db, lock.Options{Lease: lease, Retention: retention})
		h := mustHold(t, l, "x")
		lives := func() time.Duration { return db.Client().PTTL(t.Context(), keyOf(l, "x")).Val() }
		if left := lives(); left <= lease || left > lease+retention {
			t.Errorf("the record of a new lease lives %v", left)
		}
		// As if the lease were nearly over.
		storetest.Must(t, db.Client().PExpire(t.Context(), keyOf(l, "x"), retention).Err())
		mustBe(t, true, "renew", h.Renew)
		if left := lives(); left <= lease || left > lease+retention {
			t.Errorf("the record of a renewed lease lives %v", left)
		}
	})
}
