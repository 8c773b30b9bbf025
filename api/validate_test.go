package api_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"fanfare/api"
)

// event is one that breaks no rule, changed.
func event(change func(*api.EventRequest)) *api.EventRequest {
	e := &api.EventRequest{Type: "photo.shared", Audience: api.Audience{Users: []string{"bob"}}}
	change(e)
	return e
}

func TestValidatorTakes(t *testing.T) {
	t.Parallel()
	rules := api.NewValidator()
	for name, value := range map[string]any{
		"an event":          event(func(*api.EventRequest) {}),
		"a chat's event":    event(func(e *api.EventRequest) { e.Audience = api.Audience{Chat: "c"} }),
		"a contact's event": event(func(e *api.EventRequest) { e.Audience = api.Audience{ContactsOf: "bob"} }),
		"10,000 users":      event(func(e *api.EventRequest) { e.Audience.Users = users(10_000) }),
		"2 KiB of data": event(func(e *api.EventRequest) {
			e.Data = map[string]string{"x": strings.Repeat("x", api.MaxData-len(`{"x":""}`))}
		}),
		"escapes in data": event(func(e *api.EventRequest) { e.Data = map[string]string{"x": strings.Repeat("\x01", 340)} }),
		"data with signs": event(func(e *api.EventRequest) { e.Data = map[string]string{"x": strings.Repeat("<", 2000)} }),
		"escapes of aps":  event(func(e *api.EventRequest) { e.APS = json.RawMessage(`{"x":"` + strings.Repeat(`\u4f60`, 600) + `"}`) }),
		"escapes of fcm": event(func(e *api.EventRequest) {
			e.FCM = json.RawMessage(`{"x":"` + strings.Repeat(`\ud83d\ude00`, 500) + `"}`)
		}),
		"2 KiB of aps":         event(func(e *api.EventRequest) { e.APS = aps(api.MaxAPS) }),
		"spaces in aps":        event(func(e *api.EventRequest) { e.APS = json.RawMessage(`{` + strings.Repeat(" ", 3000) + `}`) }),
		"aps null":             event(func(e *api.EventRequest) { e.APS = json.RawMessage(`null`) }),
		"1 KiB of data":        &api.ChatMessageRequest{Sender: "ann", Text: "x", Data: map[string]string{"x": strings.Repeat("x", api.MaxMessageData-len(`{"x":""}`))}},
		"a body alone":         event(func(e *api.EventRequest) { e.Alert = &api.Alert{Body: "x"} }),
		"64 bytes of collapse": event(func(e *api.EventRequest) { e.CollapseID = strings.Repeat("x", 64) }),
		"256 bytes of title":   &api.EventTypeRequest{Title: strings.Repeat("ü", 128)},
		"a background push":    &api.EventTypeRequest{PushType: api.PushBackground, Priority: 5},
		"a device":             &api.DeviceRequest{Platform: "apns", Topic: "a.b-c", Environment: api.EnvSandbox},
	} {
		if bad := rules.Check(value); bad != nil {
			t.Errorf("%s: %+v", name, bad)
		}
	}
}

func users(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "u"
	}
	return out
}

// aps is an object of size bytes.
func aps(size int) json.RawMessage {
	return json.RawMessage(`{"x":"` + strings.Repeat("x", size-len(`{"x":""}`)) + `"}`)
}

