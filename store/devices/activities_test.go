package devices_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/devices"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// mustActivity registers an activity of match:7.
func mustActivity(t testing.TB, s *devices.Store, user, token string) *api.Activity {
	t.Helper()
	a, _, err := s.PutActivity(t.Context(), user, token, &api.ActivityRequest{
		Platform: "apns", Topic: "com.example.app", Environment: api.EnvProduction, Kind: api.ActivityUpdate, Object: "match:7",
	})
	storetest.Must(t, err)
	return a
}

// G1: targeting finds activities beside the devices, from SQL and from the cache, and at once those of their next owner. The
// guard of a token names its owner.
func TestG1_ActivitiesAreTargets(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		ctx, s := t.Context(), w.store
		mustPut(t, s, "alice", token(1))
		mustActivity(t, s, "alice", strings.ToUpper(token(2)))
		want := func(user string, own int, activities ...string) {
			t.Helper()
			for range 2 { // the second time from the cache
				got := mustTarget(t, s, devices.Query{User: user})
				var tokens []string
				for _, a := range got.Activities {
					if a.Live == nil || a.Live.Object != "match:7" || a.Topic != "com.example.app.push-type.liveactivity" || a.Live.EndsAt == 0 {
						t.Errorf("%+v, %+v", a, a.Live)
					}
					tokens = append(tokens, a.Token)
				}
				if len(got.Devices) != own || strings.Join(tokens, " ") != strings.Join(activities, " ") {
					t.Errorf("%s has %+v", user, got)
				}
			}
		}
		want("alice", 1, token(2))
		if g := mustGuard(t, w, token(2)); !g.Reaches("alice") {
			t.Errorf("%+v", g)
		}
		if g, err := s.GuardOf(ctx, "alice", token(2)); err != nil || !g.Reaches("alice") {
			t.Errorf("%+v, %v", g, err)
		}
		mustActivity(t, s, "bob", token(2))
		want("alice", 1)
		want("bob", 0, token(2))
		if g := mustGuard(t, w, token(2)); !g.Reaches("bob") || g.Reaches("alice") {
			t.Errorf("%+v", g)
		}
		storetest.Must(t, s.Drop(ctx, token(2), "Unregistered", api.Time{}, mustTarget(t, s, devices.Query{User: "bob"}).Activities[0].RegisteredAt))
		want("bob", 0)
		if g := mustGuard(t, w, token(2)); g.Reaches("bob") {
			t.Errorf("%+v", g)
		}
		mustActivity(t, s, "bob", token(2))
		want("bob", 0, token(2))
		storetest.Must(t, s.DeleteActivity(ctx, "alice", token(2), ""))
		want("bob", 0, token(2))
		storetest.Must(t, s.DeleteActivity(ctx, "bob", token(2), "match:8"))
		want("bob", 0, token(2))
		for range 2 {
			storetest.Must(t, s.DeleteActivity(ctx, "bob", token(2), "match:7"))
			want("bob", 0)
		}
		if g := mustGuard(t, w, token(2)); g.State != devices.StateGone {
			t.Errorf("%+v", g)
		}
	})
}

// P4: a removal that Redis did not get to know is repeated, whatever the platform: the second call tells it.
func TestP4_RemovingAnActivityAgain(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		const phone = "cRAlZ0RtTOe5Y7mn9s7fDu:APA91bF-iphone"
		_, _, err := w.store.PutDevice(t.Context(), "alice", phone, &api.DeviceRequest{Platform: "fcm", Topic: "com.example.app"})
		storetest.Must(t, err)
		r := &api.ActivityRequest{Platform: "fcm", Topic: "com.example.app", Kind: api.ActivityUpdate, Object: "match:7", Registration: phone}
		_, _, err = w.store.PutActivity(t.Context(), "alice", token(1), r)
		storetest.Must(t, err)
		stored, _ := r.Stored(token(1))
		if g := mustGuard(t, w, stored); !g.Reaches("alice") {
			t.Fatalf("%+v", g)
		}
		_, err = w.rec.DeleteActivities(t.Context(), "alice", []string{stored}) // Redis does not know
		storetest.Must(t, err)
		storetest.Must(t, w.store.DeleteActivity(t.Context(), "alice", token(1), ""))
		if g := mustGuard(t, w, stored); g.State != devices.StateGone {
			t.Errorf("%+v", g)
		}
	})
}

