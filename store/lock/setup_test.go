package lock_test

import (
	"context"
	"testing"
	"time"

	"fanfare/store/lock"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// setup makes a Locker with a name of its own.
func setup(t testing.TB, db *redisdb.DB, o lock.Options) *lock.Locker {
	t.Helper()
	o.Name = "t" + queue.NewID(0, time.Now())[8:20]
	return lock.New(db, o)
}

func keyOf(l *lock.Locker, id string) string { return lock.Key(l, id) }

func mustTry(t testing.TB, l *lock.Locker, id string) lock.Answer {
	t.Helper()
	a, err := l.TryAcquire(context.Background(), id)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return a
}

func mustHold(t testing.TB, l *lock.Locker, id string) *lock.Lease {
	t.Helper()
	a := mustTry(t, l, id)
	if a.Status != lock.Acquired {
		t.Fatalf("acquire %s: %v", id, a.Status)
	}
	return a.Lease
}

// mustBe checks the answer of done, fail, release or renew.
func mustBe(t testing.TB, want bool, what string, f func(context.Context) (bool, error)) {
	t.Helper()
	ok, err := f(context.Background())
	if err != nil || ok != want {
		t.Errorf("%s: %v, %v; want %v", what, ok, err, want)
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	storetest.Eventually(t, 10*time.Second, what, cond)
}

// waitOver waits for the end of a lease by Redis' clock.
func waitOver(t testing.TB, l *lock.Locker, id string) {
	t.Helper()
	eventually(t, "the lease is over", func() bool { return !lock.HeldNow(t.Context(), l, id) })
}
