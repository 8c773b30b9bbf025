package events_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/redisdb"
	"fanfare/store/storetest"
)

// liveEvent is a live event of an object; a start goes to the user "a".
func liveEvent(action api.LiveAction, typ, object string) *api.EventRequest {
	e := &api.EventRequest{Type: typ, Object: object, Audience: api.Audience{ActivitiesOf: object}, Live: &api.Live{Action: action, ContentState: json.RawMessage(`{}`)}}
	if action == api.LiveStart {
		e.Audience, e.Live.AttributesType, e.Live.Attributes = api.Audience{Users: []string{"a"}}, "T", json.RawMessage(`{}`)
	}
	return e
}

// A live event knows the type that another process made a moment ago: its priority, and the texts of a start.
func TestP1_LiveEventsAskForUnknownTypes(t *testing.T) {
	t.Parallel()
	storetest.EachSQL(t, func(t *testing.T, sql string) {
		db := storetest.Open(t, "")
		w := setupOn(t, db, sql)
		w.mustType("before", api.EventTypeRequest{Title: "x"})
		other := w.store(db, w.rec)
		start := liveEvent(api.LiveStart, "match", "match:7")
		_, _, err := other.Accept(t.Context(), start, api.Idempotency{})
		mustCode(t, err, api.CodeValidation) // no text, and no type that has one
		update, err := other.Preview(t.Context(), liveEvent(api.LiveUpdate, "match", "match:7"))
		storetest.Must(t, err)
		if len(update.Payloads) == 0 {
			t.Error("an update without a type has no payload")
		}
		w.mustType("match", api.EventTypeRequest{Title: "Kick-off", PushType: api.PushLiveActivity, Priority: 5})
		a, _, err := other.Accept(t.Context(), start, api.Idempotency{})
		storetest.Must(t, err)
		if j := w.mustClaim(1)[a.ID].job; j.Push.Priority != 5 {
			t.Errorf("the start has the priority %d", j.Push.Priority)
		}
		w.mustType("alert", api.EventTypeRequest{Title: "x"})
		_, _, err = other.Accept(t.Context(), liveEvent(api.LiveUpdate, "alert", "match:7"), api.Idempotency{})
		mustCode(t, err, api.CodeValidation) // live goes only with liveactivity
	})
}

// While the record is away, or answers nothing, a live event is taken for one without a type.
func TestP1_LiveEventsWithoutSQL(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*storetest.Proxy){"Refused": (*storetest.Proxy).Cut, "Silent": func(p *storetest.Proxy) { p.Hold(true) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy, through := storetest.ProxyTo(t, storetest.MySQL(t))
			w := setupOn(t, storetest.Open(t, ""), through)
			w.mustType("before", api.EventTypeRequest{Title: "x"})
			away(proxy)
			began := time.Now()
			w.mustAccept(liveEvent(api.LiveUpdate, "match", "match:7"), api.Idempotency{})
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A dry run of a live event takes no place of its object, and is not counted as accepted.
func TestD2_DryRunsTakeNoPlace(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		w.mustType("match", api.EventTypeRequest{Title: "Kick-off", PushType: api.PushLiveActivity})
		object := "match:" + time.Now().Format("150405.000000000")
		dry := func(when string, accepted int64) {
			t.Helper()
			before := w.placesOf(object)
			for _, action := range []api.LiveAction{api.LiveStart, api.LiveUpdate, api.LiveEnd} {
				for _, later := range []time.Duration{0, time.Hour} {
					e := liveEvent(action, "match", object)
					if later > 0 {
						e.SendAt = new(api.At(time.Now().Add(later)))
					}
					_, err := w.events.Preview(t.Context(), e)
					storetest.Must(t, err)
				}
			}
			if after := w.placesOf(object); !maps.Equal(before, after) {
				t.Errorf("%s: the object's order was %v, and is %v after dry runs", when, before, after)
			}
			if n := w.countAccepted.Load(); n != accepted {
				t.Errorf("%s: %d events are counted as accepted, want %d", when, n, accepted)
			}
		}
		dry("before an event", 0)
		w.mustAccept(liveEvent(api.LiveUpdate, "match", object), api.Idempotency{})
		if len(w.placesOf(object)) == 0 {
			t.Error("an event has no place")
		}
		dry("after an event", 1)
	})
}

// placesOf is what Redis has of the order of an object's events.
func (w *world) placesOf(object string) map[string]string {
	w.Helper()
	all, err := w.db.Client().HGetAll(w.Context(), "ff:{live:"+object+"}:order").Result()
	storetest.Must(w, err)
	return all
}

// A replay uses up no place of its object, and is answered as the first request.
func TestG3_ReplaysTakeNoPlace(t *testing.T) {
	t.Parallel()
	storetest.EachRedisAlone(t, func(t *testing.T, db *redisdb.DB) {
		w := setupOn(t, db, storetest.SQLite(t))
		w.mustType("match", api.EventTypeRequest{PushType: api.PushLiveActivity})
		object := "match:" + time.Now().Format("150405.000000000")
		for name, change := range map[string]func(*api.EventRequest){
			"Now": func(*api.EventRequest) {}, "Later": func(e *api.EventRequest) { e.SendAt = new(api.At(time.Now().Add(time.Hour))) },
		} {
			e, once := liveEvent(api.LiveUpdate, "match", object), api.Idempotency{Scope: "s", Key: name, Body: [32]byte{1}}
			change(e)
			first, _ := w.mustAccept(e, once)
			before := w.placesOf(object)
			if again, replayed := w.mustAccept(e, once); again != first || !replayed {
				t.Errorf("%s: replay %q, %v; want %q", name, again, replayed, first)
			}
			once.Body = [32]byte{2}
			_, _, err := w.events.Accept(t.Context(), e, once)
			mustCode(t, err, api.CodeIdempotencyReused)
			if after := w.placesOf(object); len(before) == 0 || !maps.Equal(before, after) {
				t.Errorf("%s: the object's order was %v, and is %v after a replay", name, before, after)
			}
		}
	})
}
