package api_test

import (
	"strings"
	"testing"

	"fanfare/api"
)

// W1: the form of a token tells its platform, and devices of APNs and FCM can register.
func TestW1_TheFormOfATokenTellsItsPlatform(t *testing.T) {
	t.Parallel()
	hex, hash := strings.Repeat("aB", 32), strings.Repeat("aB_-0", 9)[:43]
	for _, row := range []struct {
		token    string
		platform api.Platform
	}{
		{hex, api.PlatformAPNs},
		{strings.Repeat("9f", 100), api.PlatformAPNs},
		{hex[:62], api.PlatformFCM},
		{hex + "a", api.PlatformFCM},
		{strings.Repeat("9f", 101), api.PlatformFCM},
		{hex[:63] + "g", api.PlatformFCM},
		{"wp." + hash, api.PlatformWebPush},
		{"wp." + hash[1:], api.PlatformFCM},
		{"wp." + hash + "a", api.PlatformFCM},
		{"wp." + hash[1:] + ":", api.PlatformFCM},
		{"WP." + hash, api.PlatformFCM},
		{"c:_.-" + hash, api.PlatformFCM},
		{hash[:20], api.PlatformFCM},
		{hash[:19], ""},
		{strings.Repeat("z", 512), api.PlatformFCM},
		{strings.Repeat("z", 513), ""},
		{hex[:63] + "/", ""},
		{hex[:63] + "ü", ""},
		{hex[:62] + " ", ""},
		{"", ""},
	} {
		token, platform := api.ParseToken(row.token)
		want := row.token
		switch row.platform {
		case "":
			want = ""
		case api.PlatformAPNs:
			want = strings.ToLower(want)
		}
		if token != want || platform != row.platform {
			t.Errorf("%q is %q of %q, want %q", row.token, token, platform, row.platform)
		}
		if again, same := api.ParseToken(token); platform != "" && (again != token || same != platform) {
			t.Errorf("%q is read again as %q of %q", token, again, same)
		}
		if normal, ok := api.NormalToken(row.token); ok != (row.platform != "") || ok && normal != want {
			t.Errorf("%q registers as %q: %v", row.token, normal, ok)
		}
	}
}
