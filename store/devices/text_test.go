package devices

import (
	"reflect"
	"strings"
	"testing"

	"fanfare/api"
)

// Settings in the cache and guards are read as they were written, and any other text is a miss.
func TestTextsOfDevices(t *testing.T) {
	t.Parallel()
	device := func(token string, env api.Environment) api.Device {
		return api.Device{Token: token, Topic: "shop", Environment: env, State: api.DeviceSuspect, RegisteredAt: api.AtMillis(7)}
	}
	one, two := device("ab", api.EnvProduction), device("cd", api.EnvSandbox)
	other, german := device("an-fcm-token-of-30-characters-", ""), device("ef", api.EnvSandbox)
	german.Locale = "de-AT"
	target := "https://fcm.googleapis.com/x point auth"
	browser := device(api.TokenOfEndpoint("x"), "")
	browser.Target = target
	activity, phone := device("fe", api.EnvSandbox), device("la.an-activity-of-fcm", "")
	activity.Live = &api.DeviceLive{Object: "match:7", EndsAt: 9}
	phone.Target, phone.Live = "registration ab", &api.DeviceLive{Object: api.LiveStarts, AttributesType: "Match"}
	const fieldsOf = "ab\x1fshop\x1fproduction\x1fsuspect\x1f7\x1f\x1f\x1f\x1ecd\x1fshop\x1fsandbox\x1fsuspect\x1f7\x1f\x1f\x1f\x1e"
	for want, list := range map[string][]api.Device{
		"":       {},
		fieldsOf: {one, two},
		fieldsOf + other.Token + "\x1fshop\x1f\x1fsuspect\x1f7\x1f\x1f\x1f\x1e":                             {one, two, other},
		browser.Token + "\x1fshop\x1f\x1fsuspect\x1f7\x1f\x1f" + target + "\x1f\x1e" + fieldsOf:             {browser, one, two},
		"fe\x1fshop\x1fsandbox\x1fsuspect\x1f7\x1f\x1f\x1f9 match:7 \x1f\x1e" + fieldsOf:                    {activity, one, two},
		phone.Token + "\x1fshop\x1f\x1fsuspect\x1f7\x1f\x1fregistration ab\x1f0 * Match\x1f\x1e" + fieldsOf: {phone, one, two},
		"ef\x1fshop\x1fsandbox\x1fsuspect\x1f7\x1fde-AT\x1f\x1f\x1e" + fieldsOf:                             {german, one, two},
	} {
		if got := devicesText(list); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if again, ok := parseDevices(want); !ok || !reflect.DeepEqual(again, list) {
			t.Errorf("%q is read as %+v, %v", want, again, ok)
		}
	}
	for want, g := range map[string]Guard{
		"suspect|7|production|shop|bob|": {User: "bob", RegisteredAt: one.RegisteredAt, Topic: "shop", Environment: api.EnvProduction, State: api.DeviceSuspect},
		"suspect|7||shop|bob|":           {User: "bob", RegisteredAt: one.RegisteredAt, Topic: "shop", State: api.DeviceSuspect},
		"suspect|7||shop|bob|" + target:  {User: "bob", RegisteredAt: one.RegisteredAt, Topic: "shop", State: api.DeviceSuspect, Target: target},
		"gone|0||||":                     {RegisteredAt: api.AtMillis(0), State: StateGone},
	} {
		if got := EncodeGuard(g); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if again, ok := ParseGuard(want); !ok || again != g {
			t.Errorf("%q is read as %+v, %v", want, again, ok)
		}
	}
	later := strings.TrimSuffix(devicesText([]api.Device{other}), deviceEnd) + "more" + fieldEnd + deviceEnd
	withoutTarget := strings.Replace(devicesText([]api.Device{browser}), target, "", 1)
	ofAPNs := strings.Replace(fieldsOf, "\x1f\x1e", target+"\x1f\x1e", 1)
	for _, bad := range []string{later, withoutTarget, ofAPNs, fieldsOf[:len(fieldsOf)-1], strings.Replace(fieldsOf, fieldEnd, "", 1)} {
		if _, ok := parseDevices(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
	for _, bad := range []string{"", "suspect|7||shop|bob", "suspect|7||shop|bob|more", "suspect|7||shop|bob|" + target + "|more", "suspect|7|production|shop|bob|" + target} {
		if _, ok := ParseGuard(bad); ok {
			t.Errorf("%q is read", bad)
		}
	}
}
