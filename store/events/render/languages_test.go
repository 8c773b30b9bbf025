package render_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"fanfare/api"
	"fanfare/store/events/render"
)

// textsOf are the title and the body that a push shows to a device with this locale.
func textsOf(t *testing.T, p *render.Push, locale string) string {
	t.Helper()
	in := p.In(p.Language(locale))
	var doc struct {
		APS struct{ Alert api.Alert }
	}
	if err := json.Unmarshal(in.Payload, &doc); err != nil || in.Languages != nil || !utf8.Valid(in.Payload) {
		t.Fatalf("%s: %v", in.Payload, err)
	}
	return doc.APS.Alert.Title + "/" + doc.APS.Alert.Body
}

// W5: each of the two texts is that of the device's locale, else that of its language, else the default.
func TestW5_TextsByLocale(t *testing.T) {
	t.Parallel()
	type texts = map[string]api.LocalizedText
	greeting := &api.EventTypeRequest{
		Title: "Hello", Body: "from {{.actor}}", Localized: texts{
			"de": {Title: "Hallo", Body: "von {{.actor}}"}, "de-AT": {Title: "Servus"}, "de-AT-1996": {Body: "vo {{.actor}}"}, "de-CH": {Title: "Hello"}, "fr": {Body: "de {{.actor}}"},
			"el": {Title: "Γειά", Body: "από {{.actor}}"}, "ZH-hant": {Title: "您好"}, "zh": {Title: "你好", Body: "{{.actor}}"}, "sr-Latn": {Title: "Zdravo"}, "sr": {Title: "Здраво"},
		},
	}
	event := &api.EventRequest{Type: "t", Actor: "bob"}
	p := mustRender(t, mustTemplates(t, greeting), event)
	for locale, want := range map[string]string{
		"": "Hello/from bob", "en": "Hello/from bob", "de": "Hallo/von bob", "DE": "Hallo/von bob", "de-DE": "Hallo/von bob",
		"de-AT": "Servus/von bob", "de-at": "Servus/von bob", "de-AT-x": "Servus/von bob", "de-AT-1996": "Servus/vo bob", "de-at-1996-x-wien": "Servus/vo bob", "de-AT-u-rg-chzzzz": "Servus/von bob", "de-u-rg-atzzzz": "Hallo/von bob", "de-CH": "Hello/von bob", "fr-CA": "Hello/de bob",
		"el-GR": "Γειά/από bob", "zh-Hant": "您好/bob", "zh-Hant-TW": "您好/bob", "zh-TW": "你好/bob", "zh": "你好/bob", "sr-Latn-RS": "Zdravo/from bob", "sr-RS": "Здраво/from bob", "x-de": "Hello/from bob", "d": "Hello/from bob",
	} {
		if got := textsOf(t, p, locale); got != want {
			t.Errorf("%s: %s, want %s", locale, got, want)
		}
	}
	// What is derived is what would be rendered.
	alone := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "Γειά", Body: "από {{.actor}}"}), event)
	if got := p.In("el"); string(got.Payload) != string(alone.Payload) || got.CollapseID != alone.CollapseID {
		t.Errorf("%s, want %s", got.Payload, alone.Payload)
	}
	for name, middle := range p.Languages.Middle {
		if strings.Contains(middle, "event_id") || !utf8.ValidString(middle) {
			t.Errorf("%s takes %q with it", name, middle)
		}
	}
	t.Run("NothingDiffers", func(t *testing.T) {
		t.Parallel()
		for name, set := range map[string]*render.TemplateSet{
			"no language": mustTemplates(t, &api.EventTypeRequest{Title: "T"}),
			"same text":   mustTemplates(t, &api.EventTypeRequest{Title: "T", Localized: texts{"de": {Title: "T"}}}),
			"background":  mustTemplates(t, &api.EventTypeRequest{PushType: api.PushBackground, Localized: texts{"de": {Title: "D"}}}),
			"aps goes before the texts": mustTemplates(t, &api.EventTypeRequest{Title: "T", APS: json.RawMessage(`{"alert":{"title":"A"}}`),
				Localized: texts{"de": {Title: "D"}}}),
		} {
			if p := mustRender(t, set, &api.EventRequest{Type: "t"}); p.Languages != nil || p.In(p.Language("de")) != p {
				t.Errorf("%s: %+v", name, p.Languages)
			}
		}
		own := &api.EventRequest{Type: "t", Actor: "bob", Alert: &api.Alert{Title: "for all"}}
		if p := mustRender(t, mustTemplates(t, greeting), own); p.Languages != nil || textsOf(t, p, "de") != "for all/" {
			t.Errorf("the event's own alert: %+v", p)
		}
	})
	t.Run("PartsOfTexts", func(t *testing.T) { // texts that share bytes at both ends, and characters that share bytes
		t.Parallel()
		all := []string{"a", "aa", "aba", "ä", "ö", "äö", "öä", "\U0001f600", "\U0001f601", `"`, `""`, "\u2028", "aä", "öa"}
		for _, title := range all {
			languages := texts{}
			for i, text := range all[:13] {
				languages[fmt.Sprintf("x%c", 'a'+i)] = api.LocalizedText{Title: text}
			}
			p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: title, Localized: languages}), event)
			for name, text := range languages {
				if got := textsOf(t, p, name); got != text.Title+"/" {
					t.Errorf("%s beside %s: %s", text.Title, title, got)
				}
			}
		}
	})
}

// W5, W6: what is wrong in any language is told at once, and the longest language must fit.
func TestW6_EveryLanguageIsChecked(t *testing.T) {
	t.Parallel()
	_, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "{{.x}}", Localized: map[string]api.LocalizedText{"de-AT": {Title: "{{.y}}", Body: "{{.z}}"}}})
	var e *api.Error
	if !errors.As(err, &e) || len(e.Fields) != 3 || e.Fields[1].Field != "localized[de-AT].title" || e.Fields[2].Field != "localized[de-AT].body" {
		t.Errorf("%+v", err)
	}
	set := mustTemplates(t, &api.EventTypeRequest{Title: "T", Localized: map[string]api.LocalizedText{"fr": {Title: "F"}, "de": {Body: "{{.data.n}}{{.data.n}}{{.data.n}}"}}})
	_, err = set.Render("ev1", &api.EventRequest{Type: "t"})
	mustInvalid(t, err, "data.n", "required")
	_, err = set.Render("ev1", &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", 1100)}})
	mustInvalid(t, err, "payload", "max")
	if !strings.Contains(err.Error(), " in de; the limit for alert is 4096") {
		t.Errorf("%v", err)
	}
	many := map[string]api.LocalizedText{}
	for i := range 20 {
		many[fmt.Sprintf("x%c", 'a'+i)] = api.LocalizedText{Body: fmt.Sprint(i, "{{.data.n}}")}
	}
	set = mustTemplates(t, &api.EventTypeRequest{Title: "T", Localized: many})
	mustRender(t, set, &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", 300)}})
	_, err = set.Render("ev1", &api.EventRequest{Type: "t", Data: map[string]string{"n": strings.Repeat("n", 500)}})
	mustInvalid(t, err, "payload", "max")
	if !strings.Contains(err.Error(), "of texts in its languages; the limit is 8192") {
		t.Errorf("%v", err)
	}
}
