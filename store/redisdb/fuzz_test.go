package redisdb

import (
	"strings"
	"testing"
)

// FuzzURL: a URL is taken or refused, and a refusal never shows its password, escaped or
// not.
func FuzzURL(f *testing.F) {
	const secret = "Hunter2"
	for _, rest := range []string{"", "embedded", "127.0.0.1", "h:1/2?x=1", "a:1,b:2/m/3", "[::1]:7000", "h:99999", "@", "%zz@h", "h/9223372036854775808", "h/x", "h?" + secret} {
		for _, beside := range []string{"", "/", "?", "#", "1/", "1?", "@", ":", ",", "%", "%2F", "\x00"} {
			f.Add(rest, beside, beside)
		}
	}
	f.Fuzz(func(t *testing.T, rest, before, after string) {
		password := before + secret + after
		for scheme := range schemes {
			for _, raw := range []string{scheme + "://" + rest, scheme + "://u:" + password + "@" + rest, scheme + "://:" + password + "@h:1/" + rest} {
				if err := CheckURL(raw); err != nil && strings.Contains(err.Error(), secret) {
					t.Fatalf("%q: %v", raw, err)
				}
			}
		}
	})
}
