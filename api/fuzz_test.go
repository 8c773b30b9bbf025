package api

import (
	"testing"
	"time"
)

// FuzzTime: what is read as a time is written so that it can be read again.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{`"2026-01-02T15:04:05.000Z"`, `"2026-01-02T15:04:05.123456789+14:00"`, `"1970-01-01T00:00:00+00:01"`, `"2026-01-02T15:04:05\u002b01:00"`,
		`"9999-12-31T23:59:59-23:59"`, `null`, `"`, `""`, `1`, `"2026-02-30T00:00:00Z"`, `"2026-01-02T15:04:60Z"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, again Time
		if first.UnmarshalJSON(text) != nil {
			return
		}
		written, err := first.MarshalJSON()
		if err != nil || again.UnmarshalJSON(written) != nil || !first.Equal(again.Time) {
			t.Fatalf("%s is written as %s, and read as %v, not %v", text, written, again, first)
		}
		if _, err := time.Parse(time.RFC3339, string(written[1:len(written)-1])); err != nil {
			t.Fatalf("%s is written as %s: %v", text, written, err)
		}
	})
}
