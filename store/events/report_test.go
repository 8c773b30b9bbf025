package events_test

import (
	"context"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// TestP9_CountsStayWhenAnEventDies: some users of an event were sent to, and it waited so
// long for the others that it died. Its report keeps what it showed, also while the dead
// letter waits again.
func TestP9_CountsStayWhenAnEventDies(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "")
	w := setupOn(t, db, storetest.SQLite(t))
	id, _ := w.mustAccept(event("cached", "cold"), api.Idempotency{})
	_, err := w.notes.Enqueue(t.Context(), queue.Job{ID: "note", Group: id, Payload: []byte("x")})
	storetest.Must(t, err)
	mustRun := func(q *queue.Queue, h func(*queue.Claimed) queue.Result, what string, until func() bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() {
			done <- q.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result { return h(c) }))
		}()
		storetest.Eventually(t, time.Minute, what, until)
		cancel()
		storetest.Must(t, <-done)
	}
	mustBe := func(state api.EventState) {
		t.Helper()
		r, err := w.events.Report(t.Context(), id)
		if err != nil || r.State != state || *r.Recipients != 1 || r.Notifications != 1 || r.Delivered != 1 {
			t.Errorf("report %+v, %v; want %s, and 1 recipient with 1 notification that was delivered", r, err, state)
		}
	}

	brief := queue.New(db, queue.Options{Name: "events", MaxAge: time.Millisecond})
	job := &events.Job{Type: "t"}
	mustRun(brief, func(c *queue.Claimed) queue.Result {
		if c.First {
			return queue.Result{Outcome: queue.Continue, Report: job.ReportTargeting(events.Counts{Recipients: 1}, events.Sent{})}
		}
		return queue.Result{Outcome: queue.Defer, Delay: 100 * time.Millisecond}
	}, "the event to die", func() bool {
		r, err := w.events.Report(t.Context(), id)
		return err == nil && r.State == api.EventExpired
	})
	mustRun(w.notes, func(*queue.Claimed) queue.Result {
		return queue.Result{Label: events.LabelDelivered}
	}, "the notification to be delivered", func() bool {
		sent, err := w.notes.Groups(t.Context(), id)
		return err == nil && sent[events.LabelDelivered] == 1
	})
	mustBe(api.EventExpired)

	list, err := queue.DeadLetters(t.Context(), queue.DeadFilter{}, "", 10, w.queue)
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("dead letters %+v, %v", list, err)
	}
	_, _, err = w.queue.RetryDead(t.Context(), list.Items[0].ID, queue.Once{})
	storetest.Must(t, err)
	mustBe(api.EventTargeting)
}
