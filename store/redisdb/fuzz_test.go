package redisdb

import (
	"strings"
	"testing"
)

// FuzzURL: a URL is taken or refused, and a refusal never shows its password.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"", "embedded", "redis://127.0.0.1", "redis://u:p@h:1/2?x=1", "rediss+sentinel://a:1,b:2/m/3", "redis+cluster://[::1]:7000", "redis://h:99999", "redis://@", "redis://%zz@h", "x://", "redis://h/9223372036854775808"} {
		f.Add(seed, "hunter2")
	}
	f.Fuzz(func(t *testing.T, rest, password string) {
		_ = CheckURL(rest)
		if len(password) < 4 || strings.ContainsAny(password, "@/?:,% ") || strings.Contains("redis rediss sentinel cluster host port user password badly escaped malformed missing", password) {
			return
		}
		for _, raw := range []string{"redis://u:" + password + "@" + rest, "redis+sentinel://:" + password + "@h:1/" + rest} {
			if err := CheckURL(raw); err != nil && !strings.Contains(rest, password) && strings.Contains(err.Error(), password) {
				t.Fatalf("%q: %v", raw, err)
			}
		}
	})
}
