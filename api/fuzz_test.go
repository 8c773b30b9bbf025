package api

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzTime: what is read as a time is written so that it can be read again.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{`"2026-01-02T15:04:05.000Z"`, `"2026-01-02T15:04:05.123456789+14:00"`, `"0000-01-01T00:00:00+23:59"`,
		`"9999-12-31T23:59:59-23:59"`, `null`, `"`, `""`, `1`, `"2026-02-30T00:00:00Z"`, `"2026-01-02T15:04:60Z"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var first, again Time
		if first.UnmarshalJSON(text) != nil {
			return
		}
		written, err := first.MarshalJSON()
		if err != nil || again.UnmarshalJSON(written) != nil || !first.Equal(again.Time) {
			t.Fatalf("%s is written as %s, and read as %v, not %v", text, written, again, first)
		}
		if _, err := time.Parse(time.RFC3339, string(written[1:len(written)-1])); err != nil {
			t.Fatalf("%s is written as %s: %v", text, written, err)
		}
	})
}

// FuzzTemplate: a template that is taken renders with everything that it may name.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "{{.actor}} shared {{.data.name}}", "{{if .object}}{{.object}}{{else}}x{{end}}", "{{/* c */}}", "{{define \"x\"}}{{end}}",
		"{{range .data}}{{end}}", "{{.data.a.b}}", "{{printf \"%s\" .actor}}", "{{- .actor -}}", "{{if .actor}}{{if .object}}x{{end}}{{end}}", "{{", "\x00\xff"} {
		f.Add(seed, "bob", "album:1", "name")
	}
	f.Fuzz(func(t *testing.T, text, actor, object, value string) {
		template, err := ParseTemplate("title", text)
		if err != nil {
			if CodeOf(err) != CodeValidation {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		e := &EventRequest{Actor: actor, Object: object, Data: map[string]string{"name": value}}
		if _, err := template.Render(e); err != nil && CodeOf(err) != CodeValidation {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

// FuzzEvent renders events that keep the rules: the payload is JSON within APNs' limit,
// and the same for the same event.
func FuzzEvent(f *testing.F) {
	rules := NewValidator()
	for _, seed := range []string{
		`{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x"}}`,
		`{"type":"a","audience":{"contacts_of":"bob"},"actor":"amy","object":"o","data":{"k":"\u0000"},"aps":{"alert":{"title":"y","loc-args":["a"]},"badge":1}}`,
		`{"type":"a","audience":{"chat":"c"},"alert":{"body":"\ud83d\ude00"},"collapse_id":"x","expires_at":"2026-01-02T15:04:05Z"}`,
		`{"type":"","audience":{},"aps":[]}`, `{"aps":{"alert":"x","alert":"y"}}`, `{"aps":null}`, `null`, `[]`,
	} {
		f.Add([]byte(seed), "{{.actor}}", `{"sound":"x"}`, int64(60))
	}
	f.Fuzz(func(t *testing.T, event []byte, title string, aps string, ttl int64) {
		var e EventRequest
		if !utf8.Valid(event) || !utf8.ValidString(title+aps) || json.Unmarshal(event, &e) != nil {
			return // callers' bodies are UTF-8 when they get here
		}
		if rules.Check(&e) != nil {
			return
		}
		typed := &EventTypeRequest{Title: title, APS: json.RawMessage(aps), TTLSeconds: &ttl}
		if rules.Check(typed) != nil {
			return
		}
		set, err := NewTemplateSet(typed)
		if err != nil {
			set = DefaultTemplateSet()
		}
		p, err := RenderPush(set, "id", &e)
		if err != nil {
			if code := CodeOf(err); code != CodeValidation && code != CodePayloadTooLarge {
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
		again, err := RenderPush(set, "id", &e)
		if err != nil || string(again.Payload) != string(p.Payload) {
			t.Fatalf("%s is rendered as %s and as %s, %v", event, p.Payload, again.Payload, err)
		}
	})
}
