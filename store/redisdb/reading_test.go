package redisdb_test

import (
	"testing"
	"time"

	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// What the masters say of themselves is known while they answer, and not after.
func TestReading(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{}, "--maxmemory", "100mb")
	var r *redisdb.Reading
	storetest.Eventually(t, 20*time.Second, "a reading", func() bool { r = w.Reading(); return r != nil })
	if r.Used <= 0.001 || r.Used > 0.5 || r.ClockAhead.Abs() > 5*time.Second {
		t.Errorf("%+v", r)
	}
	w.server.Kill()
	storetest.Eventually(t, 20*time.Second, "nothing is known any more", func() bool { return w.Reading() == nil })
}

// Whoever may ask Redis for its clock, and not for its memory, has its clock.
func TestTheClockNeedsNoReading(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db := storetest.Open(t, server.MustUser(t, "~*", "&*", "+@all", "-info"))
	storetest.Eventually(t, 20*time.Second, "Redis' clock", func() bool {
		now := db.Clock()
		return now == now.Round(0) // this machine's clock has a monotonic part
	})
	if db.Reading() != nil {
		t.Error("its memory is known")
	}
}

// It is known when all masters are back after an absence, and while one is away. A user who may not ask does not look like an absence.
func TestBackSince(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{})
	silent := storetest.Open(t, w.server.MustUser(t, "~*", "&*", "+@all", "-ping"))
	storetest.Eventually(t, 20*time.Second, "a reading without PING", func() bool { return silent.Reading() != nil })
	for _, db := range []*redisdb.DB{w.DB, silent} {
		if at, away := db.BackSince(t.Context(), "k"); away || !at.IsZero() {
			t.Errorf("before any absence: %v, %v", at, away)
		}
	}
	w.server.Kill()
	storetest.Eventually(t, 20*time.Second, "it is away", func() bool { _, away := w.BackSince(t.Context(), "k"); return away })
	began := time.Now()
	w.server.Restart()
	storetest.Eventually(t, 20*time.Second, "it is back", func() bool { _, away := w.BackSince(t.Context(), "k"); return !away })
	at, _ := w.BackSince(t.Context(), "k")
	if at.Before(began) || at.After(time.Now()) {
		t.Errorf("back since %v, and it was restarted at %v", at, began)
	}
	if at == at.Round(0) {
		t.Error("a wall clock that is set back moves it")
	}
}

// The absence of one master of a Cluster says nothing of the others. A master that takes the place of another is not known to have
// been there before.
func TestBackSinceOfOneMaster(t *testing.T) {
	t.Parallel()
	c := storetest.PrivateCluster(t, 1, "--cluster-require-full-coverage", "no")
	db := storetest.Open(t, c.URL())
	storetest.Eventually(t, 20*time.Second, "a reading", func() bool { return db.Reading() != nil })
	storetest.Eventually(t, 20*time.Second, "no absence", func() bool {
		_, away := db.BackSince(t.Context(), "a")
		return !away
	})
	before := time.Now() // a slow reading may have missed it until now
	c.MasterOf(t, "a").Kill()
	storetest.Eventually(t, 20*time.Second, "another has taken its place", func() bool {
		at, away := db.BackSince(t.Context(), "a")
		return !away && at.After(before)
	})
}
