package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events"
	"fanfare/store/queue"
)

// The process that accepted an event and claims it with the same call targets what it
// has in memory: it must be what any other process would read.
func TestAnEventInMemoryIsTheOneStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	ttl := int64(60)
	w.mustType("typed", api.EventTypeRequest{Title: "Hi {{.actor}}", TTLSeconds: &ttl, APS: json.RawMessage(`{"badge": 1}`)})
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("user-%d", i)
	}
	at := api.Time{Time: time.Now().Add(time.Hour)}
	shapes := []*api.EventRequest{
		event("b", "a", "b"), event(many[:100]...),
		{Type: "typed", Actor: "a\"<b>\u2028", Object: "o", Audience: api.Audience{ContactsOf: "c"}, Data: map[string]string{"k": "v"}},
		{Type: "t", Audience: api.Audience{Chat: "c"}, Alert: &api.Alert{Body: "<&>"}, ExpiresAt: &at, CollapseID: "é"},
		{Type: "t", Audience: api.Audience{Topic: "c"}, Alert: &api.Alert{Body: "x"}},
		{Type: "t", Audience: api.Audience{All: true}, Alert: &api.Alert{Body: "x"}},
	}
	claimed := make(chan *queue.Claimed, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- w.queue.Run(ctx, queue.Each(func(_ context.Context, c *queue.Claimed) queue.Result {
			claimed <- c
			return queue.Result{Outcome: queue.Done}
		}))
	}()
	seen := make([]bool, len(shapes))
	for n := 0; n < 500 && slices.Contains(seen, false); n++ { // a shard's first events come before its worker
		shape := n % len(shapes)
		w.mustAccept(shapes[shape], api.Idempotency{})
		c := <-claimed
		stored, err := events.DecodeJob(c.Payload)
		if err != nil {
			t.Fatal(err)
		}
		seen[shape] = seen[shape] || c.Value != nil
		inMemory, err := events.JobOf(c)
		if inMemory.Age(); err != nil || !reflect.DeepEqual(inMemory, stored) {
			t.Fatalf("in memory %+v, stored %+v, %v", inMemory, stored, err)
		}
		if c.Value != nil || c.Payload != nil {
			t.Fatal("what was taken out is kept")
		}
	}
	if slices.Contains(seen, false) {
		t.Errorf("claimed from memory: %v", seen)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
