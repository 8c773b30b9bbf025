package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/getkin/kin-openapi/openapi3"
)

// patchAnswers gives every answer of a call its own example, and problems their media type.
func patchAnswers(doc *openapi3.T, op *openapi3.Operation) error {
	for _, status := range slices.Sorted(maps.Keys(op.Responses.Map())) {
		r := op.Responses.Value(status)
		if r.Ref != "" {
			continue // shared
		}
		for name, media := range r.Value.Content { // exactly one: the media type that the call produces
			number, _ := strconv.Atoi(status)
			switch {
			case media.Schema.Ref == problemRef:
				r.Value.Content = openapi3.Content{problemJSON: problemMedia(number, *r.Value.Description)}
				if len(r.Value.Content[problemJSON].Examples) == 0 {
					return fmt.Errorf("%s: the words about %s name no code", op.OperationID, status)
				}
			case name == "text/event-stream":
				if err := describeStream(doc, op, media); err != nil {
					return err
				}
			case name == "text/plain":
				media.Example = "# HELP fanfare_http_in_flight_requests Requests being answered.\n# TYPE fanfare_http_in_flight_requests gauge\nfanfare_http_in_flight_requests 1\n"
			default:
				media.Example = exampleOf(media.Schema)
				for name, value := range ownState[op.OperationID] {
					media.Example.(map[string]any)[name] = value
				}
				if number == http.StatusServiceUnavailable { // readiness
					media.Example.(map[string]any)["ready"] = false
				}
			}
		}
	}
	return nil
}

// exampleOf makes an example of a schema from the examples of its properties. An optional property
// without an example is left out.
func exampleOf(ref *openapi3.SchemaRef) any {
	s := ref.Value
	switch {
	case s.Example != nil:
		return s.Example
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AllOf) > 0:
		return exampleOf(s.AllOf[0])
	case s.Type.Is("array"):
		return []any{exampleOf(s.Items)}
	case s.Type.Is("boolean"):
		return false
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 0
	case s.Type.Is("object") && s.AdditionalProperties.Schema != nil:
		return map[string]any{"team": exampleOf(s.AdditionalProperties.Schema)}
	case s.Type.Is("object"):
		return objectExample(s)
	}
	return ""
}

func objectExample(s *openapi3.Schema) map[string]any {
	out := map[string]any{}
	required := map[string]bool{}
	for _, name := range s.Required {
		required[name] = true
	}
	for name, property := range s.Properties {
		if required[name] || property.Value.Example != nil {
			out[name] = exampleOf(property)
		}
	}
	return out
}
