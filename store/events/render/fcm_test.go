package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

// fcmDevice and apnsDevice are devices with a locale.
func fcmDevice(locale string) *api.Device {
	return &api.Device{Token: "fcm-token:" + strings.Repeat("x", 100), Platform: "fcm", Topic: "t", Locale: locale}
}

func apnsDevice(locale string) *api.Device {
	return &api.Device{Token: strings.Repeat("ab", 32), Environment: api.EnvProduction, Topic: "t", Locale: locale}
}

// toFCM is what a push sends to a device of FCM with this locale; "" for nothing.
func toFCM(p *render.Push, locale string) string {
	var v render.Variants
	if in := v.Of(p, fcmDevice(locale)); in != nil {
		return string(in.Payload)
	}
	return ""
}

// toOneOf is a process with an app of one platform.
func toOneOf(p api.Platform) func(api.Platform) bool {
	return func(of api.Platform) bool { return of == p }
}

// W5, W10: what is shown is in android.notification, with the collapse id as tag, and data is flat.
func TestW10_Messages(t *testing.T) {
	t.Parallel()
	no := false
	const end = `"event_id":"ev1","type":"t"}}`
	shown := func(notification string) string {
		return `{"android":{"notification":` + notification + `,"priority":"HIGH"},"data":{` + end
	}
	for name, row := range map[string]struct {
		typ   api.EventTypeRequest
		event api.EventRequest
		want  string // "": APNs alone
	}{
		"Alert":       {api.EventTypeRequest{Title: "Hi {{.actor}}", Body: "ü", Sound: "ping"}, api.EventRequest{}, shown(`{"body":"ü","sound":"ping","tag":"ev1","title":"Hi bob"}`)},
		"Data":        {api.EventTypeRequest{Title: "T"}, api.EventRequest{Object: "o:1", Data: map[string]string{"z": "1", "a": `"`}}, `{"android":{"notification":{"tag":"ev1","title":"T"},"priority":"HIGH"},"data":{"a":"\"","z":"1","event_id":"ev1","object":"o:1","type":"t"}}`},
		"Priority5":   {api.EventTypeRequest{Title: "T", Priority: 5}, api.EventRequest{}, `{"android":{"notification":{"tag":"ev1","title":"T"},"priority":"NORMAL"},"data":{` + end},
		"Priority1":   {api.EventTypeRequest{Title: "T", Priority: 1}, api.EventRequest{}, `{"android":{"notification":{"tag":"ev1","title":"T"},"priority":"NORMAL"},"data":{` + end},
		"CollapseID":  {api.EventTypeRequest{Title: "T"}, api.EventRequest{CollapseID: "c"}, `{"android":{"collapse_key":"c","notification":{"tag":"c","title":"T"},"priority":"HIGH"},"data":{` + end},
		"NoCollapse":  {api.EventTypeRequest{Title: "T", Collapse: &no}, api.EventRequest{}, shown(`{"title":"T"}`)},
		"OwnAlert":    {api.EventTypeRequest{Title: "T"}, api.EventRequest{Alert: &api.Alert{Body: "own"}}, shown(`{"body":"own","tag":"ev1"}`)},
		"TextOfAPS":   {api.EventTypeRequest{APS: json.RawMessage(`{"alert":{"title":"A","body":"B","subtitle":"S"},"badge":1}`)}, api.EventRequest{}, shown(`{"body":"B","notification_count":1,"tag":"ev1","title":"A"}`)},
		"StringOfAPS": {api.EventTypeRequest{APS: json.RawMessage(`{"alert":"B"}`)}, api.EventRequest{}, shown(`{"body":"B","tag":"ev1"}`)},
		"Critical":    {api.EventTypeRequest{Title: "T", APS: json.RawMessage(`{"sound":{"critical":1,"name":"siren"}}`)}, api.EventRequest{}, shown(`{"sound":"siren","tag":"ev1","title":"T"}`)},
		"NoText":      {api.EventTypeRequest{APS: json.RawMessage(`{"badge":1}`)}, api.EventRequest{}, ""},
		"TextOfFCM":   {api.EventTypeRequest{APS: json.RawMessage(`{"badge":1}`), FCM: json.RawMessage(`{"notification":{"title":"F"}}`)}, api.EventRequest{}, shown(`{"notification_count":1,"tag":"ev1","title":"F"}`)},
		"Background":  {api.EventTypeRequest{PushType: api.PushBackground}, api.EventRequest{Data: map[string]string{"a": "1"}}, `{"android":{"priority":"NORMAL"},"data":{"a":"1",` + end},
		"VoIP":        {api.EventTypeRequest{PushType: api.PushVoIP, Title: "T"}, api.EventRequest{}, ""},
		"VoIPWithFCM": {api.EventTypeRequest{PushType: api.PushVoIP, Title: "T", FCM: json.RawMessage(`{"notification":{"title":"F"}}`)}, api.EventRequest{}, ""},
		"Location":    {api.EventTypeRequest{PushType: api.PushLocation, APS: json.RawMessage(`{"x":1}`)}, api.EventRequest{}, ""},
		"FCM": {api.EventTypeRequest{Title: "T", FCM: json.RawMessage(`{"notification": {"icon": "i", "title": "over", "a": {"x": 1, "y": 2}}, "restricted_package_name": "p"}`)},
			api.EventRequest{FCM: json.RawMessage(`{"notification":{"icon":"own","a":{"y":3}}}`)},
			`{"android":{"notification":{"a":{"x":1,"y":3},"icon":"own","tag":"ev1","title":"over"},"priority":"HIGH","restricted_package_name":"p"},"data":{` + end},
		"BackgroundShowsNothing": {api.EventTypeRequest{PushType: api.PushBackground, FCM: json.RawMessage(`{"notification":{"title":"x"},"restricted_package_name":"p"}`)}, api.EventRequest{},
			`{"android":{"priority":"NORMAL","restricted_package_name":"p"},"data":{` + end},
		"Reserved": {api.EventTypeRequest{Title: "T"}, api.EventRequest{Data: map[string]string{"type": "theirs", "event_id": "x"}}, shown(`{"tag":"ev1","title":"T"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.event.Type, row.event.Actor = "t", "bob"
			p := mustRender(t, mustTemplates(t, &row.typ), &row.event)
			if got := forAndroid(toFCM(p, "")); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			var v render.Variants
			if v.Of(p, apnsDevice("")) != p {
				t.Error("a device of APNs gets something else")
			}
		})
	}
}

// forAndroid is a message without the parts that Android does not read.
func forAndroid(message string) string {
	before, rest, _ := strings.Cut(message, `,"apns":`)
	if _, data, ok := strings.Cut(rest, `,"data":`); ok {
		return before + `,"data":` + data
	}
	return message
}

// W10: an iPhone whose token is of FCM shows what it shows with a token of APNs, and a web app shows the text.
// Android shows android.notification, which has all of that text.
func TestW10_IPhonesAndWebApps(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		typ   api.EventTypeRequest
		event api.EventRequest
		want  string // between android and data
	}{
		"Alert": {api.EventTypeRequest{Title: "Hi", Body: "ü", Sound: "ping"}, api.EventRequest{},
			`{"headers":{"apns-collapse-id":"ev1","apns-priority":"10","apns-push-type":"alert"},"payload":{"aps":{"alert":{"title":"Hi","body":"ü"},"sound":"ping"}}},"notification":{"body":"ü","title":"Hi"}`},
		"APS": {api.EventTypeRequest{Title: "Hi", Priority: 5}, api.EventRequest{CollapseID: "c", APS: json.RawMessage(`{"badge":3,"alert":{"subtitle":"S"},"mutable-content":1}`)},
			`{"headers":{"apns-collapse-id":"c","apns-priority":"5","apns-push-type":"alert"},"payload":{"aps":{"alert":{"subtitle":"S","title":"Hi"},"badge":3,"mutable-content":1}}},"notification":{"title":"Hi"}`},
		"TextOfFCMAlone": {api.EventTypeRequest{APS: json.RawMessage(`{"badge":1}`), FCM: json.RawMessage(`{"notification":{"title":"F","icon":"i"}}`)}, api.EventRequest{},
			`{"headers":{"apns-collapse-id":"ev1","apns-priority":"10","apns-push-type":"alert"},"payload":{"aps":{"badge":1}}},"notification":{"title":"F"}`},
		"Background": {api.EventTypeRequest{PushType: api.PushBackground}, api.EventRequest{},
			`{"headers":{"apns-priority":"5","apns-push-type":"background"},"payload":{"aps":{"content-available":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.event.Type = "t"
			_, got, _ := strings.Cut(toFCM(mustRender(t, mustTemplates(t, &row.typ), &row.event), ""), `,"apns":`)
			if got, _, _ = strings.Cut(got, `,"data":`); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// W5: a device of FCM gets the texts of its locale, and each form is made once for all devices.
func TestW5_LanguagesOnFCM(t *testing.T) {
	t.Parallel()
	p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "Hello", Localized: map[string]api.LocalizedText{"de": {Title: "Hallo"}}}), &api.EventRequest{Type: "t"})
	for locale, want := range map[string]string{"": "Hello", "de-AT": "Hallo", "fr": "Hello"} {
		if got := toFCM(p, locale); !strings.Contains(got, `"title":"`+want+`"`) {
			t.Errorf("%s: %s", locale, got)
		}
	}
	var v render.Variants
	if v.Of(p, fcmDevice("de")) != v.Of(p, fcmDevice("de-AT")) || v.Of(p, fcmDevice("de")) == v.Of(p, apnsDevice("de")) || v.Of(p, apnsDevice("de")) != v.Of(p, apnsDevice("de-CH")) {
		t.Error("a form is made more than once")
	}
}

// W5: members of fcm that fanfare sets are refused, in the event type and in the event.
func TestW5_FixedMembersOfFCM(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ttl", "priority", "collapse_key", "data"} {
		own := json.RawMessage(`{"` + name + `":"1"}`)
		_, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "T", FCM: own})
		mustInvalid(t, err, "fcm."+name, "reserved")
		_, err = mustTemplates(t, &api.EventTypeRequest{Title: "T"}).Render("ev1", &api.EventRequest{Type: "t", FCM: own})
		mustInvalid(t, err, "fcm."+name, "reserved")
	}
	_, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "T", FCM: json.RawMessage(`[]`)})
	mustInvalid(t, err, "fcm", "object")
}

