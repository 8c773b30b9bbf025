package events

import (
	"reflect"
	"testing"
)

// FuzzJob reads events and their reports as they stand in the queue. What is read is
// written the same.
func FuzzJob(f *testing.F) {
	for _, seed := range []string{"", "Q", "Dphoto", "Tphoto 1 2 3 4 5 6", "Tphoto 1 2 3 4 5 6 7 8 9 10 11 12", "T x", "T 9223372036854775808", "0 0=", `{"type":"a","push":{"payload":{"aps":{}}}}`,
		`{"type":"a","users":["bob"]}`, `{"push":null}`, `{"push":{"payload":1}}`, `[]`} {
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
		written, err := j.Encode()
		if err != nil {
			return // a payload that cannot be written was not written by us
		}
		again, err := DecodeJob(written)
		if err != nil {
			t.Fatalf("%q is written as %s: %v", text, written, err)
		}
		once, err := again.Encode()
		if err != nil || string(once) != string(written) || !reflect.DeepEqual(again.Push.Expiration, j.Push.Expiration) {
			t.Fatalf("%q is written as %s, and then as %s, %v", text, written, once, err)
		}
		_ = SplitPage(text)
	})
}
