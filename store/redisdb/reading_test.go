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
