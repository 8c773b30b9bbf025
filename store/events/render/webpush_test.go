package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

// browser is a browser with a locale.
func browser(locale string) *api.Device {
	return &api.Device{Token: "wp." + strings.Repeat("a", 43), Platform: "webpush", Topic: "t", Locale: locale, Target: "https://a.b/x p a"}
}

// toPage is what a push sends to a browser with this locale; "" for nothing.
func toPage(p *render.Push, locale string) string {
	var v render.Variants
	if in := v.Of(p, browser(locale)); in != nil {
		return string(in.Payload)
	}
	return ""
}

// W5: pages get the text that the alert shows, whatever set it, and what webpush has.
func TestW5_Pages(t *testing.T) {
	t.Parallel()
	no, yes := false, true
	const end = `"type":"t"}`
	for name, row := range map[string]struct {
		typ   api.EventTypeRequest
		event api.EventRequest
		want  string // "": browsers get nothing
	}{
		"Alert":       {api.EventTypeRequest{Title: "Hi {{.actor}}", Body: "ü", Sound: "ping"}, api.EventRequest{}, `{"body":"ü","event_id":"ev1","tag":"ev1","title":"Hi bob",` + end},
		"Data":        {api.EventTypeRequest{Title: "T"}, api.EventRequest{Object: "o:1", Data: map[string]string{"z": "1", "type": `"`}}, `{"data":{"type":"\"","z":"1"},"event_id":"ev1","object":"o:1","tag":"ev1","title":"T",` + end},
		"CollapseID":  {api.EventTypeRequest{Title: "T"}, api.EventRequest{CollapseID: "c"}, `{"event_id":"ev1","tag":"c","title":"T",` + end},
		"NoCollapse":  {api.EventTypeRequest{Title: "T", Collapse: &no}, api.EventRequest{}, `{"event_id":"ev1","title":"T",` + end},
		"OwnAlert":    {api.EventTypeRequest{Title: "T"}, api.EventRequest{Alert: &api.Alert{Body: "own"}}, `{"body":"own","event_id":"ev1","tag":"ev1",` + end},
		"TextOfAPS":   {api.EventTypeRequest{APS: json.RawMessage(`{"alert":{"title":"A","body":"B","subtitle":"S"}}`)}, api.EventRequest{}, `{"body":"B","event_id":"ev1","tag":"ev1","title":"A",` + end},
		"StringOfAPS": {api.EventTypeRequest{APS: json.RawMessage(`{"alert":"B"}`)}, api.EventRequest{}, `{"body":"B","event_id":"ev1","tag":"ev1",` + end},
		"NoText":      {api.EventTypeRequest{APS: json.RawMessage(`{"badge":1}`), WebPush: &api.WebPushOptions{Icon: "i"}}, api.EventRequest{}, ""},
		"Background":  {api.EventTypeRequest{PushType: api.PushBackground, WebPush: &api.WebPushOptions{Icon: "i"}}, api.EventRequest{}, ""},
		"VoIP":        {api.EventTypeRequest{PushType: api.PushVoIP, Title: "T"}, api.EventRequest{}, ""},
		"Options": {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{Icon: "i", Badge: "b", Image: "m", URL: "u", RequireInteraction: &yes, Actions: []api.WebPushAction{{Action: "a", Title: "A"}, {Action: "b", Title: "B", Icon: "i"}}}},
			api.EventRequest{}, `{"actions":[{"action":"a","title":"A"},{"action":"b","title":"B","icon":"i"}],"badge":"b","event_id":"ev1","icon":"i","image":"m","require_interaction":true,"tag":"ev1","title":"T","url":"u",` + end},
		"LaidOver": {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{Icon: "i", URL: "u", RequireInteraction: &yes, Actions: []api.WebPushAction{{Action: "a", Title: "A"}}}},
			api.EventRequest{WebPush: &api.WebPushOptions{URL: "own", RequireInteraction: &no, Actions: []api.WebPushAction{{Action: "b", Title: "B"}}}},
			`{"actions":[{"action":"b","title":"B"}],"event_id":"ev1","icon":"i","require_interaction":false,"tag":"ev1","title":"T","url":"own",` + end},
		"OfTheEvent": {api.EventTypeRequest{Title: "T"}, api.EventRequest{WebPush: &api.WebPushOptions{URL: "<&>"}}, `{"event_id":"ev1","tag":"ev1","title":"T","url":"<&>",` + end},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.event.Type, row.event.Actor = "t", "bob"
			p := mustRender(t, mustTemplates(t, &row.typ), &row.event)
			got := toPage(p, "")
			if got != row.want || got != "" && !json.Valid([]byte(got)) {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if p.WebPush != nil && row.typ.PushType != "" {
				t.Errorf("the event carries %s, which no browser gets", p.WebPush)
			}
			var v render.Variants
			if v.Of(p, apnsDevice("")) != p || v.Of(p, browser("")) != v.Of(p, browser("de")) {
				t.Error("a device of APNs gets something else, or a form is made more than once")
			}
		})
	}
}

