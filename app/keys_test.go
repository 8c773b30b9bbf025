package app

import (
	"testing"
	"time"
)

func TestParseExpiry(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"90d": "2027-02-20T15:00:00Z", "12h": "2026-11-23T03:00:00Z", "2027-01-31": "2027-02-01T00:00:00Z",
		"2026-11-22": "2026-11-23T00:00:00Z", "2027-01-31T12:00:00+02:00": "2027-01-31T10:00:00Z",
	} {
		at, err := parseExpiry(text, now)
		if err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", text, at, err, want)
		}
	}
	if at, err := parseExpiry("", now); at != nil || err != nil {
		t.Errorf("%v %v", at, err)
	}
	for _, text := range []string{"0d", "-3d", "d", "12", "never", "2026-11-21", "-1h", "2026-11-22T15:00:00Z", "2027-13-01"} {
		if at, err := parseExpiry(text, now); err == nil {
			t.Errorf("%s: %v", text, at)
		}
	}
}
