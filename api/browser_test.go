package api

import (
	"strings"
	"testing"
)

// The keys of RFC 8291's example.
const (
	aPoint = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	anAuth = "BTBZMqHH6r4Tts7J_aSIgg"
)

// W15: each rule of a subscription is told with its field.
func TestW15_BadSubscriptions(t *testing.T) {
	t.Parallel()
	v := NewValidator()
	const endpoint = "https://fcm.googleapis.com/fcm/send/abc"
	for name, row := range map[string]struct{ field, rule, endpoint, point, auth string }{
		"good":                     {"", "", endpoint, aPoint, anAuth},
		"padded":                   {"", "", endpoint, aPoint + "=", anAuth + "=="},
		"nothing":                  {"endpoint", "required", "", aPoint, anAuth},
		"http":                     {"endpoint", "endpoint", "http://fcm.googleapis.com/x", aPoint, anAuth},
		"an address":               {"endpoint", "endpoint", "https://127.1/x", aPoint, anAuth},
		"no point":                 {"keys.p256dh", "required", endpoint, "", anAuth},
		"a point beside the curve": {"keys.p256dh", "p256dh", endpoint, aPoint[:40] + "A" + aPoint[41:], anAuth},
		"a compressed point":       {"keys.p256dh", "p256dh", endpoint, "AyVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcx", anAuth},
		"another alphabet":         {"keys.p256dh", "p256dh", endpoint, strings.ReplaceAll(aPoint, "_", "/"), anAuth},
		"an end of line":           {"keys.p256dh", "p256dh", endpoint, aPoint[:40] + "\n" + aPoint[40:], anAuth},
		"no auth":                  {"keys.auth", "required", endpoint, aPoint, ""},
		"15 bytes":                 {"keys.auth", "auth", endpoint, aPoint, anAuth[:20]},
		"17 bytes":                 {"keys.auth", "auth", endpoint, aPoint, anAuth[:21] + "gA"},
		"bits that do not count":   {"keys.auth", "auth", endpoint, aPoint, anAuth[:21] + "h"},
	} {
		s := Subscription{Endpoint: row.endpoint, Keys: SubscriptionKeys{P256dh: row.point, Auth: row.auth}}
		for at, request := range map[string]any{
			"subscription.": &BrowserRequest{Platform: "webpush", Topic: "shop", Subscription: s},
			"devices[0].subscription.": &DeviceBatchRequest{Devices: []DeviceEntry{
				{User: "bob", Platform: "webpush", Topic: "shop", Subscription: &s},
			}},
		} {
			got := v.Check(request)
			if row.rule == "" && len(got) != 0 || row.rule != "" && (len(got) != 1 || got[0].Field != at+row.field || got[0].Rule != row.rule) {
				t.Errorf("%s: %+v, want %s of %s%s", name, got, row.rule, at, row.field)
			}
		}
	}
}

// W2: an entry of a batch has what its platform needs and nothing else, and an endpoint is named once.
func TestW2_EntriesOfABatch(t *testing.T) {
	t.Parallel()
	v, apns := NewValidator(), strings.Repeat("ab", 32)
	at := func(endpoint string) *Subscription {
		return &Subscription{Endpoint: endpoint, Keys: SubscriptionKeys{P256dh: aPoint, Auth: anAuth}}
	}
	one := at("https://fcm.googleapis.com/1")
	for want, list := range map[string][]DeviceEntry{
		"":                                        {{Platform: "webpush", Subscription: one}, {Platform: "webpush", Subscription: at("https://fcm.googleapis.com/2")}, {Platform: "fcm", Token: apns[:40]}},
		"devices[0].token derived":                {{Platform: "webpush", Subscription: one, Token: TokenOfEndpoint(one.Endpoint)}},
		"devices[0].subscription required":        {{Platform: "webpush"}},
		"devices[0].subscription webpush":         {{Platform: "fcm", Token: apns[:40], Subscription: one}},
		"devices[0].token required":               {{Platform: "apns", Environment: EnvSandbox}},
		"devices[0].token token":                  {{Platform: "fcm", Token: apns}},
		"devices[0].environment apns":             {{Platform: "webpush", Subscription: one, Environment: EnvSandbox}},
		"devices[1].subscription.endpoint unique": {{Platform: "webpush", Subscription: one}, {Platform: "webpush", Subscription: at(one.Endpoint)}},
		"devices[1].token unique":                 {{Platform: "fcm", Token: apns[:40]}, {Platform: "fcm", Token: apns[:40]}},
	} {
		for i := range list {
			list[i].User, list[i].Topic = "bob", "shop"
		}
		var got []string
		for _, f := range v.Check(&DeviceBatchRequest{Devices: list}) {
			got = append(got, f.Field+" "+f.Rule)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestW15_UnlistedPushServices(t *testing.T) {
	t.Parallel()
	for endpoint, bad := range map[string]bool{
		"https://fcm.googleapis.com/x": false, "https://a.push.apple.com/x": false, "https://push.apple.com/x": true,
		"https://push.example.com/x": true, "http://push.example.com/x": false, "": false,
	} {
		if got := KnownPushOrigins.Unlisted("f", endpoint); bad != (len(got) == 1 && got[0].Field == "f" && got[0].Rule == "origin") || !bad && got != nil {
			t.Errorf("%s: %+v", endpoint, got)
		}
	}
	if got := (PushOrigins{"*"}).Unlisted("f", "https://push.example.com/x"); got != nil {
		t.Errorf("every push service is listed: %+v", got)
	}
}

func TestW2_OriginsOfTargets(t *testing.T) {
	t.Parallel()
	s := Subscription{Endpoint: "https://A.push.apple.com:443/secret", Keys: SubscriptionKeys{P256dh: aPoint, Auth: anAuth}}
	if got := OriginOf(s.Target()); got != "https://a.push.apple.com" {
		t.Error(got)
	}
	if got := KnownPushOrigins.OfTarget(s.Target()); got != "*.push.apple.com" {
		t.Error(got)
	}
	if got := OriginOf(""); got != "" || KnownPushOrigins.OfTarget("") != OtherOrigin {
		t.Error(got)
	}
}
