package render_test

import (
	"errors"
	"testing"

	"fanfare/api"
	"fanfare/store/events/render"
)

func TestParseTemplate(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"text":    "Hello",
		"actor":   "{{.actor}} shared {{ .object }}",
		"data":    "in {{.data.album}}",
		"if":      "{{if .data.n}}{{.data.n}} photos{{else}}a photo{{end}}",
		"else if": "{{if .data.a}}a{{else if .data.b}}b{{end}}",
		"trimmed": "a {{- .actor -}} b",
		"empty":   "",
	} {
		t.Run("allows "+name, func(t *testing.T) {
			t.Parallel()
			if _, err := render.ParseTemplate("title", text); err != nil {
				t.Errorf("ParseTemplate(%q): %v", text, err)
			}
		})
	}
	for name, text := range map[string]string{
		"range":          "{{range .data}}x{{end}}",
		"with":           "{{with .actor}}x{{end}}",
		"template":       `{{template "x"}}`,
		"define":         `{{define "x"}}y{{end}}`,
		"block":          `{{block "x" .}}y{{end}}`,
		"function":       "{{len .actor}}",
		"unknown func":   "{{nope .actor}}",
		"printf":         `{{printf "%s" .actor}}`,
		"pipe":           "{{.actor | html}}",
		"variable":       "{{$x := .actor}}",
		"dollar":         "{{$.actor}}",
		"if variable":    "{{if $x := .actor}}{{end}}",
		"if with else":   "{{if .actor}}{{else with .object}}{{end}}",
		"inside if":      "{{if .actor}}{{len .actor}}{{end}}",
		"inside else":    "{{if .actor}}{{else}}{{range .data}}{{end}}{{end}}",
		"dot":            "{{.}}",
		"string":         `{{"x"}}`,
		"number":         "{{1}}",
		"comment":        "{{/* hidden */}}",
		"break":          "{{break}}",
		"unknown name":   "{{.user}}",
		"data alone":     "{{.data}}",
		"if data alone":  "{{if .data}}x{{end}}",
		"too deep":       "{{.data.a.b}}",
		"actor's field":  "{{.actor.name}}",
		"unclosed":       "{{.actor",
		"end alone":      "{{end}}",
		"chained method": "{{(.data).name}}",
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			_, err := render.ParseTemplate("body", text)
			mustInvalid(t, err, "body", "template")
		})
	}
}

func TestTemplateRender(t *testing.T) {
	t.Parallel()
	e := &api.EventRequest{Actor: "alice", Object: "album:1", Data: map[string]string{"n": "3", "empty": ""}}
	for _, tt := range []struct{ text, want string }{
		{"{{.actor}} in {{.object}}", "alice in album:1"},
		{"{{.data.n}} & <more>", "3 & <more>"},
		{"[{{.data.empty}}]", "[]"},
		{"{{if .data.n}}yes{{else}}no{{end}}", "yes"},
		{"{{if .data.empty}}yes{{else}}no{{end}}", "no"},
		{"{{if .data.gone}}{{.data.gone}}{{end}}fine", "fine"},
		{"{{if .data.gone}}a{{else if .actor}}b{{else}}{{.data.gone}}{{end}}", "b"},
		{"  {{- .actor -}}  ", "alice"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			tpl, err := render.ParseTemplate("title", tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tpl.Render(e)
			if err != nil || got != tt.want {
				t.Errorf("Render = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	t.Run("names what is missing from data", func(t *testing.T) {
		t.Parallel()
		tpl, err := render.ParseTemplate("title", "{{if .actor}}{{.data.gone}}{{end}}")
		if err != nil {
			t.Fatal(err)
		}
		_, err = tpl.Render(e)
		mustInvalid(t, err, "data.gone", "required")
	})
	for field, other := range map[string]string{"actor": "object", "object": "actor"} {
		t.Run("an absent "+field+" is not printed", func(t *testing.T) {
			t.Parallel()
			tpl, _ := render.ParseTemplate("title", "{{."+other+"}}{{if ."+field+"}}{{."+field+"}}{{else}}?{{end}}")
			someone := &api.EventRequest{Actor: "alice", Object: "album:1"}
			if got, err := tpl.Render(someone); err != nil || len(got) != len("alicealbum:1") {
				t.Errorf("Render = %q, %v", got, err)
			}
			tpl, _ = render.ParseTemplate("title", "{{if ."+other+"}}{{."+field+"}}{{end}}")
			none := &api.EventRequest{}
			if got, err := tpl.Render(none); got != "" || err != nil {
				t.Errorf("nothing is printed: %q, %v", got, err)
			}
			if none.Actor = "alice"; other == "object" {
				none.Actor, none.Object = "", "album:1"
			}
			_, err := tpl.Render(none)
			mustInvalid(t, err, field, "required")
		})
	}
	t.Run("the zero template is empty", func(t *testing.T) {
		t.Parallel()
		var tpl *render.Template
		if got, err := tpl.Render(e); got != "" || err != nil {
			t.Errorf("Render = %q, %v", got, err)
		}
	})
}

// mustInvalid fails unless err is a validation error of exactly one field.
func mustInvalid(t *testing.T, err error, field, rule string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeValidation {
		t.Fatalf("error %v, want validation of %s", err, field)
	}
	if len(e.Fields) != 1 || e.Fields[0].Field != field || e.Fields[0].Rule != rule {
		t.Errorf("fields %+v, want %s/%s", e.Fields, field, rule)
	}
}