// W6: the keys and values of a message have at most 4,096 bytes, in each language, and names that FCM or
// fanfare uses are refused.
func TestW6_WhatFCMDoesNotTake(t *testing.T) {
	t.Parallel()
	set := mustTemplates(t, &api.EventTypeRequest{Title: "{{.data.n}}", FCM: json.RawMessage(`{"notification":{"ticker":"` + strings.Repeat("t", 1000) + `"}}`), Localized: map[string]api.LocalizedText{"de": {Body: "{{.data.n}}"}}})
	// title, ticker, tag, n, event_id and type, and their values
	const others = len("title") + len("ticker") + 1000 + len("tag"+"ev1") + len("n") + len("event_id"+"ev1") + len("type"+"t")
	event := func(n int) *api.EventRequest {
		return &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", n)}}
	}
	most := (api.MaxPayload - others - len("body")) / 3 // in German the text comes three times
	p := mustRender(t, set, event(most))
	if err := p.Check(event(most), toOneOf(api.PlatformFCM)); err != nil || toFCM(p, "de") == "" {
		t.Errorf("%d bytes: %v", most, err)
	}
	p = mustRender(t, set, event(most+1))
	err := p.Check(event(most+1), toOneOf(api.PlatformFCM))
	mustInvalid(t, err, "payload", "max")
	var e *api.Error
	if !errors.As(err, &e) || e.Facts["platform"] != api.PlatformFCM || e.Facts["limit"] != api.MaxPayload || !strings.Contains(e.Detail, " in de on fcm; the limit is 4096") {
		t.Errorf("%+v", e)
	}
	// It was accepted before there was an app.
	var v render.Variants
	if in := v.Of(p, fcmDevice("de")); in == nil || len(in.Payload) != 0 {
		t.Errorf("too large: %+v", in)
	}
	if toFCM(p, "") == "" {
		t.Error("the default language fits")
	}
	reserved := &api.EventRequest{Type: "t", Data: map[string]string{
		"n": "", "from": "", "message_type": "", "google.x": "", "gcm.notification.x": "", "event_id": "", "type": "", "object": "", "google": "", "gcm": "", "gcm.notification": "",
	}}
	if err = mustRender(t, set, reserved).Check(reserved, toOneOf(api.PlatformFCM)); !errors.As(err, &e) || e.Code != api.CodeReservedKey || len(e.Fields) != 7 || e.Fields[0].Field != "data.event_id" {
		t.Errorf("%+v", err)
	}
	// A push that is not meant for FCM may be larger.
	voip := mustTemplates(t, &api.EventTypeRequest{PushType: api.PushVoIP, APS: json.RawMessage(`{"a":"` + strings.Repeat("a", 4000) + `"}`)})
	if err := mustRender(t, voip, event(100)).Check(event(100), toOneOf(api.PlatformFCM)); err != nil {
		t.Error(err)
	}
}

// A notification about a message of a chat is recognized on FCM, too, so that a redaction stops it.
func TestMessagesOfChatsAreRecognizedOnFCM(t *testing.T) {
	t.Parallel()
	set := mustTemplates(t, &api.EventTypeRequest{Title: "T"})
	for typ, want := range map[string]bool{api.ChatMessageType: true, "t": false} {
		var v render.Variants
		p := mustRender(t, set, &api.EventRequest{Type: typ, Data: map[string]string{"zz": "z"}})
		if got := v.Of(p, fcmDevice("")).OfMessage(); got != want || p.OfMessage() != want {
			t.Errorf("%s: %v", typ, got)
		}
		if a, b := p.EventType(), v.Of(p, fcmDevice("")).EventType(); a != typ || b != typ {
			t.Errorf("types %q and %q, want %q", a, b, typ)
		}
	}
}
