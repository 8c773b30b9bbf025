package queue

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"fanfare/api"
)

// FuzzEntry reads what may stand in a shard, and what callers send back of it: ids and
// cursors. What is read is written the same.
func FuzzEntry(f *testing.F) {
	for _, seed := range [][]byte{
		(&entry{job: Job{ID: "a", Payload: []byte("x")}}).text(), (&entry{report: true, job: Job{ID: "a"}}).text(),
		(&entry{named: "n", fence: 7, failures: 2, since: 1, job: Job{ID: "a", Type: "t", Key: "k", Unique: "u", Group: "g", Guard: "w"}}).text(),
		nil, {0}, []byte("x"), []byte("{\"a\":1,\"b\":\"c\"}"), []byte("1-2-3"), []byte("01-2-3"), []byte("-1-2-3"), []byte("9223372036854775808-0-0"),
		bytes.Repeat([]byte{separator}, 20), []byte("0qqhn9zzzzzzzzzzzzzzzzzzzzzzzzzz"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := parseEntry(text); err == nil && e.since >= 0 && !strings.ContainsRune(e.job.ID, separator) &&
			(e.named != "" || e.job.Key == "" && e.job.Unique == "") { // a job with either is named
			again, err := parseEntry(e.text())
			if err != nil || !reflect.DeepEqual(e, again) {
				t.Fatalf("%q is %+v, and read again %+v, %v", text, e, again, err)
			}
		}
		if p, err := parseDeadCursor(string(text)); err == nil && len(text) > 0 && p.String() != string(text) {
			t.Fatalf("the cursor %q is %v", text, p)
		} else if err != nil && api.CodeOf(err) != api.CodeValidation {
			t.Fatalf("the cursor %q: %v", text, err)
		}
		if shard, ok := ParseID(string(text)); ok && (shard < 0 || shard > 255 || len(text) != newIDLength) {
			t.Fatalf("the id %q is of shard %d", text, shard)
		}
		_ = DeriveID(string(text), make([]byte, 16), 1000)
	})
}