func TestValidatorRefuses(t *testing.T) {
	t.Parallel()
	rules := api.NewValidator()
	for name, c := range map[string]struct {
		value any
		want  string // field and rule
	}{
		"data one byte over":   {event(func(e *api.EventRequest) { e.Data = map[string]string{"x": strings.Repeat("x", api.MaxData)} }), "data max"},
		"a message's data":     {&api.ChatMessageRequest{Sender: "ann", Text: "x", Data: map[string]string{"x": strings.Repeat("x", api.MaxMessageData-7)}}, "data max"},
		"aps one byte over":    {event(func(e *api.EventRequest) { e.APS = aps(api.MaxAPS + 1) }), "aps max"},
		"aps a string":         {event(func(e *api.EventRequest) { e.APS = json.RawMessage(`"x"`) }), "aps object"},
		"an actor with spaces": {event(func(e *api.EventRequest) { e.Actor = "a b" }), "actor identifier"},
		"an actor of dots":     {event(func(e *api.EventRequest) { e.Actor = ".." }), "actor identifier"},
		"an object of a dot":   {event(func(e *api.EventRequest) { e.Object = "." }), "object identifier"},
		"an object of braces":  {event(func(e *api.EventRequest) { e.Object = "{x}" }), "object identifier"},
		"the second user":      {event(func(e *api.EventRequest) { e.Audience.Users = []string{"bob", ""} }), "audience.users[1] identifier"},
		"three audiences":      {event(func(e *api.EventRequest) { e.Audience.ContactsOf, e.Audience.Chat = "a", "b" }), "audience exactly_one"},
		"no audience":          {event(func(e *api.EventRequest) { e.Audience = api.Audience{} }), "audience exactly_one"},
		"10,001 users":         {event(func(e *api.EventRequest) { e.Audience.Users = users(10_001) }), "audience.users max"},
		"an empty alert":       {event(func(e *api.EventRequest) { e.Alert = &api.Alert{} }), "alert required"},
		"65 bytes of collapse": {event(func(e *api.EventRequest) { e.CollapseID = strings.Repeat("ü", 32) + "x" }), "collapse_id max"},
		"a line break":         {event(func(e *api.EventRequest) { e.CollapseID = "a\nb" }), "collapse_id header"},
		"a blank at the end":   {event(func(e *api.EventRequest) { e.CollapseID = "order 42 " }), "collapse_id header"},
		"a blank at the start": {event(func(e *api.EventRequest) { e.CollapseID = " 42" }), "collapse_id header"},
		"escapes in data":      {event(func(e *api.EventRequest) { e.Data = map[string]string{"x": strings.Repeat("\x01", 341)} }), "data max"},
		"the type's fcm":       {&api.EventTypeRequest{FCM: json.RawMessage(`{"x":"` + strings.Repeat("\U0001f600", 600) + `"}`)}, "fcm max"},
		"the type's aps":       {&api.EventTypeRequest{APS: aps(api.MaxAPS + 1)}, "aps max"},
		"a loud background":    {&api.EventTypeRequest{PushType: api.PushBackground, Priority: 10}, "priority background"},
		"a batch's third":      {&api.EventBatchRequest{Events: []api.EventRequest{*event(func(*api.EventRequest) {}), *event(func(*api.EventRequest) {}), *event(func(e *api.EventRequest) { e.Type = "" })}}, "events[2].type required"},
	} {
		bad := rules.Check(c.value)
		if len(bad) != 1 || bad[0].Field+" "+bad[0].Rule != c.want || bad[0].Message == "" {
			t.Errorf("%s: %+v, want %s", name, bad, c.want)
		}
	}
}

func TestValidatorIsBounded(t *testing.T) {
	t.Parallel()
	e := event(func(e *api.EventRequest) { e.Audience.Users = make([]string, 9500) })
	if bad := api.NewValidator().Check(e); len(bad) != 9*api.MaxDeviceBatch {
		t.Errorf("lists %d fields", len(bad))
	}
}

func TestInvalidFields(t *testing.T) {
	t.Parallel()
	if err := api.InvalidFields(nil); err != nil {
		t.Errorf("no fields: %v", err)
	}
	err := api.InvalidFields([]api.FieldError{{Field: "a", Message: "is required"}, {Field: "b"}})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeValidation || e.Detail != "a is required (and 1 more)" || len(e.Fields) != 2 {
		t.Errorf("%+v", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	rules := api.NewValidator()
	for name, value := range map[string]any{
		"event": event(func(e *api.EventRequest) {
			e.Actor, e.Object, e.Data = "alice", "album:42", map[string]string{"album": "Summer"}
		}),
		"event to 1,000": event(func(e *api.EventRequest) { e.Audience.Users = users(1000) }),
		"reservation":    &api.ReservationRequest{User: "alice", Lines: []api.Line{{SKU: "sneaker:42", Quantity: 1}}},
		"message":        &api.ChatMessageRequest{Sender: "alice", Text: "hello"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bad := rules.Check(value); bad != nil {
					b.Fatal(bad)
				}
			}
		})
	}
}
