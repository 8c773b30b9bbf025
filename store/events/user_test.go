package events_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// N10: how a user's notification has ended is told of an event with up to 1,000,000 notifications. Notes of a larger
// one are not read, and the answer says that it does not know.
func TestN10_NotesOfHugeEvents(t *testing.T) {
	t.Parallel()
	for name, many := range map[string]int64{"Large": 1_000_000, "Huge": 1_000_001} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			id, _ := w.mustAccept(event("a"), api.Idempotency{})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
					job, err := events.JobOf(c)
					storetest.Must(t, err)
					sent := events.Sent{Ends: events.Ends{Made: many, Delivered: many}}
					for i := range 20 {
						sent.Keep(events.NotificationID(id, fmt.Sprint("token", i)), events.LabelDelivered, time.Now())
					}
					return job.End(events.Counts{Recipients: many}, sent, true, time.Hour)
				}))
			}()
			w.mustBeIn(id, api.EventDone)
			cancel()
			storetest.Must(t, <-ended)
			settings := &api.NotificationSettings{Devices: []api.Device{{Token: "token7"}}}
			e, err := w.events.UserEvent(t.Context(), id, &events.UserNow{User: "a", Settings: settings, Aside: func(*api.Device) string { return "" }})
			storetest.Must(t, err)
			if huge := name == "Huge"; e.OutcomesKept || huge != (len(e.Notifications) == 0) {
				t.Errorf("%+v", e)
			}
		})
	}
}
