package apns

import (
	"testing"
	"time"

	"fanfare/delivery/exchange"
)

// FuzzAnswer reads arbitrary answers of a push service or of a proxy in front of it.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{"", `{"reason":"BadDeviceToken"}`, `{"reason":"Unregistered","timestamp":1700000000000}`, `{"reason":"x y"}`, `{"timestamp":-1}`, `{"reason":1}`, "<html>", "120",
		"-1", "99999999999999999999", "Wed, 21 Oct 2037 07:28:00 GMT", "1e3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reason, at := parseAnswer([]byte(text))
		if !validReason(reason) || reason == "" && !at.IsZero() && text == "" || !at.IsZero() && at.UnixMilli() <= 0 {
			t.Fatalf("%q is %q at %v", text, reason, at)
		}
		if wait := exchange.RetryAfter(text, text, time.Now()); wait < 0 || wait > time.Hour {
			t.Fatalf("%q waits %v", text, wait)
		}
	})
}
