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

// It is known when all masters are back after an absence, and while one is away. A user who may not ask does not look like an absence.
func TestBackSince(t *testing.T) {
	t.Parallel()
	w := setupWith(t, redisdb.Options{})
	silent := storetest.Open(t, w.server.MustUser(t, "~*", "&*", "+@all", "-ping"))
	storetest.Eventually(t, 20*time.Second, "a reading without PING", func() bool { return silent.Reading() != nil })
	for _, db := range []*redisdb.DB{w.DB, silent} {
		if at, away := db.BackSince(); away || !at.IsZero() {
			t.Errorf("before any absence: %v, %v", at, away)
		}
	}
	w.server.Kill()
	storetest.Eventually(t, 20*time.Second, "it is away", func() bool { _, away := w.BackSince(); return away })
	began := time.Now()
	w.server.Restart()
	storetest.Eventually(t, 20*time.Second, "it is back", func() bool { _, away := w.BackSince(); return !away })
	if at, _ := w.BackSince(); at.Before(began) || at.After(time.Now()) {
		t.Errorf("back since %v, and it was restarted at %v", at, began)
	}
}
