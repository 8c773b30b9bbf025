package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// streamsWithIDs has the types that list the events of a stream, and whether the events have ids, so
// that a reader can go on after the last event it got.
var streamsWithIDs = map[string]bool{"StreamEvents": true, "StockEvents": false, "StatsEvents": false}

// addStreamEvents turns a type that lists the events of a stream into a schema of one event: one of
// several objects, each with the name of the event and its data.
func addStreamEvents(schemas openapi3.Schemas) {
	for stream, ids := range streamsWithIDs {
		whole := openapi3.NewSchema()
		whole.Description = "An event of the stream. Each member is sent as a line: `event: `, then `data: ` with its JSON"
		whole.Discriminator = &openapi3.Discriminator{PropertyName: "event", Mapping: map[string]openapi3.MappingRef{}}
		for _, name := range slices.Sorted(maps.Keys(schemas[stream].Value.Properties)) {
			data := schemas[stream].Value.Properties[name]
			component := refName(data.Ref) + "Event"
			if schemas[component] == nil {
				schemas[component] = openapi3.NewSchemaRef("", streamEvent(name, data, ids && name != "bye"))
			}
			ref := openapi3.NewSchemaRef("#/components/schemas/"+component, schemas[component].Value)
			whole.OneOf = append(whole.OneOf, ref)
			whole.Discriminator.Mapping[name] = openapi3.MappingRef{Ref: ref.Ref}
		}
		schemas[stream] = openapi3.NewSchemaRef("", whole)
	}
}

func streamEvent(name string, data *openapi3.SchemaRef, id bool) *openapi3.Schema {
	event := openapi3.NewObjectSchema().WithProperty("event", openapi3.NewStringSchema().WithEnum(name))
	event.Properties["data"] = data
	event.Required = []string{"event", "data"}
	if id {
		event.WithProperty("id", openapi3.NewStringSchema())
	}
	return event
}

// describeStream describes the events of a stream and shows them as they are sent.
func describeStream(doc *openapi3.T, op *openapi3.Operation, media *openapi3.MediaType) error {
	events := doc.Components.Schemas[refName(media.Schema.Ref)]
	if events == nil || len(events.Value.OneOf) == 0 {
		return fmt.Errorf("%s: what it answers with must be a type that lists the events", op.OperationID)
	}
	var sent strings.Builder
	for _, ref := range events.Value.OneOf {
		event, data := exampleOf(ref).(map[string]any), ref.Value.Properties["data"].Value
		op.Description += fmt.Sprintf("\n\n`event: %s`: %s. Its data is the JSON of a `%s`.", event["event"], data.Description, refName(data.AllOf[0].Ref))
		text, err := json.Marshal(event["data"])
		if err != nil {
			return err
		}
		if id, has := event["id"]; has {
			fmt.Fprintf(&sent, "id: %s\n", id)
		}
		fmt.Fprintf(&sent, "event: %s\ndata: %s\n\n", event["event"], text)
	}
	op.Description += "\n\nThe events as they are sent:\n\n```text\n" + sent.String() + "```"
	media.Example = exampleOf(events.Value.OneOf[len(events.Value.OneOf)-1])
	return nil
}
