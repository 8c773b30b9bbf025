package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"fanfare/api"
	"fanfare/openapi"
)

// eachAnswer calls fn with every answer of every call, including shared answers, once per media type.
func eachAnswer(doc *openapi3.T, fn func(name string, status int, media string, content *openapi3.MediaType)) {
	for call, op := range operations(doc) {
		for text, r := range op.Responses.Map() {
			status, _ := strconv.Atoi(text)
			for media, content := range r.Value.Content {
				fn(fmt.Sprint(call, " ", status), status, media, content)
			}
		}
	}
}

// Every answer has its own examples. A problem has one example for each code that its description
// names, with the code's status.
func TestEveryAnswerHasExamplesOfItsOwn(t *testing.T) {
	t.Parallel()
	doc := mustLoad(t)
	answers := 0
	eachAnswer(doc, func(name string, status int, media string, content *openapi3.MediaType) {
		answers++
		if media != problemJSON {
			checkExample(t, name, content.Example)
			return
		}
		if len(content.Examples) == 0 {
			t.Errorf("%s: no example", name)
		}
		for code, example := range content.Examples {
			value, _ := example.Value.Value.(map[string]any)
			if value["code"] != code || value["status"] != float64(status) || api.MeaningOf(api.Code(code)).Status != status || value["detail"] == "" {
				t.Errorf("%s shows %v", name, value)
			}
			if value["type"] != "urn:fanfare:problem:"+code || (status == 429 || status == 503) && value["retry_after_ms"] == nil {
				t.Errorf("%s shows %v", name, value)
			}
		}
	})
	if answers < 300 {
		t.Errorf("only %d answers were looked at", answers)
	}
}

// checkExample requires an example without empty values.
func checkExample(t *testing.T, name string, example any) {
	t.Helper()
	text, err := json.Marshal(example)
	if err != nil || example == nil || regexp.MustCompile(`":""|\[""|\[\]|\{\}`).Match(text) {
		t.Errorf("%s has the example %s", name, text)
	}
}

func TestTheExamplesShowWhatTheCallsDo(t *testing.T) {
	t.Parallel()
	all := operations(mustLoad(t))
	for call, want := range map[string]string{
		"POST /v1/sales/{sale}/reservations 409":              "limit_reached not_started sold_out",
		"PUT /v1/sales/{sale} 409":                            "bounds conflict id_used",
		"DELETE /v1/sales/{sale} 409":                         "owed sale_open",
		"PUT /v1/sales/{sale} 412":                            "version_mismatch",
		"DELETE /v1/event-types/{type} 412":                   "version_mismatch",
		"POST /v1/events 413":                                 "payload_too_large",
		"POST /v1/events 422":                                 "already_expired idempotency_key_reused reserved_key unknown_event_type validation_failed",
		"POST /v1/events/batch 422":                           "validation_failed",
		"GET /v1/stats 503":                                   "overloaded unavailable unknown_outcome",
		"GET /v1/users/{user}/messages/stream 503":            "overloaded unavailable",
		"GET /v1/sales/{sale}/reservations/{id} 404":          "not_found sale_not_found",
		"POST /v1/sales/{sale}/reservations/{id}/confirm 409": "not_held",
	} {
		at := strings.LastIndex(call, " ")
		examples := all[call[:at]].Responses.Value(call[at+1:]).Value.Content[problemJSON].Examples
		if got := strings.Join(slices.Sorted(maps.Keys(examples)), " "); got != want {
			t.Errorf("%s: %s, want %s", call, got, want)
		}
	}
	things := []string{"sale", "event_type", "webhook", "value"}
	for call, thing := range map[string]string{"PUT /v1/sales/{sale}": "sale", "PUT /v1/event-types/{type}": "event_type", "PUT /v1/webhooks/{id}": "webhook", "DELETE /v1/webhooks/{id}": "webhook"} {
		mismatch := all[call].Responses.Status(412).Value.Content[problemJSON].Examples["version_mismatch"].Value.Value.(map[string]any)
		for _, other := range things {
			if _, has := mismatch[other]; has != (other == thing) {
				t.Errorf("%s shows %v", call, mismatch)
			}
		}
	}
	confirmed := all["POST /v1/sales/{sale}/reservations/{id}/confirm"].Responses.Status(200).Value.Content["application/json"].Example
	if confirmed.(map[string]any)["state"] != "sold" {
		t.Errorf("confirmed: %v", confirmed)
	}
}

