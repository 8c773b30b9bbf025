package render_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"fanfare/api"
)

// D2: what a preview shows is what devices get, on each platform for which the push is meant and to which the process
// sends, and in each language.
func TestD2_WhatDevicesGet(t *testing.T) {
	t.Parallel()
	all := func(api.Platform) bool { return true }
	german := map[string]api.LocalizedText{"de": {Title: "Hallo"}}
	for name, row := range map[string]struct {
		typ     api.EventTypeRequest
		sendsTo func(api.Platform) bool
		want    []string
	}{
		"Everywhere": {api.EventTypeRequest{Title: "Hello", Localized: german}, all, []string{"apns ", "apns de", "fcm ", "fcm de", "webpush ", "webpush de"}},
		"APNsAlone":  {api.EventTypeRequest{Title: "Hello"}, toOneOf(api.PlatformAPNs), []string{"apns "}},
		"ToBrowsers": {api.EventTypeRequest{Title: "Hello"}, toOneOf(api.PlatformWebPush), []string{"apns ", "webpush "}},
		"Background": {api.EventTypeRequest{PushType: api.PushBackground}, all, []string{"apns ", "fcm "}},
		"VoIP":       {api.EventTypeRequest{PushType: api.PushVoIP, Title: "Hello"}, all, []string{"apns "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			event := &api.EventRequest{Type: "t", WebPush: &api.WebPushOptions{URL: "https://a.b"}}
			p := mustRender(t, mustTemplates(t, &row.typ), event)
			var got []string
			for _, in := range p.Preview(row.sendsTo).Payloads {
				got = append(got, fmt.Sprint(in.Platform, " ", in.Locale))
				if !json.Valid(in.Payload) || in.Bytes <= 0 || in.Bytes > in.Limit || in.Limit < 3993 {
					t.Errorf("%+v: %s", in, in.Payload)
				}
				if in.Platform == api.PlatformWebPush && string(in.Payload) != toPage(p, in.Locale) {
					t.Errorf("a browser gets something else than %s", in.Payload)
				}
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}
