package render_test

import (
	"encoding/json"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

// B2: each user's number is in aps.badge, notification_count and app_badge; a badge of one's own in aps wins, everywhere.
func TestB2_NumbersOfEachPlatform(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		typ           api.EventTypeRequest
		event         api.EventRequest
		apns, android string
		page          string
		own           bool
	}{
		"Add":       {api.EventTypeRequest{Title: "T", Badge: api.BadgeAdd}, api.EventRequest{}, `"badge":7`, `"notification_count":7`, `"app_badge":7`, false},
		"Count":     {api.EventTypeRequest{Title: "T", Badge: api.BadgeCount, WebPush: &api.WebPushOptions{URL: "https://a.b"}}, api.EventRequest{}, `"badge":7`, `"notification_count":7`, `"app_badge":7`, false},
		"OwnOfAPS":  {api.EventTypeRequest{Title: "T", Badge: api.BadgeAdd}, api.EventRequest{APS: json.RawMessage(`{"badge":3}`)}, `"badge":3`, `"notification_count":3`, `"app_badge":3`, true},
		"OfTheType": {api.EventTypeRequest{Title: "T", Badge: api.BadgeAdd, APS: json.RawMessage(`{"badge":4}`)}, api.EventRequest{}, `"badge":4`, `"notification_count":4`, `"app_badge":4`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.event.Type = "t"
			p := mustRender(t, mustTemplates(t, &row.typ), &row.event)
			if (p.Badge == "") != row.own {
				t.Errorf("it shows a number of its user: %q", p.Badge)
			}
			var v render.Variants
			for d, want := range map[*api.Device]string{apnsDevice(""): row.apns, fcmDevice(""): row.android, browser(""): row.page} {
				push := v.Of(p, d)
				if p.Badge != "" {
					push = push.WithBadge(7)
				}
				text := string(push.Payload)
				if !json.Valid(push.Payload) || !strings.Contains(text, want) || strings.Contains(text, "-9999") || push.EventType() != "t" {
					t.Errorf("%s: %s", d.Platform, text)
				}
			}
			if p.Badge != "" && strings.Contains(string(v.Of(p, apnsDevice("")).Payload), `"badge":7`) {
				t.Error("the payload that all users share has one user's number")
			}
		})
	}
}

// B2: what each platform gets with a number, whole. A page also gets it in what a browser shows by itself (D1).
func TestB2_WholePayloads(t *testing.T) {
	t.Parallel()
	typ := api.EventTypeRequest{Title: "T", Badge: api.BadgeAdd, WebPush: &api.WebPushOptions{URL: "https://a.b/c"}}
	p := mustRender(t, mustTemplates(t, &typ), &api.EventRequest{Type: "t"})
	var v render.Variants
	for d, want := range map[*api.Device]string{
		apnsDevice(""): `{"aps":{"alert":{"title":"T"},"badge":12},"event_id":"ev1","type":"t"}`,
		fcmDevice(""): `{"android":{"notification":{"notification_count":12,"tag":"ev1","title":"T"},"priority":"HIGH"},` +
			`"apns":{"headers":{"apns-collapse-id":"ev1","apns-priority":"10","apns-push-type":"alert"},"payload":{"aps":{"alert":{"title":"T"},"badge":12}}},` +
			`"notification":{"title":"T"},"data":{"event_id":"ev1","type":"t"}}`,
		browser(""): `{"app_badge":12,"event_id":"ev1","mutable":true,"notification":{"app_badge":12,"data":{"event_id":"ev1","type":"t","url":"https://a.b/c"},` +
			`"navigate":"https://a.b/c","tag":"ev1","title":"T"},"tag":"ev1","title":"T","url":"https://a.b/c","web_push":8030,"type":"t"}`,
	} {
		if got := string(v.Of(p, d).WithBadge(12).Payload); got != want {
			t.Errorf("%s: %s\nwant %s", d.Platform, got, want)
		}
	}
}

// B2: a type with a badge needs no text; then APNs alone gets it. Each language has the number.
func TestB2_WithoutATextAndInLanguages(t *testing.T) {
	t.Parallel()
	var v render.Variants
	p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Badge: api.BadgeCount}), &api.EventRequest{Type: "t"})
	if got := string(v.Of(p, apnsDevice("")).WithBadge(0).Payload); got != `{"aps":{"badge":0},"event_id":"ev1","type":"t"}` {
		t.Errorf("got %s", got)
	}
	if v.Of(p, fcmDevice("")) != nil || v.Of(p, browser("")) != nil {
		t.Error("others get it, too")
	}
	typ := api.EventTypeRequest{Title: "T", Badge: api.BadgeAdd, Localized: map[string]api.LocalizedText{"de": {Title: "Ü"}}}
	p, v = mustRender(t, mustTemplates(t, &typ), &api.EventRequest{Type: "t"}), render.Variants{}
	for locale, want := range map[string]string{"": `{"alert":{"title":"T"},"badge":5}`, "de": `{"alert":{"title":"Ü"},"badge":5}`} {
		if got := string(v.Of(p, apnsDevice(locale)).WithBadge(5).Payload); !strings.Contains(got, want) {
			t.Errorf("in %q: %s", locale, got)
		}
	}
}

// B2: a payload is as large as with the highest number, and the preview shows that.
func TestB2_SizeAndPreview(t *testing.T) {
	t.Parallel()
	set := mustTemplates(t, &api.EventTypeRequest{Title: "{{.data.x}}", Badge: api.BadgeAdd})
	event := func(n int) *api.EventRequest {
		return &api.EventRequest{Type: "t", Data: map[string]string{"x": strings.Repeat("x", n)}}
	}
	n := 1
	for ; ; n++ {
		if _, err := set.Render("ev1", event(n)); err != nil {
			mustInvalid(t, err, "payload", "max")
			break
		}
	}
	p := mustRender(t, set, event(n-1))
	if size := len(p.WithBadge(api.MaxBadge).Payload); size > api.MaxPayload || size < api.MaxPayload-1 {
		t.Errorf("the largest payload has %d bytes", size)
	}
	for _, shown := range p.Preview(func(api.Platform) bool { return true }).Payloads {
		if text := string(shown.Payload); !strings.Contains(text, "99999") || strings.Contains(text, "-9999") {
			t.Errorf("%s: %s", shown.Platform, text)
		}
	}
}

// B2: a type without a badge, or with none, carries no number; background pushes have none.
func TestB2_TypesWithout(t *testing.T) {
	t.Parallel()
	for _, badge := range []api.BadgeMode{"", api.BadgeNone} {
		p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "T", Badge: badge}), &api.EventRequest{Type: "t"})
		if p.Badge != "" || strings.Contains(string(p.Payload), "badge") {
			t.Errorf("%q: %s", badge, p.Payload)
		}
	}
	_, err := render.NewTemplateSet(&api.EventTypeRequest{PushType: api.PushBackground, Badge: api.BadgeAdd})
	mustInvalid(t, err, "badge", "alert")
}
