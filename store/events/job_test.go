package events

import (
	"encoding/json"
	"reflect"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

// A job is read from the queue as it was written, its payload byte for byte.
func TestEncodeKeepsEveryField(t *testing.T) {
	t.Parallel()
	j := &Job{
		Type: "type", Actor: "actor", Object: "object",
		Audience: Audience{Users: []string{"a", "b"}, Pages: 3, ContactsOf: "star", Chat: "chat"},
		Push: render.Push{Payload: json.RawMessage(`{"aps":{"alert":"<&> \u2028"}}`), PushType: "alert", Priority: 10, CollapseID: "ü\"\x01",
			Expiration: new(int64), ExpiresAt: 5, TTL: 6, NoRetryUnknown: true},
		Of: "of", Parts: 7, AcceptedAt: 8, Cursor: "cursor", Counted: Counts{Recipients: 9, Live: 1}, Missed: []string{"c"}, Sent: Sent{Delivered: 10},
	}
	text, err := j.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := DecodeJob(text)
	if err != nil || !reflect.DeepEqual(again, j) {
		t.Errorf("%s is read as %+v, %v", text, again, err)
	}
}

func BenchmarkEncode(b *testing.B) {
	j := &Job{Type: "greeting", Audience: Audience{Users: []string{"user-1"}}, AcceptedAt: 1_700_000_000_000,
		Push: render.Push{Payload: json.RawMessage(`{"aps":{"alert":{"title":"Hello","body":"from the benchmark"}},"event_id":"00000000000000000000000000000000","type":"greeting"}`),
			PushType: api.PushAlert, Priority: 10, CollapseID: "00000000000000000000000000000000"}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = j.Encode()
	}
}
