package main

import (
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// patchSchemas corrects the schemas of types that swag does not fully understand, and describes
// every property.
func patchSchemas(schemas openapi3.Schemas) {
	shown := schemas["EventType"].Value // see api.EventType.InForce
	shown.Required = append(shown.Required, "push_type", "collapse", "retry_unknown")
	addFacts(schemas)
	addStreamEvents(schemas)
	for schema, ref := range schemas {
		for name, property := range ref.Value.Properties {
			ref.Value.Properties[name] = described(schema, name, property)
			patchProperty(name, ref.Value.Properties[name].Value)
			ref.Value.Properties[name].Value.Example = sample(schema, name, property.Value.Example)
		}
		bound(ref.Value)
	}
}

// addFacts adds the members that only problems of some codes have.
func addFacts(schemas openapi3.Schemas) {
	problem := schemas["Problem"].Value
	integer, text := openapi3.NewInt64Schema, openapi3.NewStringSchema
	units := openapi3.NewObjectSchema().WithAdditionalProperties(integer())
	for name, schema := range map[string]*openapi3.Schema{
		"available": units, "remaining": integer(), "matched": integer(), "attempt": integer(), "version": integer(), "max_bytes": integer(), "limit": integer(), "size": integer(),
		"state": text(), "scope": text(), "reason": text(), "first": openapi3.NewBoolSchema(), "value": openapi3.NewSchema(),
	} {
		problem.WithProperty(name, schema)
	}
	for name, schema := range map[string]string{"sale": "Sale", "event_type": "EventType", "webhook": "Webhook"} {
		problem.Properties[name] = openapi3.NewSchemaRef("#/components/schemas/"+schema, schemas[schema].Value)
	}
}

// described gives a property its description, from the table words or else from the field's comment.
// In OpenAPI 3.0 a reference cannot have a description, so it is wrapped.
func described(schema, name string, property *openapi3.SchemaRef) *openapi3.SchemaRef {
	if property.Ref != "" {
		whole := openapi3.NewSchema()
		whole.AllOf = openapi3.SchemaRefs{property}
		property = openapi3.NewSchemaRef("", whole)
	}
	p := property.Value
	if about := words[schema+"."+name]; about != "" {
		p.Description = about
	} else if p.Description == "" {
		p.Description = words[name]
	}
	p.Description = jsonWords(p.Description, name)
	if p.Default != nil { // generators would take the field for one that is always present
		if !strings.Contains(p.Description, "Default: ") {
			p.Description += fmt.Sprintf(". Default: `%v`", p.Default)
		}
		p.Default = nil
	}
	return property
}

// jsonWords replaces the Go field's name at the beginning of a comment by the property's JSON name.
func jsonWords(about, name string) string {
	about = strings.ReplaceAll(strings.TrimSuffix(about, "."), "\n", " ")
	first, rest, _ := strings.Cut(about, " ")
	if goName(first, name) {
		return "`" + name + "` " + rest
	}
	return about
}

// goName reports whether word is the Go name of a property.
func goName(word, name string) bool {
	return strings.EqualFold(word, strings.ReplaceAll(name, "_", "")) && word[:1] != strings.ToLower(word[:1])
}

// patchProperty adds what Go types do not express: times, JSON that is passed on unchanged, and null where
// browsers write it.
func patchProperty(name string, property *openapi3.Schema) {
	switch {
	case name == "until" || strings.HasSuffix(name, "_at"):
		property.Format = "date-time"
	case name == "value" && property.Type.Is("object"), name == "payload":
		property.Type = nil // any JSON
	case name == "aps" || name == "fcm" || name == "content_state" || name == "attributes":
		property.AdditionalProperties = openapi3.AdditionalProperties{Has: openapi3.Ptr(true)}
	case name == "expirationTime":
		property.Nullable = true
	}
}

// maxInteger is the largest integer that a number of JavaScript holds exactly.
const maxInteger = 1<<53 - 1

// bound sets the range of all numbers of a schema and of the schemas within it. A number without a
// rule is a count, so it is at least 0.
func bound(s *openapi3.Schema) {
	if s == nil {
		return
	}
	if s.Type.Is("integer") {
		s.Format = "int64"
		if s.Max == nil && s.Enum == nil {
			s.WithMax(maxInteger)
		}
	}
	if (s.Type.Is("integer") || s.Type.Is("number")) && s.Min == nil && s.Enum == nil {
		s.WithMin(0)
	}
	for _, property := range s.Properties {
		if property.Ref == "" {
			bound(property.Value)
		}
	}
	for _, inner := range []*openapi3.SchemaRef{s.Items, s.AdditionalProperties.Schema} {
		if inner != nil && inner.Ref == "" {
			bound(inner.Value)
		}
	}
}

func refName(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }
