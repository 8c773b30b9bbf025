package queue_test

import (
	"context"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/queue"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// TestWhoIsShortOfTimeWaitsForNoRoundTrip: a caller makes the round trip of his job
// himself only if he has the time that it may take.
func TestWhoIsShortOfTimeWaitsForNoRoundTrip(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	db, err := redisdb.Open(t.Context(), redisdb.Options{URL: server.URL(), Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := setup(t, db)
	w.mustEnqueue(queue.Job{})
	server.Pause()
	t.Cleanup(server.Resume)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = w.q.Enqueue(ctx, queue.Job{})
	if took := time.Since(began); took > 10*time.Second || api.CodeOf(err) != api.CodeUnknownOutcome {
		t.Errorf("%v after %v", err, took)
	}
}
