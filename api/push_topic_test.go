package api

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestA5_TopicsOfPushTypes: Apple's table of push types and the topics they need.
func TestA5_TopicsOfPushTypes(t *testing.T) {
	t.Parallel()
	const app = "com.example.app"
	types := map[PushType]string{
		PushAlert: "", PushBackground: "", "": "", PushLocation: ".location-query", PushVoIP: ".voip",
		PushComplication: ".complication", "fileprovider": ".pushkit.fileprovider", PushLiveActivity: ".push-type.liveactivity",
		PushPushToTalk: ".voip-ptt", PushWidgets: ".push-type.widgets", PushControls: ".push-type.controls",
	}
	for p, needs := range types {
		for _, has := range types {
			if got := p.Takes(app + has); got != (has == needs) {
				t.Errorf("%q takes %s: %v", p, app+has, got)
			}
		}
	}
}

// TestTopicsOfEvents: one topic or a list; anything else is refused, naming the field.
func TestTopicsOfEvents(t *testing.T) {
	t.Parallel()
	v := NewValidator()
	for text, want := range map[string]string{
		`"com.example.app"`: "", `["a","b"]`: "", `["a"]`: "", `null`: "",
		`""`: "topic", `[]`: "topic", `["a",""]`: "topic[1]", `["a b"]`: "topic", `"a/b"`: "topic",
		`[` + strings.Repeat(`"a",`, MaxEventTopics) + `"a"]`: "topic",
	} {
		var e EventRequest
		mustRead(t, []byte(`{"type":"hello","audience":{"all":true},"topic":`+text+`}`), &e)
		var et EventTypeRequest
		mustRead(t, []byte(`{"title":"hi","topic":`+text+`}`), &et)
		for _, wrong := range [][]FieldError{v.Check(&e), v.Check(&et)} {
			got := ""
			if len(wrong) > 0 {
				got = wrong[0].Field
			}
			if got != want {
				t.Errorf("%s: the wrong field is %q, want %q: %v", text, got, want, wrong)
			}
		}
		if want == "" && text[0] == '"' {
			if b, _ := json.Marshal(&et); !strings.Contains(string(b), `"topic":[`+text+`]`) {
				t.Errorf("%s came back in %s", text, b)
			}
		}
	}
	for _, text := range []string{`5`, `{}`, `[5]`, `true`} {
		if json.Unmarshal([]byte(text), new(Topics)) == nil {
			t.Errorf("%s was accepted", text)
		}
	}
}

func mustRead(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}
