package delivery

import (
	"encoding/json"
	"reflect"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

// FuzzMessage reads notifications in the form of the queue. A readable message has the same meaning
// when it is written again.
func FuzzMessage(f *testing.F) {
	whole := &message{Token: "abcd", User: "bob", Topic: "t", Environment: api.EnvSandbox, Event: "event", Suspect: true, Refused: "no", RefusedSaid: "no!",
		Push: render.Push{Payload: json.RawMessage(`{"event_id":"event"}`), CollapseID: "event", PushType: api.PushAlert, Priority: 5}}
	other := *whole
	other.Token, other.Environment = "wp.abcd", ""
	browser := other
	browser.Target = "https://a.b/x p a"
	for _, seed := range []string{string(whole.encode()), string(whole.marked()), string(other.encode()), string(browser.encode()), "", "\xa0", "\xa0\xa0", "\xa1\x01\x41\xab\xa1\x09\x42{}", `{"token":"a"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decodeMessage("event", text)
		if err != nil || m.Refused == "" && m.RefusedSaid != "" { // no such message is ever written
			return
		}
		again, err := decodeMessage("event", m.encode())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%+v is written as %+v, %v", m, again, err)
		}
		marked, err := decodeMessage("event", m.marked())
		if m.Retrying = true; err != nil || !reflect.DeepEqual(m, marked) {
			t.Fatalf("%+v is marked as %+v, %v", m, marked, err)
		}
	})
}
