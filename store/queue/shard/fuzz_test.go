package shard

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// FuzzEntry reads what may stand in a shard. What is read is written the same.
func FuzzEntry(f *testing.F) {
	for _, seed := range [][]byte{
		(&Entry{Job: Job{ID: "a", Payload: []byte("x")}}).text(), (&Entry{past: past{report: true}, Job: Job{ID: "a"}}).text(),
		(&Entry{past: past{named: "n", fence: 7, failures: 2, since: 1}, Job: Job{ID: "a", Type: "t", Key: "k", Unique: "u", Group: "g", Guard: "w"}}).text(),
		nil, {0}, []byte("x"), []byte("{\"a\":1,\"b\":\"c\"}"), bytes.Repeat([]byte{separator}, 20),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := parseEntry(text); err == nil && e.since >= 0 && !strings.ContainsRune(e.Job.ID, separator) &&
			(e.named != "" || e.Job.Key == "" && e.Job.Unique == "") { // a job with either is named
			again, err := parseEntry(e.text())
			if err != nil || !reflect.DeepEqual(e, again) {
				t.Fatalf("%q is %+v, and read again %+v, %v", text, e, again, err)
			}
		}
	})
}
