package render

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"fanfare/api"
)

// TestTextIsWhatTheEncoderWrites: strings and objects are written by hand, and come
// out as encoding/json writes them.
func TestTextIsWhatTheEncoderWrites(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a\u2028", "\u2029", "\xff", "ü", "\x7f", `"`, `\`, "<&>", "\n", "\x00", "日本"}))
	rapid.Check(t, func(rt *rapid.T) {
		s := text.Draw(rt, "string")
		if got, want := string(appendQuote(nil, s)), string(marshal(s)); got != want {
			rt.Fatalf("%q: %s, want %s", s, got, want)
		}
		m := rapid.MapOfN(text, text, 0, 20).Draw(rt, "object")
		if got, want := string(appendObject(nil, m, appendQuote)), string(marshal(m)); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
		raw := map[string]json.RawMessage{s: json.RawMessage(`{"x":[1.50]}`)}
		if got, want := string(appendObject(nil, raw, appendRaw)), string(marshal(raw)); got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
		a := api.Alert{Title: text.Draw(rt, "title"), Body: text.Draw(rt, "body")}
		if got, want := string(appendAlert(nil, a)), string(marshal(a)); a != (api.Alert{}) && got != want {
			rt.Fatalf("%s, want %s", got, want)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	set, err := NewTemplateSet(&api.EventTypeRequest{Title: "New photo", Body: "{{.actor}} shared {{.data.album}}", Sound: "default"})
	if err != nil {
		b.Fatal(err)
	}
	e := &api.EventRequest{Type: "photo.shared", Actor: "alice", Object: "album:42", Audience: api.Audience{Users: []string{"bob"}}, Data: map[string]string{"album": "Summer"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Render("0f5bv1cb2h5i1k6rthd7gfs3kq4m4o3e", e); err != nil {
			b.Fatal(err)
		}
	}
}