// D1: a push with an absolute url says what a browser shows without a script, beside what a worker reads. A worker gets all
// that it got before.
func TestD1_DeclaredNotifications(t *testing.T) {
	t.Parallel()
	yes := true
	const plain = `"event_id":"ev1","mutable":true,"notification":`
	for name, row := range map[string]struct {
		typ   api.EventTypeRequest
		event api.EventRequest
		want  string
	}{
		"Text": {api.EventTypeRequest{Title: "T", Body: "B", WebPush: &api.WebPushOptions{URL: "https://a.b/c"}}, api.EventRequest{},
			`{"body":"B",` + plain + `{"body":"B","data":{"event_id":"ev1","type":"t","url":"https://a.b/c"},"navigate":"https://a.b/c","tag":"ev1","title":"T"},"tag":"ev1","title":"T","url":"https://a.b/c","web_push":8030,"type":"t"}`},
		"ABodyIsTheTitle": {api.EventTypeRequest{Body: "B", WebPush: &api.WebPushOptions{URL: "http://localhost:8080"}}, api.EventRequest{},
			`{"body":"B",` + plain + `{"data":{"event_id":"ev1","type":"t","url":"http://localhost:8080"},"navigate":"http://localhost:8080","tag":"ev1","title":"B"},"tag":"ev1","url":"http://localhost:8080","web_push":8030,"type":"t"}`},
		"Everything": {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{Icon: "i", Badge: "b", Image: "m", RequireInteraction: &yes, Actions: []api.WebPushAction{{Action: "a", Title: "A", Icon: "j"}}}},
			api.EventRequest{Object: "o:1", Data: map[string]string{"k": "v"}, CollapseID: "c", WebPush: &api.WebPushOptions{URL: "https://a.b/<&>"}},
			`{"actions":[{"action":"a","title":"A","icon":"j"}],"badge":"b","data":{"k":"v"},"event_id":"ev1","icon":"i","image":"m","mutable":true,"notification":{"actions":[{"action":"a","icon":"j","navigate":"https://a.b/<&>","title":"A"}],"badge":"b","data":{"data":{"k":"v"},"event_id":"ev1","object":"o:1","type":"t","url":"https://a.b/<&>"},"icon":"i","image":"m","navigate":"https://a.b/<&>","require_interaction":true,"tag":"c","title":"T"},"object":"o:1","require_interaction":true,"tag":"c","title":"T","url":"https://a.b/<&>","web_push":8030,"type":"t"}`},
		"Relative":    {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{URL: "/c"}}, api.EventRequest{}, `{"event_id":"ev1","tag":"ev1","title":"T","url":"/c","type":"t"}`},
		"NoHost":      {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{URL: "https:c"}}, api.EventRequest{}, `{"event_id":"ev1","tag":"ev1","title":"T","url":"https:c","type":"t"}`},
		"OtherScheme": {api.EventTypeRequest{Title: "T", WebPush: &api.WebPushOptions{URL: "mailto://a"}}, api.EventRequest{}, `{"event_id":"ev1","tag":"ev1","title":"T","url":"mailto://a","type":"t"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.event.Type = "t"
			p := mustRender(t, mustTemplates(t, &row.typ), &row.event)
			got := toPage(p, "")
			if got != row.want || !json.Valid([]byte(got)) {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			var v render.Variants
			if typ := v.Of(p, browser("")).EventType(); typ != "t" {
				t.Errorf("the type is %q", typ)
			}
		})
	}
	p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "Hello", WebPush: &api.WebPushOptions{URL: "https://a.b"},
		Localized: map[string]api.LocalizedText{"zh-Hant": {Title: "你好"}}}), &api.EventRequest{Type: "t"})
	for locale, want := range map[string]string{"": `"tag":"ev1","title":"Hello"}`, "zh-Hant-TW": `"lang":"zh-hant","navigate":"https://a.b","tag":"ev1","title":"你好"}`} {
		if got := toPage(p, locale); !strings.Contains(got, want) {
			t.Errorf("%s: %s", locale, got)
		}
	}
}

// D1: a push for which both forms are too large together goes without the declaration, as it did before there was one.
func TestD1_TooLargeForBoth(t *testing.T) {
	t.Parallel()
	set := mustTemplates(t, &api.EventTypeRequest{Title: "T", Body: "{{.data.n}}", WebPush: &api.WebPushOptions{URL: "https://a.b"}})
	for n, declares := range map[int]bool{900: true, 1000: false, 1900: false} { // four times: twice as text, twice as data
		event := &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", n)}}
		p := mustRender(t, set, event)
		got := toPage(p, "")
		if err := p.Check(event, toOneOf(api.PlatformWebPush)); err != nil || got == "" || strings.Contains(got, "web_push") != declares {
			t.Errorf("%d bytes of data: %v, %d bytes", n, err, len(got))
		}
	}
}

// W5: a browser gets the texts of its locale. A message of a chat is known as one, so that it can be withdrawn.
func TestW5_LanguagesOfPages(t *testing.T) {
	t.Parallel()
	p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "Hello", Localized: map[string]api.LocalizedText{"de": {Title: "Hallo"}}}), &api.EventRequest{Type: api.ChatMessageType})
	for locale, want := range map[string]string{"": "Hello", "de-AT": "Hallo", "fr": "Hello"} {
		if got := toPage(p, locale); !strings.Contains(got, `"title":"`+want+`"`) {
			t.Errorf("%s: %s", locale, got)
		}
		var v render.Variants
		if got := v.Of(p, browser(locale)).EventType(); got != api.ChatMessageType {
			t.Errorf("%s: the type is %q", locale, got)
		}
		if !v.Of(p, browser(locale)).OfMessage() {
			t.Errorf("%s: it is no message of a chat", locale)
		}
	}
}

// W6: a page gets at most 3,993 bytes, in each language. What is larger all the same has no payload.
func TestW6_WhatPagesDoNotTake(t *testing.T) {
	t.Parallel()
	set := mustTemplates(t, &api.EventTypeRequest{Title: "{{.data.n}}", WebPush: &api.WebPushOptions{URL: strings.Repeat("u", 1000)}, Localized: map[string]api.LocalizedText{"de": {Body: "{{.data.n}}"}}})
	event := func(n int) *api.EventRequest {
		return &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", n)}}
	}
	size := func(n int) int { return len(toPage(mustRender(t, set, event(n)), "de")) }
	most := 100 + (api.MaxWebPushPayload-size(100))/3 // in German the text comes three times
	p := mustRender(t, set, event(most))
	if err := p.Check(event(most), toOneOf(api.PlatformWebPush)); err != nil || size(most) < api.MaxWebPushPayload-2 {
		t.Errorf("%d bytes: %v", size(most), err)
	}
	p = mustRender(t, set, event(most+1))
	err := p.Check(event(most+1), toOneOf(api.PlatformWebPush))
	mustInvalid(t, err, "payload", "max")
	var e *api.Error
	if !errors.As(err, &e) || e.Facts["platform"] != api.PlatformWebPush || e.Facts["limit"] != api.MaxWebPushPayload || !strings.Contains(e.Detail, " in de on webpush; the limit is 3993") {
		t.Errorf("%+v", e)
	}
	if p.Check(event(most+1), toOneOf(api.PlatformFCM)) != nil || toPage(p, "") == "" {
		t.Error("it is too large for others as well")
	}
	var v render.Variants
	if german := v.Of(p, browser("de")); german == nil || german.Payload != nil {
		t.Errorf("too large, and sent: %+v", german)
	}
}
