package events_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

func message(id string, at time.Time) api.NamedEvent {
	return api.NamedEvent{Name: "chat team e " + id, Route: "team", At: at, Event: api.EventRequest{
		Type: api.ChatMessageType, Actor: "ann", Object: "chat:team", Audience: api.Audience{Chat: "team"},
		Data: map[string]string{"chat": "team", "message_id": id, "text": "hello"},
	}}
}

func (w *world) mustAcceptNamed(named ...api.NamedEvent) {
	w.Helper()
	refused, err := w.events.AcceptNamed(w.Context(), named...)
	storetest.Must(w.T, err)
	for i, no := range refused {
		if no != nil {
			w.Fatalf("event %d is refused: %v", i, no)
		}
	}
}

// mustForgetEnds removes the tombstones of all events, as their retention does.
func (w *world) mustForgetEnds() {
	w.Helper()
	keys := storetest.KeysWith(w.T, w.db, ":done:")
	if len(keys) == 0 {
		w.Fatal("there is no tombstone")
	}
	storetest.Must(w.T, w.db.Client().Del(w.Context(), keys...).Err())
}

// C14: the push of a message is not made again, also if an outage kept the chat from recording it for longer than the
// tombstone of its event lives.
func TestC14_APushThatIsRepeatedLate(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType(api.ChatMessageType, api.EventTypeRequest{Title: "T"})
	old := message("1", time.Now().Add(-w.queue.Retention()-time.Minute))
	w.mustAcceptNamed(old)
	w.mustClaim(1)
	w.mustForgetEnds()
	w.mustAcceptNamed(old, message("2", old.At), message("3", time.Now()))
	if n := w.countAccepted.Load(); n != 3 {
		t.Errorf("%d events were accepted, want each of the three once", n)
	}
	for id := range w.mustClaim(2) {
		if id == w.events.NamedID(&old) {
			t.Error("an event that had ended was accepted again")
		}
	}
}

// C14: from 90 % of Redis' memory on messages are refused, but the pushes of those that were sent before are made.
func TestC14_PushesWhileRedisIsNearlyFull(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType(api.ChatMessageType, api.EventTypeRequest{Title: "T"})
	redis := w.db.Client()
	storetest.Must(t, redis.SetRange(t.Context(), "ff:{fill}:test", 64<<20, "x").Err()) // the test takes little beside it
	var used int
	_, memory, _ := strings.Cut(redis.Info(t.Context(), "memory").Val(), "used_memory:")
	_, err := fmt.Sscan(memory, &used)
	storetest.Must(t, err)
	storetest.Must(t, redis.ConfigSet(t.Context(), "maxmemory", strconv.Itoa(used/95*100)).Err())
	storetest.Eventually(t, time.Minute, "fanfare sees it", func() bool { return w.db.Overloaded() != nil })
	w.mustAcceptNamed(message("1", time.Now()))
	if n := w.countAccepted.Load(); n != 1 {
		t.Errorf("%d events were accepted", n)
	}
}

// Pushes that are made in time read no reports.
func TestYoungNamedEventsReadNoReports(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType(api.ChatMessageType, api.EventTypeRequest{Title: "T"})
	w.mustAcceptNamed(message("1", time.Now()), message("2", time.Now()))
	stats, err := w.db.Client().Info(t.Context(), "commandstats").Result()
	storetest.Must(t, err)
	if strings.Contains(stats, "cmdstat_hmget") {
		t.Errorf("reports were read: %s", stats)
	}
}
