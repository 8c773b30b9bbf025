package web

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"fanfare/api"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decode reads one JSON object into v, a pointer. Duplicate and unknown names,
// wrong types, text that is not UTF-8 and anything after the object are
// CodeInvalidJSON, naming the field. A time out of range is CodeValidation.
func decode(body []byte, v any) error {
	err := json.Unmarshal(body, v, json.RejectUnknownMembers(true))
	if err != nil {
		return explainJSON(err, reflect.TypeOf(v).Elem())
	}
	if k := jsontext.Value(body).Kind(); k != '{' {
		return invalidJSON("", "must be an object, not "+kindName(k)) // the decoder takes null for any type
	}
	return nil
}

// explainJSON turns the decoder's errors into a field and a sentence.
func explainJSON(err error, into reflect.Type) error {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return invalidJSON(jsonPath(into, syntax.JSONPointer), syntaxMessage(syntax))
	case errors.As(err, &meaning) && errors.Is(meaning.Err, api.ErrTimeRange):
		return api.Invalid(jsonPath(into, meaning.JSONPointer), "range", "%v", api.ErrTimeRange)
	case errors.As(err, &meaning):
		return invalidJSON(jsonPath(into, meaning.JSONPointer), meaningMessage(meaning))
	default:
		return invalidJSON("", "is not valid JSON")
	}
}

func invalidJSON(field, message string) error {
	e := &api.Error{Code: api.CodeInvalidJSON, Detail: "the body " + message}
	if field != "" {
		e.Detail = field + " " + message
		e.Fields = []api.FieldError{{Field: field, Rule: "json", Message: message}}
	}
	return e
}

func syntaxMessage(err *jsontext.SyntacticError) string {
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "appears twice"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "ends before the JSON does"
	case strings.Contains(err.Err.Error(), "after top-level value"):
		return fmt.Sprintf("must be one JSON value, but more follows at byte %d", err.ByteOffset)
	case strings.Contains(err.Err.Error(), "UTF-8"):
		return fmt.Sprintf("is not UTF-8 at byte %d", err.ByteOffset)
	default:
		return fmt.Sprintf("is not valid JSON at byte %d", err.ByteOffset)
	}
}

func meaningMessage(err *json.SemanticError) string {
	switch {
	case errors.Is(err.Err, json.ErrUnknownName):
		return "is not a field of this call"
	case err.GoType == reflect.TypeFor[api.Time]() && err.JSONKind != 0:
		return "must be an RFC 3339 time such as 2026-01-02T15:04:05.000Z"
	case err.GoType == nil:
		return "has a wrong value"
	case len(err.JSONValue) > 0 && err.JSONKind == '0':
		return fmt.Sprintf("must be %s, not the number %s", typeName(err.GoType), shorten(string(err.JSONValue)))
	default:
		return fmt.Sprintf("must be %s, not %s", typeName(err.GoType), kindName(err.JSONKind))
	}
}

// typeName is the JSON name of the values that fit a Go type.
func typeName(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Slice, reflect.Array:
		return "an array"
	default:
		if t == reflect.TypeFor[api.Time]() {
			return "an RFC 3339 time"
		}
		return "an object"
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "true or false"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '[':
		return "an array"
	case '{':
		return "an object"
	default:
		return "this"
	}
}

// jsonPath writes a JSON pointer the way that fanfare's errors name fields: dots between names,
// brackets around indexes. The Go type tells names and indexes apart.
func jsonPath(t reflect.Type, p jsontext.Pointer) string {
	var b strings.Builder
	for token := range p.Tokens() {
		t = indirect(t)
		if t != nil && t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
			b.WriteString("[" + token + "]")
			t = t.Elem()
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(shorten(token))
		t = member(t, token)
	}
	return b.String()
}

func indirect(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// member is the type of the named member of t, nil when there is none.
func member(t reflect.Type, name string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}

// shorten shortens a caller's text and removes control characters, so that a reply can contain it.
func shorten(s string) string {
	const most = 100
	s = strings.ToValidUTF8(s, "?")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// canonical returns body in the form of RFC 8785: names sorted, no white space, one spelling of
// strings and numbers. So two bodies with the same meaning are equal. Integers keep their digits,
// because the RFC makes different integers beyond 2^53 equal. An empty body stays empty.
func canonical(body []byte) []byte {
	v := jsontext.Value(body).Clone()
	if len(v) == 0 || v.Canonicalize(jsontext.CanonicalizeRawInts(false)) != nil {
		return body
	}
	return v
}
