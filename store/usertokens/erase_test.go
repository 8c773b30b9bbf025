package usertokens_test

import (
	"context"
	"testing"
	"time"

	"fanfare/store/storetest"
)

// E2: what an operation removes is older than its answer, also if the database's second is a later one than that
// of Redis, because the database let it wait.
func TestE2_AnErasureEndsAfterItsSecond(t *testing.T) {
	t.Parallel()
	url := storetest.EmptySQLite(t)
	rec := mustRecord(t, url)
	s := mustOpen(t, rec, storetest.Open(t, "embedded"), "")
	second := time.Now().Truncate(time.Second).Add(time.Second)
	<-time.After(time.Until(second.Add(800 * time.Millisecond)))
	unlock := storetest.LockSQLite(t, url)
	time.AfterFunc(time.Until(second.Add(1100*time.Millisecond)), unlock)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	id, err := s.Erase(ctx, "alice")
	answered := time.Now().UnixMilli() // SQLite has the same clock
	storetest.Must(t, err)
	o, err := rec.OpenOperation(t.Context(), id)
	storetest.Must(t, err)
	if o.CreatedAt >= answered {
		t.Errorf("it removes what is older than %d, and was answered at %d", o.CreatedAt, answered)
	}
}
