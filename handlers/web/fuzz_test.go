package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"fanfare/api"
)

// FuzzDecode: every body is either accepted, or refused with the place of the mistake. An accepted
// body has the same meaning in its canonical form.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"events":[{"type":"a","audience":{"users":["bob"]},"data":{"a/b":"x"}}]}`, `{"events":[{"audience":{"users":[1]}}]}`,
		`{"events":{}}`, `{"events":[],"events":[]}`, `{"x":1}`, `{"items":[{"sku":"a","stock":1e400}]}`, `{"starts_at":"now"}`,
		`{"acks":{"team":9007199254740993}}`, `{"title":"\ud800"}`, "{\"title\":\"\xff\"}", `{"a":{"b":[[[[`, `null`, `0`, ``, `{} {}`, strings.Repeat(`[`, 20_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, of := range []any{api.EventBatchRequest{}, api.EventTypeRequest{}, api.SaleRequest{}, api.AckRequest{}} {
			into := reflect.New(reflect.TypeOf(of))
			if err := decode(body, into.Interface()); err != nil {
				mustBeToldWell(t, body, err)
				continue
			}
			again := reflect.New(reflect.TypeOf(of))
			if err := decode(canonical(body), again.Interface()); err != nil || !reflect.DeepEqual(into.Interface(), again.Interface()) {
				t.Fatalf("%s is another in its canonical form %s: %v", body, canonical(body), err)
			}
		}
	})
}

// mustBeToldWell checks the error text about a body: it is short, and nothing in it breaks the
// answer or the log.
func mustBeToldWell(t *testing.T, body []byte, err error) {
	t.Helper()
	e, ok := err.(*api.Error)
	if !ok || e.Code != api.CodeInvalidJSON {
		t.Fatalf("%q: %v", body, err)
	}
	field := ""
	if len(e.Fields) == 1 {
		field = e.Fields[0].Field
	}
	if !utf8.ValidString(e.Detail) || strings.ContainsAny(e.Detail, "\n\r\x00") || len(field) > 64<<10 {
		t.Fatalf("%q is told as %q", body, e.Detail)
	}
	mustBeProblem(t, e)
}

// mustBeProblem writes an error as a problem and reads it again.
func mustBeProblem(t *testing.T, e *api.Error) {
	t.Helper()
	text, err := appendProblem(nil, &api.Problem{Type: problemType + string(e.Code), Title: "t", Status: 400, Detail: e.Detail, Code: e.Code, RequestID: "r", Errors: e.Fields}, e.Facts)
	if err != nil {
		t.Fatal(err)
	}
	var read api.Problem
	if err := json.Unmarshal(text, &read); err != nil || !utf8.Valid(text) || len(read.Errors) != len(e.Fields) {
		t.Fatalf("%s: %v", text, err)
	}
	if utf8.ValidString(e.Detail) && read.Detail != e.Detail {
		t.Fatalf("%q is read as %q", e.Detail, read.Detail)
	}
}

// FuzzText: arbitrary headers, cursors and tags.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", `"1"`, `W/"1"`, `"-1"`, `"01"`, `"9223372036854775808"`, "*", `"a\"b"`, `"a\\"`, "MWE", "MQ", "!", "Bearer x", "bearer  ",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "500/s", "\x00", "\xff", "ü", strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tags, ok := ParseTags(text)
		for _, tag := range tags {
			if strings.ContainsRune(tag.Opaque, '"') || !strings.Contains(text, `"`+tag.Opaque+`"`) {
				t.Fatalf("the tags %q hold %q", text, tag.Opaque)
			}
		}
		if ok != (len(tags) > 0) {
			t.Fatalf("the tags %q are %v, %t", text, tags, ok)
		}
		if inner, err := OpenCursor(SealCursor(text)); err != nil || inner != text {
			t.Fatalf("the cursor of %q holds %q, %v", text, inner, err)
		}
		if _, err := OpenCursor(text); err != nil && api.CodeOf(err) != api.CodeValidation {
			t.Fatalf("the cursor %q: %v", text, err)
		}
		key, err := idempotencyKey(http.Header{"Idempotency-Key": {text}})
		if err == nil && (key == "" || len(key) > 255 || !printable(key)) || err != nil && api.CodeOf(err) != api.CodeInvalidRequest {
			t.Fatalf("the idempotency key %q is %q, %v", text, key, err)
		}
		if secret, ok := bearer(http.Header{"Authorization": {text}}); ok && (secret == "" || secret != strings.TrimSpace(secret)) {
			t.Fatalf("the key of %q is %q", text, secret)
		}
		if id := traceID(text); id != "" && (len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "") {
			t.Fatalf("the trace id of %q is %q", text, id)
		}
		var rate, again RateLimit
		if rate.UnmarshalText([]byte(text)) == nil && (again.UnmarshalText([]byte(rate.String())) != nil || again != rate) {
			t.Fatalf("the rate %q is %v, and read again %v", text, rate, again)
		}
		mustBeProblem(t, &api.Error{Code: api.CodeValidation, Detail: text, Facts: map[string]any{"status": 1, text: text},
			Fields: []api.FieldError{{Field: text, Rule: "x", Message: text}}})
	})
}