// starting is a start token of a type.
func starting(typ string) *api.ActivityRequest {
	return &api.ActivityRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvProduction, Kind: api.ActivityStart, AttributesType: typ}
}

// P4: nothing that waits goes to an activity that made room for another one, from the answer on, and also if the process dies
// before it tells Redis.
func TestP4_ActivitiesThatMakeRoom(t *testing.T) {
	t.Parallel()
	for name, dies := range map[string]bool{"AtOnce": false, "ByTheRelay": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *world) {
				for n := range api.MaxActivities {
					_, _, err := w.store.PutActivity(t.Context(), "alice", token(n), starting("Match"))
					storetest.Must(t, err)
				}
				if !mustGuard(t, w, token(0)).Reaches("alice") {
					t.Fatal("the oldest is not alice's")
				}
				process := w.another(devices.Options{})
				if dies {
					process.DropRelay()
					mustRelay(t, w, quick)
					storetest.Eventually(t, time.Minute, "the relay of the registrations", func() bool { return mustOutbox(t, w) == 0 })
				}
				_, _, err := process.PutActivity(t.Context(), "alice", token(99), starting("Match"))
				storetest.Must(t, err)
				if dies {
					storetest.Eventually(t, time.Minute, "the relay to tell", func() bool { return mustOutbox(t, w) == 0 })
				}
				if g := mustGuard(t, w, token(0)); g.State != devices.StateGone {
					t.Errorf("the one that made room: %+v", g)
				}
				if !mustGuard(t, w, token(99)).Reaches("alice") {
					t.Error("the new one is not alice's")
				}
			})
		})
	}
}

// mustMakeRoom registers alice's token(99), for which token(0) makes room. Its guard cannot be written. It returns a process
// that cannot write it either.
func mustMakeRoom(t *testing.T, w *world) (away *devices.Store) {
	t.Helper()
	for n := range api.MaxActivities {
		_, _, err := w.store.PutActivity(t.Context(), "alice", token(n), starting("Match"))
		storetest.Must(t, err)
	}
	mustRelayOnce(t, w, w.store)
	away = w.another(devices.Options{})
	away.RefuseGuard(token(0))
	_, _, err := away.PutActivity(t.Context(), "alice", token(99), starting("Match"))
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	if !mustGuard(t, w, token(0)).Reaches("alice") {
		t.Fatal("the guard of what made room is written")
	}
	return away
}

// P4: Redis refuses a call, or only the guard, when an activity has made room. Its repeat is not answered before Redis knows.
func TestP4_ARepeatKnowsWhatMadeRoom(t *testing.T) {
	t.Parallel()
	for name, relayed := range map[string]bool{"AtOnce": false, "TheOthersAreRelayed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *world) {
				away := mustMakeRoom(t, w)
				if relayed {
					mustRelayOnce(t, w, away)
				}
				_, _, err := away.PutActivity(t.Context(), "alice", token(99), starting("Match"))
				storetest.WantCode(t, err, api.CodeUnknownOutcome)
				_, _, err = w.store.PutActivity(t.Context(), "alice", token(99), starting("Match"))
				storetest.Must(t, err)
				if g := mustGuard(t, w, token(0)); g.State != devices.StateGone {
					t.Errorf("the one that made room: %+v", g)
				}
			})
		})
	}
}

