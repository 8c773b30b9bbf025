package events

import (
	"encoding/json"
	"reflect"
	"testing"

	"fanfare/store/events/render"
)

// FuzzJob reads events and their reports as they stand in the queue. What is read is
// written the same.
func FuzzJob(f *testing.F) {
	for _, seed := range []string{"", "Q", "Dphoto", "Tphoto 1 2 3 4 5 6", "Tphoto 1 2 3 4 5 6 7 8 9 10 11 12", "T x", "T 9223372036854775808", "0 0=",
		string((&Job{Type: "a", Push: render.Push{Payload: json.RawMessage(`{"aps":{}}`), Expiration: new(int64)}}).Encode()),
		string((&Job{Type: "a", Audience: Audience{Users: []string{"bob"}}, Sent: Sent{Why: map[string]int64{"x": 1}}}).Encode()), "\xa0", "\xa1dpush\xf6", "\x80", `{}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if text != "" { // which is no report
			if p, err := parseProgress(text); err == nil {
				again, err := parseProgress(p.text())
				p.each = "" // outcomes that were read are not written again
				if again.subjects == "" {
					p.subjects = "" // the text had no room
				}
				if err != nil || !reflect.DeepEqual(again, p) {
					t.Fatalf("%q is %+v, and read again %+v, %v", text, p, again, err)
				}
			}
		}
		j, err := DecodeJob([]byte(text))
		if err != nil {
			return
		}
		written := j.Encode()
		again, err := DecodeJob(written)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", text, written, err)
		}
		once := again.Encode()
		if string(once) != string(written) || !reflect.DeepEqual(again.Push.Expiration, j.Push.Expiration) {
			t.Fatalf("%q is written as %q, and then as %q", text, written, once)
		}
		_ = SplitPage(text)
	})
}
