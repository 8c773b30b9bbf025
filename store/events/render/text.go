package render

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"fanfare/api"
)

// appendAlert writes an alert that has a title or a body.
func appendAlert(b []byte, a api.Alert) []byte {
	if a.Title == "" {
		return append(appendQuote(append(b, `{"body":`...), a.Body), '}')
	}
	b = appendQuote(append(b, `{"title":`...), a.Title)
	if a.Body != "" {
		b = appendQuote(append(b, `,"body":`...), a.Body)
	}
	return append(b, '}')
}

// appendObject writes members in the order of their names.
func appendObject[V any](b []byte, members map[string]V, appendValue func([]byte, V) []byte) []byte {
	names := make([]string, 0, 16)
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	separator := byte('{')
	for _, name := range names {
		b = append(appendQuote(append(b, separator), name), ':')
		b = appendValue(b, members[name])
		separator = ','
	}
	if len(names) == 0 {
		b = append(b, '{')
	}
	return append(b, '}')
}

func appendRaw(b []byte, value json.RawMessage) []byte { return append(b, value...) }

// appendQuote writes s as JSON, as marshal does.
func appendQuote(b []byte, s string) []byte {
	if !plain(s) {
		return append(b, marshal(s)...)
	}
	return append(append(append(b, '"'), s...), '"')
}

// plain reports whether s needs no escaping in JSON.
func plain(s string) bool {
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c >= utf8.RuneSelf:
			ascii = false
		case c < ' ' || c == '"' || c == '\\':
			return false
		}
	}
	return ascii || utf8.ValidString(s) && !strings.ContainsAny(s, "\u2028\u2029") // JavaScript takes these two for ends of lines
}

// marshal writes values that cannot fail. It does not escape <, > and &, which is only needed in
// web pages, because APNs counts the bytes.
func marshal(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
