package record_test

import (
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/record"
	"fanfare/store/storetest"
)

// broadcastOf is a request for a broadcast that ends in an hour.
func broadcastOf(change ...func(*api.BroadcastRequest)) *api.BroadcastRequest {
	r := &api.BroadcastRequest{Topic: "com.example.app", Environment: api.EnvProduction, Keep: api.KeepNone, EndsAt: new(api.At(time.Now().Add(time.Hour)))}
	for _, f := range change {
		f(r)
	}
	return r
}

func mustBeginBroadcast(t testing.TB, db *record.DB, object string, r *api.BroadcastRequest) (*record.Broadcast, bool) {
	t.Helper()
	b, fresh, err := db.BeginBroadcast(t.Context(), object, r)
	storetest.Must(t, err)
	return b, fresh
}

func mustOpenBroadcast(t testing.TB, db *record.DB, b *record.Broadcast, channel string, want bool) {
	t.Helper()
	if done, err := db.OpenBroadcast(t.Context(), b, channel); err != nil || done != want {
		t.Fatalf("open %s: %v %v", b.Object, done, err)
	}
}

func mustBroadcastVersion(t testing.TB, db *record.DB) int64 {
	t.Helper()
	v, err := db.Version(t.Context(), record.VersionBroadcasts)
	storetest.Must(t, err)
	return v
}

func TestBroadcasts(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		first, fresh := mustBeginBroadcast(t, db, "match:1", broadcastOf())
		if !fresh || first.State != "making" || first.Channel != "" || first.AskedAt == 0 || first.CreatedAt == 0 {
			t.Fatalf("got %+v", first)
		}
		again, fresh := mustBeginBroadcast(t, db, "match:1", broadcastOf(func(r *api.BroadcastRequest) { r.Keep = api.KeepLatest }))
		if fresh || again.AskedAt <= first.AskedAt || again.Keep != "latest" || again.CreatedAt != first.CreatedAt {
			t.Fatalf("asked again it is %+v", again)
		}
		mustOpenBroadcast(t, db, first, "lost", false)
		storetest.Must(t, db.ForgetBroadcast(t.Context(), first))
		mustOpenBroadcast(t, db, again, "c1", true)
		storetest.Must(t, db.ForgetBroadcast(t.Context(), again)) // it has a channel by now
		before := mustBroadcastVersion(t, db)
		same := broadcastOf(func(r *api.BroadcastRequest) { r.Keep, r.EndsAt = api.KeepLatest, new(api.AtMillis(again.EndsAt)) })
		if b, _ := mustBeginBroadcast(t, db, "match:1", same); b.State != "open" || b.Channel != "c1" || mustBroadcastVersion(t, db) != before {
			t.Fatalf("the same again is %+v, version %d after %d", b, mustBroadcastVersion(t, db), before)
		}
		later := broadcastOf(func(r *api.BroadcastRequest) {
			r.Keep, r.EndsAt = api.KeepLatest, new(api.At(time.Now().Add(2*time.Hour)))
		})
		if b, _ := mustBeginBroadcast(t, db, "match:1", later); b.EndsAt != later.EndsAt.UnixMilli() || b.Channel != "c1" || mustBroadcastVersion(t, db) <= before {
			t.Fatalf("with another end it is %+v", b)
		}
		_, _, err := db.BeginBroadcast(t.Context(), "match:1", broadcastOf())
		storetest.WantCode(t, err, api.CodeConflict)
		_, _, err = db.BeginBroadcast(t.Context(), "match:2", broadcastOf(func(r *api.BroadcastRequest) { r.EndsAt = new(api.At(time.Now().Add(-time.Minute))) }))
		storetest.WantCode(t, err, api.CodeValidation)
		if b, err := db.Broadcast(t.Context(), "match:1"); err != nil || b.Channel != "c1" || b.State != "open" {
			t.Fatalf("it is %+v %v", b, err)
		}
		_, err = db.Broadcast(t.Context(), "match:2")
		storetest.WantCode(t, err, api.CodeNotFound)
	})
}

func TestBroadcastsAreLostAndClosed(t *testing.T) {
	t.Parallel()
	eachRecord(t, func(t *testing.T, db *record.DB) {
		for _, object := range []string{"a", "b", "c"} {
			b, _ := mustBeginBroadcast(t, db, object, broadcastOf())
			mustOpenBroadcast(t, db, b, "of-"+object, true)
		}
		for channel, want := range map[string]bool{"another": false, "of-a": true} {
			if lost, err := db.LoseBroadcast(t.Context(), "a", channel); err != nil || lost != want {
				t.Errorf("the loss of %s: %v %v", channel, lost, err)
			}
		}
		made, fresh := mustBeginBroadcast(t, db, "a", broadcastOf(func(r *api.BroadcastRequest) { r.Topic = "com.example.other" }))
		if fresh || made.State != "making" || made.Channel != "" || made.Topic != "com.example.other" {
			t.Fatalf("a lost one becomes %+v", made)
		}
		storetest.Must(t, db.CloseBroadcast(t.Context(), "b"))
		storetest.Must(t, db.CloseBroadcast(t.Context(), "none"))
		if b, _ := mustBeginBroadcast(t, db, "b", broadcastOf()); b.State != "closing" || b.Channel != "of-b" {
			t.Fatalf("a closing one becomes %+v", b)
		}
		if closing, err := db.CloseEnded(t.Context(), "c", time.Hour); err != nil || closing {
			t.Errorf("one that goes on is closed: %v %v", closing, err)
		}
		_, err := db.SQL().ExecContext(t.Context(), "UPDATE broadcasts SET ends_at = ends_at - ? WHERE object = 'c'", 3*time.Hour.Milliseconds())
		storetest.Must(t, err)
		for after, want := range map[string][]string{"": {"b"}, "b": {"c"}, "c": nil} {
			due, err := db.BroadcastsToClose(t.Context(), time.Hour, after, 1)
			storetest.Must(t, err)
			var objects []string
			for _, b := range due {
				objects = append(objects, b.Object)
			}
			if !slices.Equal(objects, want) {
				t.Errorf("behind %q the next that is due is %v", after, objects)
			}
		}
		if closing, err := db.CloseEnded(t.Context(), "c", time.Hour); err != nil || !closing {
			t.Errorf("one that has ended is not closed: %v %v", closing, err)
		}
		b, err := db.Broadcast(t.Context(), "b")
		storetest.Must(t, err)
		other := *b
		other.Channel = "another"
		storetest.Must(t, db.RemoveBroadcast(t.Context(), &other))
		storetest.Must(t, db.RemoveBroadcast(t.Context(), b))
		_, err = db.Broadcast(t.Context(), "b")
		storetest.WantCode(t, err, api.CodeNotFound)
		page, err := db.Broadcasts(t.Context(), "a", 10)
		if err != nil || len(page) != 1 || page[0].Object != "c" {
			t.Errorf("the page is %+v %v", page, err)
		}
		of, now, err := db.BroadcastsOf(t.Context(), "com.example.app", api.EnvProduction)
		if err != nil || len(of) != 1 || time.Since(now).Abs() > time.Minute {
			t.Errorf("the app has %+v at %v: %v", of, now, err)
		}
	})
}
