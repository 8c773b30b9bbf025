package render

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"fanfare/api"
)

// Languages has an event's payloads in other languages than the default, as far as they differ. All
// payloads of the event share the first Head and the last Tail bytes.
type Languages struct {
	Head int `json:"head"`
	Tail int `json:"tail"`
	// Middle has the bytes between Head and Tail, by locale in lower case.
	Middle map[string]string `json:"middle"`
}

// localized are the templates of one language. One that is nil is missing.
type localized struct{ title, body *Template }

// parseLocalized parses the texts of an event type in other languages, by locale in lower case.
func parseLocalized(texts map[string]api.LocalizedText) (map[string]localized, error) {
	parsed := make(map[string]localized, len(texts))
	var errs []error
	parse := func(field, text string) (t *Template) {
		if text == "" {
			return nil
		}
		t, err := ParseTemplate(field, text)
		errs = append(errs, err)
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		field := "localized[" + name + "]."
		parsed[strings.ToLower(name)] = localized{parse(field+"title", texts[name].Title), parse(field+"body", texts[name].Body)}
	}
	return parsed, joinInvalid(errs)
}

// addLanguages adds the other languages of a type. Each of the two texts is that of the locale, else that
// of the first locale to which it falls back and which has the text, else the default.
func (s *TemplateSet) addLanguages(texts map[string]localized) {
	if len(texts) == 0 {
		return
	}
	languages := make(map[string]*TemplateSet, len(texts))
	for name := range texts {
		in := *s
		in.language = name
		var own localized
		for locale := range fallbacks(name) {
			own.title, own.body = cmp.Or(own.title, texts[locale].title), cmp.Or(own.body, texts[locale].body)
		}
		in.title, in.body = cmp.Or(own.title, s.title), cmp.Or(own.body, s.body)
		languages[name] = &in
	}
	s.languages = languages
}

// fallbacks yields a locale and then what it falls back to, one part less each time, as RFC 4647, 3.4 says: a
// part of one letter goes with what follows it. zh-hant-tw falls back to zh-hant and zh.
func fallbacks(locale string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for locale != "" && yield(locale) {
			locale = locale[:max(0, strings.LastIndexByte(locale, '-'))]
			if n := len(locale); n >= 2 && locale[n-2] == '-' {
				locale = locale[:n-2]
			}
		}
	}
}

// renderLanguages renders the payload in every other language, once each. It returns nil if all are the
// same: the event's own alert is for every language.
func (s *TemplateSet) renderLanguages(id string, e *api.EventRequest, payload json.RawMessage) (*Languages, error) {
	if len(s.languages) == 0 || e.Alert != nil {
		return nil, nil
	}
	payloads := make(map[string]json.RawMessage, len(s.languages))
	head, tail := len(payload), len(payload)
	for _, name := range slices.Sorted(maps.Keys(s.languages)) {
		p, err := s.languages[name].renderPayload(id, e)
		if err != nil {
			return nil, err
		}
		payloads[name] = p
		head = min(head, shared(payload, p, func(b []byte, i int) byte { return b[i] }))
		tail = min(tail, shared(payload, p, func(b []byte, i int) byte { return b[len(b)-1-i] }))
	}
	if head == len(payload) {
		return nil, nil
	}
	return cut(payload, payloads, head, tail)
}

// shared counts the bytes that two payloads share, in the order in which at reads them.
func shared(a, b []byte, at func(b []byte, i int) byte) int {
	for i := range min(len(a), len(b)) {
		if at(a, i) != at(b, i) {
			return i
		}
	}
	return min(len(a), len(b))
}

// cut keeps what lies between the first head and the last tail bytes of all payloads, which share
// these. It cuts between characters, and never more than the shortest payload has.
func cut(payload json.RawMessage, payloads map[string]json.RawMessage, head, tail int) (*Languages, error) {
	for head > 0 && !utf8.RuneStart(payload[head]) {
		head--
	}
	shortest := len(payload)
	for _, p := range payloads {
		shortest = min(shortest, len(p))
	}
	tail = min(tail, shortest-head)
	for tail > 0 && !utf8.RuneStart(payload[len(payload)-tail]) {
		tail--
	}
	l, size := &Languages{Head: head, Tail: tail, Middle: make(map[string]string, len(payloads))}, 0
	for name, p := range payloads {
		l.Middle[name] = string(p[head : len(p)-tail])
		size += len(l.Middle[name])
	}
	if size > api.MaxLocalized {
		return nil, api.Invalid("payload", "max", "would have %d bytes of texts in its languages; the limit is %d", size, api.MaxLocalized).
			With("size", size).With("limit", api.MaxLocalized)
	}
	return l, nil
}

// Language is the language in which a device with this locale gets the push: one of Languages, or "" for
// the default.
func (p *Push) Language(locale string) string {
	if p.Languages == nil || locale == "" {
		return ""
	}
	for name := range fallbacks(strings.ToLower(locale)) {
		if _, ok := p.Languages.Middle[name]; ok {
			return name
		}
	}
	return ""
}

// In is the push in one language, "" for the default, without the others. The push itself stays as it is.
func (p *Push) In(language string) *Push {
	l := p.Languages
	if l == nil {
		return p
	}
	in := *p
	in.Languages = nil
	if middle, ok := l.Middle[language]; ok && l.Head >= 0 && l.Tail >= 0 && l.Head+l.Tail <= len(p.Payload) {
		in.Payload = slices.Concat(p.Payload[:l.Head], json.RawMessage(middle), p.Payload[len(p.Payload)-l.Tail:])
	}
	return &in
}
