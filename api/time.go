package api

import (
	"fmt"
	"strings"
	"time"
)

// Time is a time in the form of the HTTP contract: RFC 3339, UTC, milliseconds.
type Time struct{ time.Time }

const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// At makes a Time from t, truncated to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// AtMillis makes a Time from milliseconds since the Unix epoch.
func AtMillis(ms int64) Time { return Time{time.UnixMilli(ms).UTC()} }

// MarshalJSON writes RFC 3339 in UTC with milliseconds.
func (t Time) MarshalJSON() ([]byte, error) {
	text := append(make([]byte, 0, len(timeFormat)+2), '"')
	return append(t.UTC().AppendFormat(text, timeFormat), '"'), nil
}

// UnmarshalJSON reads any RFC 3339 time, of any zone and precision, whose year also has four
// digits in UTC: any other time could not be written again.
func (t *Time) UnmarshalJSON(b []byte) error {
	s, ok := strings.CutPrefix(string(b), `"`)
	if !ok {
		return fmt.Errorf("a time is an RFC 3339 string")
	}
	parsed, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(s, `"`))
	if err != nil {
		return fmt.Errorf("a time is an RFC 3339 string such as 2026-01-02T15:04:05.000Z")
	}
	if year := parsed.UTC().Year(); year < 0 || year > 9999 {
		return fmt.Errorf("a time is in the years 0000 to 9999, in UTC")
	}
	*t = At(parsed)
	return nil
}
