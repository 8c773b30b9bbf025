package events_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// in is a time by the clock of this machine, which is Redis' clock too.
func in(d time.Duration) *api.Time {
	at := api.At(time.Now().Add(d))
	return &at
}

func later(d time.Duration) *api.EventRequest {
	r := event("a")
	r.SendAt = in(d)
	return r
}

// N12: an event for later is scheduled until then, with its time, and neither deep nor old. Its report outlives it.
func TestN12_Scheduled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := later(6 * 24 * time.Hour)
	many := slices.Repeat([]string{"a"}, 150)
	for i := range many {
		many[i] += strings.Repeat("x", i)[:i%100] + string(rune('a'+i/100))
	}
	large := later(time.Hour)
	large.Audience.Users = many
	id, _ := w.mustAccept(r, api.Idempotency{})
	w.mustAccept(large, api.Idempotency{})
	for range 2 {
		got, err := w.events.Report(t.Context(), id)
		want := &api.EventReport{ID: id, Type: "t", State: api.EventScheduled, SendAt: r.SendAt, Recipients: new(int64)}
		if err != nil || got.SendAt == nil || got.SendAt.UnixMilli() != r.SendAt.UnixMilli() {
			t.Fatalf("%+v, %v", got, err)
		}
		if got.AcceptedAt == nil || time.Since(got.AcceptedAt.Time).Abs() > time.Minute {
			t.Errorf("accepted at %v", got.AcceptedAt)
		}
		if got.SendAt, got.AcceptedAt = r.SendAt, nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v", got)
		}
		w.mustAccept(event("a"), api.Idempotency{}) // others of the same moment do not shorten its life
		w.mustClaim(1)
	}
	s, err := w.queue.Stats(t.Context())
	if err != nil || s.Scheduled != 2 || s.OldestAgeMS > 60_000 {
		t.Errorf("%+v, %v", s, err)
	}
	var longest time.Duration // of the shards' reports of that moment
	for _, key := range w.server.Client().Keys(t.Context(), "*report:"+id[:6]).Val() {
		longest = max(longest, w.server.Client().PTTL(t.Context(), key).Val())
	}
	if longest < 7*24*time.Hour-5*time.Minute {
		t.Errorf("the report lives %v", longest)
	}
}

// N12: a time that is over means now, and an event without one has the bytes that it had before.
func TestN12_InThePastMeansNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	plain, _ := w.mustAccept(event("a"), api.Idempotency{})
	past, _ := w.mustAccept(later(-time.Hour), api.Idempotency{})
	texts := 0
	for _, key := range w.server.Client().Keys(t.Context(), "*}:main").Val() {
		for _, m := range w.server.Client().XRange(t.Context(), key, "-", "+").Val() {
			text, _ := m.Values["e"].(string)
			texts++
			if !strings.HasPrefix(text, "R") || strings.Contains(text, "send_at") {
				t.Errorf("entry %q", text)
			}
		}
	}
	if texts != 2 {
		t.Errorf("%d entries", texts)
	}
	for _, id := range []string{plain, past} {
		if r, err := w.events.Report(t.Context(), id); err != nil || r.State != api.EventQueued || r.SendAt != nil {
			t.Errorf("%+v, %v", r, err)
		}
	}
	w.mustClaim(2)
}

// N12: a time that is too late is refused, and names the field, also in a batch; a replay is not refused.
func TestN12_Refusals(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		late := later(8 * 24 * time.Hour)
		ends := later(time.Hour)
		ends.ExpiresAt = ends.SendAt
		for _, r := range []*api.EventRequest{late, ends} {
			_, _, err := w.events.Accept(t.Context(), r, api.Idempotency{})
			if e := mustCode(t, err, api.CodeValidation); len(e.Fields) != 1 || e.Fields[0].Field != "send_at" {
				t.Errorf("%+v", e)
			}
			_, _, err = w.events.AcceptBatch(t.Context(), &api.EventBatchRequest{Events: []api.EventRequest{*event("a"), *r}}, api.Idempotency{})
			if e := mustCode(t, err, api.CodeValidation); len(e.Fields) != 1 || e.Fields[0].Field != "events[1].send_at" {
				t.Errorf("%+v", e)
			}
		}
		good := later(7*24*time.Hour - time.Minute)
		good.ExpiresAt = in(7 * 24 * time.Hour)
		first, _, err := w.events.AcceptBatch(t.Context(), &api.EventBatchRequest{Events: []api.EventRequest{*good, *event("a"), *good}}, api.Idempotency{Scope: "s", Key: "k"})
		storetest.Must(t, err)
		again, replayed, err := w.events.AcceptBatch(t.Context(), &api.EventBatchRequest{Events: []api.EventRequest{*late, *late, *late}}, api.Idempotency{Scope: "s", Key: "k"})
		if err != nil || !replayed || !reflect.DeepEqual(first, again) {
			t.Errorf("%v, %t, %v; want %v", again, replayed, err, first)
		}
		if s, err := w.queue.Stats(t.Context()); err != nil || s.Scheduled != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		for i, want := range []api.EventState{api.EventScheduled, api.EventQueued, api.EventScheduled} {
			if r, err := w.events.Report(t.Context(), first.Items[i].ID); err != nil || r.State != want {
				t.Errorf("%+v, %v; want %s", r, err, want)
			}
		}
	})
}

// N12: a notification has the texts of the type's revision at acceptance, and its event says when it was due.
func TestN12_TheRevisionOfAcceptance(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.mustType("t", api.EventTypeRequest{Title: "first"})
	r := later(2 * time.Second)
	r.Alert = nil
	id, _ := w.mustAccept(r, api.Idempotency{})
	w.mustType("t", api.EventTypeRequest{Title: "second"})
	due := r.SendAt.UnixMilli()
	if j := w.mustClaim(1)[id].job; !strings.Contains(string(j.Push.Payload), "first") || j.SendAt != due || j.AcceptedAt != due {
		t.Errorf("%+v", j)
	}
	if now, err := w.queue.Now(t.Context(), 0); err != nil || now.UnixMilli() < due {
		t.Errorf("claimed before %v, %v", r.SendAt, err)
	}
}
