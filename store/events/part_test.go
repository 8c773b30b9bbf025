package events_test

import (
	"testing"
	"time"

	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// TestP6_APageGoesOnAsItWasSplitFirst: whatever its users are when it is read again, none
// at all included, it gives no more parts and goes on where the first reading ended.
func TestP6_APageGoesOnAsItWasSplitFirst(t *testing.T) {
	t.Parallel()
	w := setupOn(t, storetest.Open(t, ""), storetest.SQLite(t))
	id := queue.NewID(0, time.Now())
	job := &events.Job{Type: "hello", Audience: events.Audience{ContactsOf: "star"}}
	split := func(users []string, next string) (string, int64) {
		t.Helper()
		cursor, parts, err := events.Split(t.Context(), w.queue, id, job, users, next, time.Hour)
		storetest.Must(t, err)
		return cursor, parts
	}
	if next, parts := split(make([]string, 250), "first"); next != "first" || parts != 3 {
		t.Fatalf("split into %d parts, then %q", parts, next)
	}
	for _, users := range []int{250, 40, 0} {
		if next, parts := split(make([]string, users), "second"); next != "first" || parts != 3 {
			t.Errorf("read again with %d users: %d parts, then %q", users, parts, next)
		}
	}
	job.Cursor = "first"
	if next, parts := split(nil, ""); next != "" || parts != 0 {
		t.Errorf("an empty last page: %d parts, then %q", parts, next)
	}
	stats, err := w.queue.Stats(t.Context())
	if err != nil || stats.Depth != 3 {
		t.Errorf("%d parts are stored, %v", stats.Depth, err)
	}
}
