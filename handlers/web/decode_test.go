package web

import (
	"reflect"
	"strings"
	"testing"

	"fanfare/api"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"order and space":     {`{"a":1,"b":[1,2]}`, "{ \"b\" : [1, 2],\n\"a\":1 }", true},
		"spelling of strings": {`{"a":"\u00fc\/"}`, `{"a":"ü/"}`, true},
		"spelling of numbers": {`{"a":1.50}`, `{"a":15e-1}`, true},
		"order in a list":     {`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		"null and absent":     {`{"a":null}`, `{}`, false},
		"beyond 2^53":         {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"a string and number": {`{"a":"1"}`, `{"a":1}`, false},
		"no body and none":    {``, ``, true},
		"no body and {}":      {``, `{}`, false},
	} {
		if same := string(canonical([]byte(c.a))) == string(canonical([]byte(c.b))); same != c.same {
			t.Errorf("%s: %s and %s: same is %v", name, c.a, c.b, same)
		}
	}
	t.Run("leaves the body alone", func(t *testing.T) {
		t.Parallel()
		body := []byte(`{"b":1,"a":2}`)
		canonical(body)
		if string(body) != `{"b":1,"a":2}` {
			t.Errorf("%s", body)
		}
	})
}

func TestJSONPath(t *testing.T) {
	t.Parallel()
	of := reflect.TypeFor[api.EventBatchRequest]()
	for pointer, want := range map[string]string{
		"":                              "",
		"/events":                       "events",
		"/events/3/audience/users/0":    "events[3].audience.users[0]",
		"/events/3/data/0":              "events[3].data.0",
		"/events/0/data/a~1b":           "events[0].data.a/b",
		"/events/0/alert/title":         "events[0].alert.title",
		"/events/0/nobody/knows/1":      "events[0].nobody.knows.1",
		"/" + strings.Repeat("x", 5000): strings.Repeat("x", 100) + "...",
		"/a\nb\x00":                     `a\nb\x00`,
	} {
		if got := jsonPath(of, jsontext.Pointer(pointer)); got != want {
			t.Errorf("%s: %s, want %s", shorten(pointer), got, want)
		}
	}
}
