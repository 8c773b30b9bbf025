package render

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"fanfare/api"
)

// FuzzTemplate: a template that is taken renders with everything that it may name.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "{{.actor}} shared {{.data.name}}", "{{if .object}}{{.object}}{{else}}x{{end}}", "{{/* c */}}", "{{define \"x\"}}{{end}}",
		"{{range .data}}{{end}}", "{{.data.a.b}}", "{{printf \"%s\" .actor}}", "{{- .actor -}}", "{{if .actor}}{{if .object}}x{{end}}{{end}}", "{{", "\x00\xff"} {
		f.Add(seed, "bob", "album:1", "name")
	}
	f.Fuzz(func(t *testing.T, text, actor, object, value string) {
		template, err := ParseTemplate("title", text)
		if err != nil {
			if api.CodeOf(err) != api.CodeValidation {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		e := &api.EventRequest{Actor: actor, Object: object, Data: map[string]string{"name": value}}
		if _, err := template.Render(e); err != nil && api.CodeOf(err) != api.CodeValidation {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzEvent renders events that keep the rules: the payload is JSON within APNs' limit,
// and the same for the same event.
func FuzzEvent(f *testing.F) {
	rules := api.NewValidator()
	for _, seed := range []string{
		`{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}`,
		`{"type":"a","audience":{"contacts_of":"bob"},"actor":"amy","object":"o","data":{"k":"\u0000"},"aps":{"alert":{"title":"y","loc-args":["a"]},"badge":1}}`,
		`{"type":"a","audience":{"chat":"c"},"alert":{"body":"\ud83d\ude00"},"collapse_id":"x","expires_at":"2026-01-02T15:04:05Z"}`,
		`{"type":"","audience":{},"aps":[]}`, `{"aps":{"alert":"x","alert":"y"}}`, `{"aps":null}`, `null`, `[]`,
	} {
		f.Add([]byte(seed), "{{.actor}}", `{"sound":"x"}`, int64(60))
	}
	f.Fuzz(func(t *testing.T, event []byte, title string, aps string, ttl int64) {
		var e api.EventRequest
		if !utf8.Valid(event) || !utf8.ValidString(title+aps) || json.Unmarshal(event, &e) != nil {
			return // callers' bodies are UTF-8 when they get here
		}
		if rules.Check(&e) != nil {
			return
		}
		typed := &api.EventTypeRequest{Title: title, APS: json.RawMessage(aps), TTLSeconds: &ttl}
		if rules.Check(typed) != nil {
			return
		}
		set, err := NewTemplateSet(typed)
		if err != nil {
			set = DefaultTemplateSet()
		}
		p, err := set.Render("id", &e)
		if err != nil {
			if code := api.CodeOf(err); code != api.CodeValidation && code != api.CodePayloadTooLarge {
				t.Fatalf("%s: %v", event, err)
			}
			return
		}
		var payload struct {
			APS map[string]any `json:"aps"`
		}
		if err := json.Unmarshal(p.Payload, &payload); err != nil || payload.APS == nil || !utf8.Valid(p.Payload) || len(p.Payload) > 4096 {
			t.Fatalf("%s is rendered as %q, %v", event, p.Payload, err)
		}
		again, err := set.Render("id", &e)
		if err != nil || string(again.Payload) != string(p.Payload) {
			t.Fatalf("%s is rendered as %s and as %s, %v", event, p.Payload, again.Payload, err)
		}
	})
}
