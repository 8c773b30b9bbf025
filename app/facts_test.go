package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

// H1: that event.done was told is remembered for FANFARE_EVENT_RETENTION and twice FANFARE_MAX_AGE.
func TestH1_AnEndIsRememberedByTheSettings(t *testing.T) {
	t.Parallel()
	a := mustBuildApp(t, "FANFARE_ADDR=127.0.0.1:0", "FANFARE_MAX_AGE=5h", "FANFARE_EVENT_RETENTION=2h")
	mustRunApp(t, a, func(ctx context.Context) error { <-ctx.Done(); return nil })
	_, err := a.tells.Put(t.Context(), []string{api.FactEventDone})
	storetest.Must(t, err)
	storetest.Must(t, a.tells.Load(t.Context()))
	e := &api.EventRequest{Type: "hello", Alert: &api.Alert{Title: "Hello"}}
	for n := range 101 { // so many are targeted in parts, and the relay tells that the event is over
		e.Audience.Users = append(e.Audience.Users, fmt.Sprint("user", n))
	}
	accepted, _, err := a.events.Accept(t.Context(), e, api.Idempotency{Scope: "test", Key: "once"})
	storetest.Must(t, err)
	storetest.Eventually(t, time.Minute, "the event is told to be over", func() bool {
		list, err := a.facts.Read(t.Context(), nil, "", nil, 10)
		return err == nil && len(list.Items) == 1 && list.Items[0].Key == accepted.ID && list.Items[0].Type == api.FactEventDone
	})
	keys := storetest.KeysWith(t, a.redis, "}:facts:done:")
	if len(keys) != 1 {
		t.Fatalf("it is remembered in %q", keys)
	}
	const want = 12 * time.Hour
	if left := a.redis.Client().PTTL(t.Context(), keys[0]).Val(); left <= want-time.Minute || left > want {
		t.Errorf("it is remembered for %v, want %v", left, want)
	}
}