// P10: a user registers one start token more than there may be, again and again, so that the guard of each is always open. What a
// registration has left in the outbox is done all the same once the guards of that registration are written.
func TestP10_RegisteringInTurnLeavesNoRows(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		put := func(from, to int) {
			t.Helper()
			for n := from; n < to; n++ {
				_, _, err := w.store.PutActivity(t.Context(), "alice", token(n%(api.MaxActivities+1)), starting("Match"))
				storetest.Must(t, err)
			}
		}
		page := func(kind string) (rows []record.OutboxRow) {
			t.Helper()
			found, err := w.rec.OutboxPage(t.Context(), kind, 0, record.OpenRow{}, 1000)
			storetest.Must(t, err)
			for _, r := range found {
				rows = append(rows, r.OutboxRow)
			}
			return rows
		}
		const turn = api.MaxActivities + 1
		put(0, 2*turn)
		settings, guards := page(record.KindSettings), page(record.KindGuard)
		put(2*turn, 4*turn)
		for _, part := range []struct {
			kind string
			rows []record.OutboxRow
		}{{record.KindGuard, guards}, {record.KindSettings, settings}} {
			done, err := w.store.Outbox()[part.kind](t.Context(), part.rows)
			if storetest.Must(t, err); len(done) != len(part.rows) {
				t.Errorf("%d of %d rows of %s are done", len(done), len(part.rows), part.kind)
			}
			storetest.Must(t, w.rec.DeleteOutbox(t.Context(), done...))
		}
		rest := page(record.KindSettings)
		if done, err := w.store.Outbox()[record.KindSettings](t.Context(), rest); err != nil || slices.ContainsFunc(rest, func(r record.OutboxRow) bool {
			return len(r.Gone()) > 0 && slices.Contains(done, r.ID)
		}) {
			t.Errorf("rows are done before their guards: %v", err)
		}
	})
}

// P4: what made room is registered again before the repeat, and Redis has lost its guard: it is the user's.
func TestP4_WhatMadeRoomComesBack(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		mustMakeRoom(t, w)
		_, _, err := w.store.PutActivity(t.Context(), "alice", token(0), starting("Match")) // token(1) makes room
		storetest.Must(t, err)
		keys, err := w.db.Client().Keys(t.Context(), "ff:{q:notifications:*"+devices.GuardName(token(0))).Result()
		storetest.Must(t, err)
		storetest.Must(t, w.db.Client().Del(t.Context(), keys...).Err())
		_, _, err = w.store.PutActivity(t.Context(), "alice", token(99), starting("Match"))
		storetest.Must(t, err)
		if g := mustGuard(t, w, token(0)); !g.Reaches("alice") {
			t.Errorf("the one that is back: %+v", g)
		}
		if g := mustGuard(t, w, token(1)); g.State != devices.StateGone {
			t.Errorf("the one that made room for it: %+v", g)
		}
	})
}

// P4: a user removes an activity that has ended, whose row is gone: what waits does not go to it.
func TestP4_RemovingAnActivityThatHasEnded(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *world) {
		mustActivity(t, w.store, "alice", token(1))
		_, err := w.rec.DeleteActivities(t.Context(), "alice", []string{token(1)})
		storetest.Must(t, err)
		for _, kind := range []string{record.KindSettings, record.KindGuard} { // nobody is told of a row that is purged
			rows, err := w.rec.OutboxPage(t.Context(), kind, 0, record.OpenRow{}, 100)
			storetest.Must(t, err)
			for _, r := range rows {
				storetest.Must(t, w.rec.DeleteOutbox(t.Context(), r.ID))
			}
		}
		if !mustGuard(t, w, token(1)).Reaches("alice") {
			t.Fatal("its guard knows already")
		}
		storetest.Must(t, w.store.DeleteActivity(t.Context(), "alice", token(1), ""))
		if g := mustGuard(t, w, token(1)); g.State != devices.StateGone {
			t.Errorf("%+v", g)
		}
	})
}
