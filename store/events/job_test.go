package events

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"fanfare/api"
	"fanfare/store/events/render"
)

// What Encode writes is read as it was, however many of the fields are set, and a dead letter shows each.
func TestEveryFieldOfAJobIsStored(t *testing.T) {
	t.Parallel()
	full := Job{
		Type: "type", Actor: "actor", Object: "object",
		Audience: Audience{Users: []string{"a", "b"}, Pages: 3, ContactsOf: "star", Chat: "chat", Topic: "topic", All: true, Device: &OneDevice{User: "bob", Token: "t"},
			ActivitiesOf: "match:1", Broadcast: "match:2", Channel: &Broadcast{Object: "match:2", Topic: "t", Environment: "sandbox", Channel: "c", Latest: true}},
		Push: render.Push{Payload: json.RawMessage(`{"aps":{"alert":"<&> \u2028"}}`), PushType: "alert", Priority: 10, CollapseID: "ü\"\x01",
			Expiration: new(int64), ExpiresAt: 5, TTL: 6, NoRetryUnknown: true, Topics: []string{"a", "b\""},
			Languages: &render.Languages{Head: 3, Tail: 2, Middle: map[string]string{"de-at": "<&>\" ü", "de": ""}}, FCM: json.RawMessage(`{"a":"<&>"}`), WebPush: json.RawMessage(`{"url":"<&>"}`), LiveData: json.RawMessage(`{"a":1}`), Badge: "add"},
		Live: &Live{Action: "update", AttributesType: "A", Lane: "l", Place: 13, Stamp: 14},
		Of:   "of", Parts: 7, AcceptedAt: 8, SendAt: 11, Cursor: "cursor", Counted: Counts{Recipients: 9, Live: 1}, Missed: []string{"c"}, Sent: Sent{Ends: Ends{Delivered: 10}}, Settled: 12, Opened: true, UnnotedSince: 15, Trace: "trace", Lacks: []Share{{App: "app", N: 16}},
	}
	mustHaveNoZero(t, reflect.ValueOf(full), map[string]bool{"Counts": true, "Sent": true})
	check := func(t rapid.TB, j *Job) {
		again, err := DecodeJob(j.Encode())
		if err != nil || !reflect.DeepEqual(again, j) {
			t.Fatalf("%+v\nis read as %+v, %v", j, again, err)
		}
		want, err := json.Marshal(j)
		if shown := ShowJob("", j.Encode()); err != nil || string(shown) != string(want) {
			t.Fatalf("shown as %s\nwant %s", shown, want)
		}
	}
	check(t, &full)
	rapid.Check(t, func(t *rapid.T) {
		j := full
		j.Type = rapid.String().Draw(t, "type")
		fields := []any{&j.Actor, &j.Object, &j.Audience.Users, &j.Audience.Pages, &j.Audience.ContactsOf, &j.Audience.Chat, &j.Audience.Topic, &j.Audience.All, &j.Audience.Device,
			&j.Audience.ActivitiesOf, &j.Audience.Broadcast, &j.Audience.Channel, &j.Live, &j.Push.LiveData, &j.Push.Payload,
			&j.Push.PushType, &j.Push.Priority, &j.Push.CollapseID, &j.Push.Expiration, &j.Push.ExpiresAt, &j.Push.TTL, &j.Push.NoRetryUnknown, &j.Push.Languages, &j.Push.FCM, &j.Push.WebPush, &j.Push.Topics, &j.Push.Badge,
			&j.Of, &j.Parts, &j.AcceptedAt, &j.SendAt, &j.Cursor, &j.Counted, &j.Missed, &j.Sent, &j.Settled, &j.Opened, &j.UnnotedSince, &j.Trace, &j.Lacks}
		for _, f := range fields {
			if rapid.Bool().Draw(t, "empty") {
				reflect.ValueOf(f).Elem().SetZero()
			}
		}
		check(t, &j)
	})
}

// mustHaveNoZero finds a field that was forgotten, but in those structs.
func mustHaveNoZero(t *testing.T, v reflect.Value, but map[string]bool) {
	t.Helper()
	for i := range v.NumField() {
		f := v.Field(i)
		if !v.Type().Field(i).IsExported() {
			continue
		}
		if f.IsZero() {
			t.Errorf("%s.%s is not tried", v.Type().Name(), v.Type().Field(i).Name)
		}
		if f.Kind() == reflect.Struct && !but[f.Type().Name()] {
			mustHaveNoZero(t, f, but)
		}
	}
}

func BenchmarkJob(b *testing.B) {
	j := &Job{Type: "greeting", Audience: Audience{Users: []string{"user-1"}}, AcceptedAt: 1_700_000_000_000,
		Push: render.Push{Payload: json.RawMessage(`{"aps":{"alert":{"title":"Hello","body":"from the benchmark"}},"event_id":"00000000000000000000000000000000","type":"greeting"}`),
			PushType: api.PushAlert, Priority: 10, CollapseID: "00000000000000000000000000000000"}}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			_ = j.Encode()
		}
	})
	text := j.Encode()
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodeJob(text); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// N21: a failure of an erased user's device has nothing of its token.
func TestN21_AnErasedUsersFailureHasNoToken(t *testing.T) {
	t.Parallel()
	for user, token := range map[string]string{"bob": "abcdef01", api.ErasedUser: ""} {
		var line struct {
			Token string `json:"t"`
		}
		if err := json.Unmarshal([]byte(Failed{User: user, Token: "abcdef01"}.Line()), &line); err != nil || line.Token != token {
			t.Errorf("%s: %q, %v", user, line.Token, err)
		}
	}
}
