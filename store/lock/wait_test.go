package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/store/lock"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

func TestK6_HandOverIsPrompt(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, how := range []string{"fail", "release", "done", "lease"} {
			t.Run(how, func(t *testing.T) {
				t.Parallel()
				best := time.Hour
				for range 5 {
					best = min(best, handOver(t, setup(t, db, lock.Options{Lease: 300 * time.Millisecond}), how))
				}
				if best > 50*time.Millisecond {
					t.Errorf("a waiter woke %v after %s", best, how)
				}
			})
		}
	})
}

// handOver is how long after the holder's end a waiter has its answer.
func handOver(t *testing.T, l *lock.Locker, how string) time.Duration {
	h := mustHold(t, l, "x")
	got := make(chan lock.Answer, 1)
	go func() {
		a, err := l.Acquire(context.Background(), "x")
		if err != nil {
			t.Error(err)
		}
		got <- a
	}()
	eventually(t, "the waiter subscribed", func() bool { return lock.Waiters(l, "x") > 0 || !h.Alive() })
	over := time.Now()
	switch how {
	case "fail":
		mustBe(t, true, how, h.Fail)
	case "release":
		mustBe(t, true, how, h.Release)
	case "done":
		mustBe(t, true, how, h.Done)
	default:
		over = over.Add(h.Left())
	}
	a := <-got
	if want := map[string]int{"fail": 2, "release": 1, "done": 0, "lease": 2}[how]; a.Attempt != want {
		t.Errorf("attempt %d after %s, want %d", a.Attempt, how, want)
	}
	return time.Since(over)
}

func TestK7_AttemptsTotalTheMaximum(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		for _, contenders := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(contenders), func(t *testing.T) {
				t.Parallel()
				l := setup(t, db, lock.Options{Lease: 500 * time.Millisecond, MaxAttempts: 5})
				var attempts, first atomic.Int64
				var wg sync.WaitGroup
				for n := range contenders {
					wg.Go(func() {
						for i := 0; ; i++ {
							a, err := l.Acquire(context.Background(), "x")
							if err != nil {
								t.Error(err)
								return
							}
							if a.Status == lock.Exhausted {
								if a.First {
									first.Add(1)
								}
								return
							}
							attempts.Add(1)
							if (n+i)%2 == 0 {
								mustBe(t, true, "fail", a.Lease.Fail)
							}
						}
					})
				}
				wg.Wait()
				if attempts.Load() != 5 || first.Load() != 1 {
					t.Errorf("%d attempts, %d told first; want 5 and 1", attempts.Load(), first.Load())
				}
			})
		}
	})
}

// pubsubClients counts Redis' subscribed connections.
func pubsubClients(t testing.TB, db *redisdb.DB) int {
	list, err := db.Client().Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "id=")
}

// mustWait starts n waiters of each lock and returns when all are subscribed.
func mustWait(t *testing.T, l *lock.Locker, n int, ids ...string) (answered *atomic.Int64) {
	answered = new(atomic.Int64)
	for _, id := range ids {
		for range n {
			go func() {
				a, err := l.Acquire(context.Background(), id)
				if err != nil || a.Status != lock.Done {
					t.Errorf("%s: %v, %v", id, a.Status, err)
				}
				answered.Add(1)
			}()
		}
	}
	for _, id := range ids {
		eventually(t, "all wait", func() bool { return lock.Waiters(l, id) == n })
	}
	return answered
}

func TestK6_WaitersShareOneConnection(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	l := setup(t, db, lock.Options{Lease: time.Hour})
	a, b := mustHold(t, l, "a"), mustHold(t, l, "b")
	for range 2 { // it opens again when it is needed again
		answered := mustWait(t, l, 20, "a", "b")
		if n := pubsubClients(t, db); n != 1 {
			t.Errorf("%d connections for 40 waiters", n)
		}
		mustBe(t, true, "done", a.Done)
		eventually(t, "those of a are told", func() bool { return answered.Load() == 20 })
		if n := lock.Waiters(l, "b"); n != 20 {
			t.Errorf("%d wait for b", n)
		}
		mustBe(t, true, "done", b.Done)
		eventually(t, "those of b are told", func() bool { return answered.Load() == 40 })
		eventually(t, "the connection is closed", func() bool { return pubsubClients(t, db) == 0 })
		db.Client().Del(t.Context(), keyOf(l, "a"), keyOf(l, "b"))
		a, b = mustHold(t, l, "a"), mustHold(t, l, "b")
	}
}

// A hand-over while the connection is gone is learned of when it is back.
func TestK6_ReconnectionsWakeEveryWaiter(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Redis(t).URL())
	l := setup(t, db, lock.Options{Lease: time.Hour})
	h := mustHold(t, l, "x")
	answered := mustWait(t, l, 5, "x")
	pipe := db.Client().TxPipeline() // nothing comes between
	pipe.Do(t.Context(), "client", "kill", "type", "pubsub")
	pipe.Set(t.Context(), keyOf(l, "x"), fmt.Sprint("D:", h.Fence), time.Hour)
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are told", func() bool { return answered.Load() == 5 })
}

// A connection that stays open and brings nothing any more is noticed: a hand-over wakes the waiter soon.
func TestK6_ASilentConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	proxy, url := storetest.ProxyTo(t, server.URL())
	var silenced atomic.Bool
	proxy.OnAnswer(func(c *storetest.ProxyConn, b []byte) storetest.Fate {
		if bytes.Contains(b, []byte("message")) && !silenced.Swap(true) {
			c.Swallow()
		}
		return storetest.Pass
	})
	l := setup(t, storetest.Open(t, url), lock.Options{Lease: time.Hour})
	h := mustHold(t, l, "x")
	answered := mustWait(t, l, 1, "x")
	mustBe(t, true, "done", h.Done)
	storetest.Eventually(t, 30*time.Second, "the waiter is told", func() bool { return answered.Load() == 1 })
	if !silenced.Load() {
		t.Error("the connection was not silenced")
	}
}

// One who gives up leaves the others alone.
func TestAcquireEndsWithItsContext(t *testing.T) {
	t.Parallel()
	storetest.EachRedis(t, func(t *testing.T, db *redisdb.DB) {
		l := setup(t, db, lock.Options{Lease: time.Hour})
		h := mustHold(t, l, "x")
		answered := mustWait(t, l, 1, "x")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		mustBe(t, true, "done", h.Done)
		eventually(t, "the other is told", func() bool { return answered.Load() == 1 })
	})
}
