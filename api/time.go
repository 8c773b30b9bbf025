package api

import (
	"errors"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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

// UnmarshalJSON reads a time as ParseTime does, from a JSON string that may have escapes.
func (t *Time) UnmarshalJSON(b []byte) error {
	text, err := jsontext.AppendUnquote(nil, b)
	if err != nil || len(b) == 0 || b[0] != '"' {
		return errNotTime
	}
	*t, err = ParseTime(string(text))
	return err
}

// ErrTimeRange is the error of ParseTime for a time outside the years that fanfare takes.
var ErrTimeRange = errors.New("must be in the years 1970 to 9999, in UTC")

var errNotTime = errors.New("must be an RFC 3339 time such as 2026-01-02T15:04:05.000Z")

// ParseTime reads any RFC 3339 time of the years 1970 to 9999 in UTC, of any zone and precision. It is
// the only reader of times that callers write, and is stricter than time.Parse (https://go.dev/issue/54580).
func ParseTime(text string) (Time, error) {
	text = strings.ToUpper(text) // RFC 3339, 5.6: t and z may be lower case
	const second = len("2006-01-02T15:04:")
	leap := len(text) > second+2 && text[second:second+2] == "60" // RFC 3339, 5.7: a leap second
	if leap {
		text = text[:second] + "59" + text[second+2:]
	}
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || text[second-1] != ':' || strings.Contains(text, ",") || !validZone(text) {
		return Time{}, errNotTime
	}
	if leap {
		parsed = parsed.Add(time.Second)
	}
	if year := parsed.UTC().Year(); year < 1970 || year > 9999 {
		return Time{}, ErrTimeRange
	}
	return At(parsed), nil
}

// validZone reports whether the offset from UTC is below 24 hours and has less than 60 minutes.
func validZone(text string) bool {
	hours, minutes, ok := strings.Cut(text[len(text)-len("07:00"):], ":")
	return strings.HasSuffix(text, "Z") || ok && hours < "24" && minutes < "60"
}
