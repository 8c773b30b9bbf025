package api

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-01-02T15:04:05Z":                 "2026-01-02T15:04:05.000Z",
		"2026-01-02t15:04:05z":                 "2026-01-02T15:04:05.000Z",
		"2026-01-02T15:04:05.1239Z":            "2026-01-02T15:04:05.123Z",
		"2026-01-02T15:04:05.0123456789+23:59": "2026-01-01T15:05:05.012Z",
		"2026-01-02T15:04:05-00:00":            "2026-01-02T15:04:05.000Z",
		"2016-12-31T23:59:60Z":                 "2017-01-01T00:00:00.000Z",
		"2016-12-31T15:59:60.25-08:00":         "2017-01-01T00:00:00.250Z",
		"1970-01-01T00:00:00Z":                 "1970-01-01T00:00:00.000Z",
		"1969-12-31T23:00:00-01:00":            "1970-01-01T00:00:00.000Z",
		"9999-12-31T23:59:59.999999999Z":       "9999-12-31T23:59:59.999Z",
	} {
		at, err := ParseTime(text)
		written, _ := at.MarshalJSON()
		if err != nil || string(written) != `"`+want+`"` {
			t.Errorf("%s is read as %s, %v; want %s", text, written, err, want)
		}
	}
	for _, text := range []string{
		"", "Z", "now", "2026-01-02", "2026-01-02T15:04:05", "2026-01-02 15:04:05Z", "2026-01-02T15:04Z", "2026-01-02T5:04:05Z", "2026-01-02T15:04:05,5Z",
		"2026-01-02T15:04:05.Z", "2026-01-02T15:04:05+24:00", "2026-01-02T15:04:05-24:00", "2026-01-02T15:04:05+01:60", "2026-01-02T15:04:05+1:00",
		"2026-01-02T15:04:05+0100", "2026-01-02T24:00:00Z", "2026-01-02T15:60:00Z", "2026-01-02T15:04:61Z", "2026-02-29T00:00:00Z", "2026-00-01T00:00:00Z",
		"20260-01-02T15:04:05Z", "-001-01-02T15:04:05Z", "+2026-01-02T15:04:05Z", " 2026-01-02T15:04:05Z", "2026-01-02T5:04:60Z", "2026-01-02T15:04:60",
	} {
		if at, err := ParseTime(text); err == nil || errors.Is(err, ErrTimeRange) {
			t.Errorf("%q is read as %v, %v", text, at, err)
		}
	}
	for _, text := range []string{
		"0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01",
		"9999-12-31T23:59:59-00:01", "9999-12-31T23:59:60Z",
	} {
		if at, err := ParseTime(text); !errors.Is(err, ErrTimeRange) {
			t.Errorf("%q is read as %v, %v", text, at, err)
		}
	}
}

// Every year that is taken is written as it was read.
func TestEveryYear(t *testing.T) {
	t.Parallel()
	for year := range 10_000 {
		text := fmt.Sprintf(`"%04d-07-08T09:10:11.123Z"`, year)
		var at Time
		err := at.UnmarshalJSON([]byte(text))
		if taken := year >= 1970; taken != (err == nil) {
			t.Fatalf("%s: %v", text, err)
		}
		if written, _ := at.MarshalJSON(); err == nil && string(written) != text || err == nil && AtMillis(at.UnixMilli()) != at {
			t.Fatalf("%s is written as %s", text, written)
		}
	}
}

// A string is the same string however it is escaped (RFC 8259, 8.3).
func TestEscapesInATime(t *testing.T) {
	t.Parallel()
	want := time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, text := range []string{`"2126-01-01T01:00:00\u002B01:00"`, `"\u0032126-01-01T01:00:00+01\u003a00"`, `"2126-01-01\u007400:00:00Z"`} {
		var at Time
		if err := at.UnmarshalJSON([]byte(text)); err != nil || !at.Equal(want) {
			t.Errorf("%s is read as %v, %v", text, at, err)
		}
	}
	for _, text := range []string{`null`, `1`, ``, `"`, `""`, `"2126-01-01T00:00:00Z\n"`, `2126-01-01T00:00:00Z`, `"2126-01-01T00:00:00Z`, `"\u00zz"`} {
		if err := new(Time).UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is taken for a time", text)
		}
	}
}
