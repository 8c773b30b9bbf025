package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// dataFits reports whether a map of strings has at most so many bytes as JSON. It is encoded only if it
// could have more when every byte is escaped.
func dataFits(v reflect.Value, most int) bool {
	data, ok := v.Interface().(map[string]string)
	size := len(`{}`)
	for name, value := range data {
		size += 6*(len(name)+len(value)) + len(`"":"",`)
	}
	return ok && (size <= most || jsonSize(data) <= most)
}

// objectRules requires a field to be a JSON object of at most so many bytes.
func objectRules(to reporter, object json.RawMessage, field string, most int) {
	if len(object) == 0 || string(object) == "null" {
		return
	}
	if object[0] != '{' {
		to.ReportError(object, field, field, "object", "")
		return
	}
	if len(object) <= most {
		return
	}
	if short, err := ShortestJSON(object); err == nil && len(short) > most {
		to.ReportError(object, field, field, "max", fmt.Sprint(most))
	}
}

// ShortestJSON is a JSON value without blanks and without escapes that it does not need, so that its size does not
// depend on how the caller's library writes characters. Numbers stay as they are.
func ShortestJSON(raw json.RawMessage) (json.RawMessage, error) {
	short := jsontext.Value(bytes.Clone(raw))
	err := short.Format(jsontext.PreserveRawStrings(false))
	return json.RawMessage(short), err
}

// jsonSize is the size of v in bytes as JSON without escaping for HTML.
func jsonSize(v any) int {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return 0
	}
	return b.Len() - 1 // without the newline that Encode adds
}