// eachProperty calls fn with every property of every component, including nested ones.
func eachProperty(doc *openapi3.T, fn func(schema, name string, p *openapi3.SchemaRef)) {
	for schema, ref := range doc.Components.Schemas {
		for name, p := range ref.Value.Properties {
			fn(schema, name, p)
		}
	}
}

// Every property has a description that uses JSON names and no Go names. No property has a default
// in the schema, because generators would take the property for one that is always present.
func TestEveryPropertyIsDescribed(t *testing.T) {
	t.Parallel()
	properties := 0
	eachProperty(mustLoad(t), func(schema, name string, p *openapi3.SchemaRef) {
		properties++
		about := p.Value.Description
		first, _, _ := strings.Cut(about, " ")
		switch {
		case p.Ref != "" || about == "":
			t.Errorf("%s.%s is not described", schema, name)
		case regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z][a-z]+(ID|MS)\b`).MatchString(strings.ReplaceAll(about, "KiB", "")),
			first == strings.ToUpper(first[:1])+strings.ReplaceAll(name, "_", "")[1:] && strings.Contains(about, first+" is"):
			t.Errorf("%s.%s has words of Go: %s", schema, name, about)
		}
		if p.Value.Default != nil || strings.Count(about, "Default: ") > 1 {
			t.Errorf("%s.%s has a default, or names it twice", schema, name)
		}
	})
	if properties < 250 {
		t.Errorf("only %d properties were looked at", properties)
	}
}

// Every integer in the document is an int64 with a minimum and a maximum. The maximum is a value
// that a JavaScript number holds exactly.
func TestEveryIntegerHasAFormatAndABound(t *testing.T) {
	t.Parallel()
	doc, integers := mustLoad(t), 0
	var walk func(where string, ref *openapi3.SchemaRef)
	walk = func(where string, ref *openapi3.SchemaRef) {
		if ref == nil || ref.Value == nil || ref.Ref != "" {
			return
		}
		s := ref.Value
		if s.Type.Is("integer") {
			integers++
			if s.Format != "int64" || s.Enum == nil && (s.Min == nil || s.Max == nil || *s.Max > 1<<53-1) {
				t.Errorf("%s: format %q, minimum %v, maximum %v", where, s.Format, s.Min, s.Max)
			}
		}
		for name, p := range s.Properties {
			walk(where+"."+name, p)
		}
		walk(where+"[]", s.Items)
		walk(where+"{}", s.AdditionalProperties.Schema)
	}
	for name, ref := range doc.Components.Schemas {
		walk(name, openapi3.NewSchemaRef("", ref.Value))
	}
	for call, op := range operations(doc) {
		for _, p := range op.Parameters {
			walk(call+" "+p.Value.Name, p.Value.Schema)
		}
	}
	if integers < 80 {
		t.Errorf("only %d integers were looked at", integers)
	}
}

// The members that only problems of some codes have are typed.
func TestProblemHasItsFacts(t *testing.T) {
	t.Parallel()
	problem := mustLoad(t).Components.Schemas["Problem"].Value
	for name, kind := range map[string]string{
		"available": "object", "remaining": "integer", "matched": "integer", "version": "integer", "retry_after_ms": "integer", "max_bytes": "integer", "state": "string", "scope": "string",
		"attempt": "integer", "first": "boolean",
	} {
		if p := problem.Properties[name]; p == nil || !p.Value.Type.Is(kind) {
			t.Errorf("%s is not %s", name, kind)
		}
		for _, required := range problem.Required {
			if required == name {
				t.Errorf("%s is not in every problem", name)
			}
		}
	}
	if units := problem.Properties["available"].Value.AdditionalProperties.Schema; units == nil || !units.Value.Type.Is("integer") {
		t.Error("available has no units")
	}
	for name, schema := range map[string]string{"sale": "Sale", "event_type": "EventType"} {
		if thing := problem.Properties[name]; thing == nil || thing.Value.AllOf[0].Ref != "#/components/schemas/"+schema {
			t.Errorf("%s is no %s", name, schema)
		}
	}
	if !slices.Contains(problem.Required, "retryable") || !problem.Properties["retryable"].Value.Type.Is("boolean") {
		t.Error("a problem need not say whether it is retryable")
	}
}

// The description of a stream names its events, and the data of each event is a component.
func TestStreamsNameTheirEvents(t *testing.T) {
	t.Parallel()
	doc, streams := mustLoad(t), map[string][]string{}
	events := regexp.MustCompile("`event: (\\w+)`.* `(\\w+)`\\.")
	eachAnswer(doc, func(name string, _ int, media string, content *openapi3.MediaType) {
		if media != "text/event-stream" {
			return
		}
		call := name[:strings.LastIndex(name, " ")]
		streams[call] = []string{}
		for _, event := range events.FindAllStringSubmatch(operations(doc)[call].Description, -1) {
			streams[call] = append(streams[call], event[1]+" "+event[2])
			if doc.Components.Schemas[event[2]] == nil {
				t.Errorf("%s: there is no %s", call, event[2])
			}
			if !strings.Contains(operations(doc)[call].Description, "event: "+event[1]+"\ndata: {") {
				t.Errorf("%s does not show %s as it is sent", call, event[1])
			}
			if got := eventData(content.Schema, event[1]); got != "#/components/schemas/"+event[2] {
				t.Errorf("%s: the data of %s is %q", call, event[1], got)
			}
		}
		if len(streams[call]) == 0 {
			t.Errorf("%s names no events", call)
		}
	})
	for call, want := range map[string]string{
		"GET /v1/users/{user}/messages/stream": "[bye Bye gap StreamGap message StreamMessage read StreamRead redacted StreamRedacted typing StreamTyping]",
		"GET /v1/stats/stream":                 "[stats Stats unavailable Unavailable]",
		"GET /v1/sales/{sale}/stream":          "[bye Bye stock Availability]",
	} {
		if got := fmt.Sprint(streams[call]); got != want {
			t.Errorf("%s: %s", call, got)
		}
	}
}

// eventData is the component of an event's data, from the only alternative with the event's name.
func eventData(stream *openapi3.SchemaRef, name string) (data string) {
	for _, event := range stream.Value.OneOf {
		if event.Value.Properties["event"].Value.Enum[0] == name {
			data += event.Value.Properties["data"].Value.AllOf[0].Ref
		}
	}
	return data
}

// Every code has an example somewhere, except `method_not_allowed`, which belongs to no call.
func TestEveryCodeHasAnExample(t *testing.T) {
	t.Parallel()
	doc := mustLoad(t)
	shown := map[string]bool{string(api.CodeMethodNotAllowed): true}
	eachAnswer(doc, func(_ string, _ int, _ string, content *openapi3.MediaType) {
		for code := range content.Examples {
			shown[code] = true
		}
	})
	codes := doc.Components.Schemas["Code"].Value.Enum
	for _, code := range codes {
		if !shown[code.(string)] {
			t.Errorf("%s has no example", code)
		}
	}
	if len(codes) < 25 {
		t.Errorf("only %d codes were looked at", len(codes))
	}
}

// Every component is used: linters require it, and generators leave out unused components.
func TestEveryComponentIsUsed(t *testing.T) {
	t.Parallel()
	for name := range mustLoad(t).Components.Schemas {
		if !strings.Contains(string(openapi.JSON()), `"$ref": "#/components/schemas/`+name+`"`) {
			t.Errorf("nothing refers to %s", name)
		}
	}
}

// Each call has exactly one tag. Each tag has a description and is used.
func TestTagsAreFeatures(t *testing.T) {
	t.Parallel()
	doc, used := mustLoad(t), map[string]bool{}
	for call, op := range operations(doc) {
		if len(op.Tags) != 1 || doc.Tags.Get(op.Tags[0]) == nil {
			t.Errorf("%s: tags %v", call, op.Tags)
			continue
		}
		used[op.Tags[0]] = true
	}
	for _, tag := range doc.Tags {
		if tag.Description == "" || !used[tag.Name] {
			t.Errorf("tag %s: %q, used %v", tag.Name, tag.Description, used[tag.Name])
		}
	}
}
