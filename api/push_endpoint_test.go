package api

import (
	"strings"
	"testing"
)

// W15: an endpoint is a URL of a host that has a name.
func TestW15_EndpointsHaveHostNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://fcm.googleapis.com/fcm/send/a:b?c=d":                 "fcm.googleapis.com /fcm/send/a:b?c=d",
		"https://Updates.Push.Services.Mozilla.com:443/wpush/v2/gAAA": "updates.push.services.mozilla.com /wpush/v2/gAAA",
		"https://a1.example": "a1.example /",
		"https://1.2.3.a":    "1.2.3.a /",
	} {
		if host, path, ok := ParseEndpoint(text); !ok || host+" "+path != want {
			t.Errorf("%s: %q %q %v", text, host, path, ok)
		}
	}
	for _, text := range []string{
		"", "http://a.example/", "wss://a.example/", "//a.example/", "https:a.example", "https:///x", "https://a.example:8443/", "https://a.example:/", "https://a.example:80/",
		"https://u@a.example/", "https://u:p@a.example/", "https://a.example/#f", "https://a.example/a b", "https://a.example/a|b", "https://a.example/\x00", "https://a.example/é",
		"https://localhost/", "https://a/", "https://a.example./", "https://.example/", "https://a..example/", "https://-a.example/", "https://a_b.example/", "https://%61.example/",
		"https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://0177.0.0.1/", "https://a.0x7f/", "https://a.0x/", "https://a.08/", "https://a.1/",
		"https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1%25lo]/", "https://a.example/" + strings.Repeat("a", MaxEndpoint),
	} {
		if host, path, ok := ParseEndpoint(text); ok {
			t.Errorf("%s is taken as %q %q", text, host, path)
		}
	}
}

// W15, W4: a host belongs to the entry of the list that has it.
func TestW15_TheListOfOrigins(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"fcm.googleapis.com": "fcm.googleapis.com", "a.fcm.googleapis.com": "", "updates.push.services.mozilla.com": "*.push.services.mozilla.com",
		"push.services.mozilla.com": "", "evilpush.services.mozilla.com": "", "web.push.apple.com": "*.push.apple.com", "web.push.apple.com.a.example": "",
	} {
		origin, listed := KnownPushOrigins.Of(host)
		if listed != (want != "") || listed && origin != want || !listed && origin != OtherOrigin {
			t.Errorf("%s: %q %v", host, origin, listed)
		}
	}
	// APNs itself is below the domain of Apple's push service for browsers, and is none.
	for _, host := range []string{"api.push.apple.com", "api.sandbox.push.apple.com", "api.development.push.apple.com"} {
		for _, list := range []PushOrigins{KnownPushOrigins, {"*"}, {host}, {"*.sandbox.push.apple.com", "*.push.apple.com"}} {
			if origin, listed := list.Of(host); listed || origin != OtherOrigin {
				t.Errorf("%s: %q %v by %v", host, origin, listed, list)
			}
		}
	}
	if origin, listed := append(PushOrigins{"*"}, KnownPushOrigins...).Of("a.example"); !listed || origin != OtherOrigin {
		t.Errorf("%q %v", origin, listed)
	}
	if origin, _ := append(PushOrigins{"*"}, KnownPushOrigins...).Of("fcm.googleapis.com"); origin != "fcm.googleapis.com" {
		t.Errorf("%q", origin)
	}
}

// W2: the target has the endpoint and both keys; the token is made from the endpoint alone.
func TestW2_Targets(t *testing.T) {
	t.Parallel()
	s := Subscription{Endpoint: "https://a.example/x", Keys: SubscriptionKeys{P256dh: "pp==", Auth: "aa="}}
	back, ok := ParseTarget(s.Target())
	if !ok || back.Endpoint != s.Endpoint || back.Keys != (SubscriptionKeys{P256dh: "pp", Auth: "aa"}) {
		t.Errorf("%+v %v", back, ok)
	}
	for _, text := range []string{"", "a b", "a b c d"} {
		if _, ok := ParseTarget(text); ok {
			t.Errorf("%q is taken", text)
		}
	}
	if token, p := ParseToken(TokenOfEndpoint(s.Endpoint)); p != PlatformWebPush || token != "wp.OQITBr-jSBGv0yQfL7PDqoX_t1qiHHvUpqCr7w5rO70" {
		t.Errorf("%q %q", token, p)
	}
}
