package render_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
)

var accepted = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func mustTemplates(t *testing.T, r *api.EventTypeRequest) *render.TemplateSet {
	t.Helper()
	l, err := render.NewTemplateSet(r)
	if err != nil {
		t.Fatalf("NewTemplateSet: %v", err)
	}
	return l
}

func mustRender(t *testing.T, l *render.TemplateSet, e *api.EventRequest) *render.Push {
	t.Helper()
	p, err := l.Render("ev1", e)
	if err != nil {
		t.Fatalf("Render: %v", err)
	}
	return p
}

func TestRenderPayload(t *testing.T) {
	t.Parallel()
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, tt := range []struct {
		name      string
		eventType api.EventTypeRequest
		ev        api.EventRequest
		want      string
	}{
		{
			"template, data and object",
			api.EventTypeRequest{Title: "New", Body: "{{.actor}}: {{.data.n}}", Sound: "default", Category: "c", ThreadID: "th"},
			api.EventRequest{Type: "t", Actor: "al", Object: "o:1", Data: map[string]string{"n": "<3>", "a": "b"}},
			`{"aps":{"alert":{"title":"New","body":"al: <3>"},"category":"c","sound":"default","thread-id":"th"},` +
				`"data":{"a":"b","n":"<3>"},"event_id":"ev1","object":"o:1","type":"t"}`,
		},
		{
			"the type's aps lies over its fields, the event's aps over both",
			api.EventTypeRequest{Title: "T", Sound: "a", APS: raw(`{"sound": "b", "badge": 1, "mutable-content": 1}`)},
			api.EventRequest{Type: "t", APS: raw(`{"badge": 1.50, "content-state": {"z": 1, "a": 2}}`)},
			`{"aps":{"alert":{"title":"T"},"badge":1.50,"content-state":{"z":1,"a":2},"mutable-content":1,"sound":"b"},"event_id":"ev1","type":"t"}`,
		},
		{
			"objects under alert are merged",
			api.EventTypeRequest{Title: "T", APS: raw(`{"alert": {"subtitle": "S"}}`)},
			api.EventRequest{Type: "t", APS: raw(`{"alert": {"title": "E"}}`)},
			`{"aps":{"alert":{"subtitle":"S","title":"E"}},"event_id":"ev1","type":"t"}`,
		},
		{
			"the event's alert overrides the template, which is not even rendered",
			api.EventTypeRequest{Title: "{{.data.missing}}", Body: "B"},
			api.EventRequest{Type: "t", Alert: &api.Alert{Title: "Mine"}},
			`{"aps":{"alert":{"title":"Mine"}},"event_id":"ev1","type":"t"}`,
		},
		{
			"background is content-available and shows nothing",
			api.EventTypeRequest{PushType: api.PushBackground, Title: "T", Sound: "s", APS: raw(`{"x": 1}`)},
			api.EventRequest{Type: "t", APS: raw(`{"content-available": 0}`)},
			`{"aps":{"content-available":1,"x":1},"event_id":"ev1","type":"t"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := mustTemplates(t, &tt.eventType)
			first := mustRender(t, l, &tt.ev)
			if string(first.Payload) != tt.want {
				t.Errorf("payload\n%s\nwant\n%s", first.Payload, tt.want)
			}
			for range 20 {
				if again := mustRender(t, l, &tt.ev); !bytes.Equal(again.Payload, first.Payload) {
					t.Fatalf("equal events gave other bytes: %s", again.Payload)
				}
			}
		})
	}
}

func TestA3_CollapseID(t *testing.T) {
	t.Parallel()
	off := false
	for _, tt := range []struct {
		name      string
		eventType api.EventTypeRequest
		ev        api.EventRequest
		want      string
	}{
		{"derived from the event for alerts", api.EventTypeRequest{Title: "T"}, api.EventRequest{}, "ev1"},
		{"collapse false turns it off", api.EventTypeRequest{Title: "T", Collapse: &off}, api.EventRequest{}, ""},
		{"the caller's wins", api.EventTypeRequest{Title: "T"}, api.EventRequest{CollapseID: "mine"}, "mine"},
		{"the caller's wins when off", api.EventTypeRequest{Title: "T", Collapse: &off}, api.EventRequest{CollapseID: "mine"}, "mine"},
		{"none for background", api.EventTypeRequest{PushType: api.PushBackground}, api.EventRequest{}, ""},
		{"64 bytes", api.EventTypeRequest{Title: "T"}, api.EventRequest{CollapseID: strings.Repeat("ü", 32)}, strings.Repeat("ü", 32)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustRender(t, mustTemplates(t, &tt.eventType), &tt.ev).CollapseID; got != tt.want {
				t.Errorf("collapse id %q, want %q", got, tt.want)
			}
		})
	}
}

func TestA4_Expiration(t *testing.T) {
	t.Parallel()
	seconds := func(n int64) *int64 { return &n }
	at := api.At(accepted.Add(90*time.Second + 500*time.Millisecond))
	for _, tt := range []struct {
		name     string
		ttl      *int64
		at       *api.Time
		header   string
		deadline int64
	}{
		{"absent", nil, nil, "absent", 0},
		{"0 is sent as 0, and fanfare tries for a minute", seconds(0), nil, "0", accepted.UnixMilli() + 60_000},
		{"a time counted from the enqueueing", seconds(60), nil, strconv.FormatInt(accepted.Unix()+60, 10), accepted.UnixMilli() + 60_000},
		{"the event's own time wins", seconds(60), &at, strconv.FormatInt(accepted.Unix()+90, 10), accepted.UnixMilli() + 90_500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "T", TTLSeconds: tt.ttl}), &api.EventRequest{ExpiresAt: tt.at})
			p.Begin(accepted)
			if p.Begin(accepted.Add(time.Hour)) || p.TTL != 0 {
				t.Error("it begins twice")
			}
			header := "absent"
			if p.Expiration != nil {
				header = strconv.FormatInt(*p.Expiration, 10)
			}
			if header != tt.header || p.ExpiresAt != tt.deadline {
				t.Errorf("header %s, deadline %d; want %s, %d", header, p.ExpiresAt, tt.header, tt.deadline)
			}
		})
	}
}

// P7: what is sent, and with it its size, does not depend on how the caller's library writes characters and blanks.
func TestP7_EscapesMakeNoDifference(t *testing.T) {
	t.Parallel()
	bytesOf := func(aps, fcm string) string {
		p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{Title: "T", APS: json.RawMessage(aps), FCM: json.RawMessage(fcm)}), &api.EventRequest{Type: "t", APS: json.RawMessage(aps)})
		return string(p.Payload) + string(p.FCM)
	}
	plain := bytesOf(`{"alert":{"body":"你 é/<b>😀\n"},"n":12345678901234567890,"f":1.0}`, `{"x":{"y":"你\"\\"}}`)
	escaped := bytesOf(`{ "alert" : {"\u0062ody":"\u4f60 \u00e9\/\u003cb\u003e\ud83d\ude00\u000a"}, "n":12345678901234567890,"f":1.0 }`, `{"x":{"y":"\u4F60\u0022\u005c"}}`)
	for _, want := range []string{`你 é/<b>😀\n`, `"n":12345678901234567890`, `"f":1.0`, `你\"\\`} {
		if !strings.Contains(plain, want) {
			t.Errorf("%s lacks %s", plain, want)
		}
	}
	if plain != escaped {
		t.Errorf("%s\n%s", plain, escaped)
	}
}

func TestA5_PushTypeAndPriority(t *testing.T) {
	t.Parallel()
	aps := json.RawMessage(`{"x":1}`)
	for _, tt := range []struct {
		eventType api.EventTypeRequest
		pushType  api.PushType
		priority  int
	}{
		{api.EventTypeRequest{Title: "T"}, api.PushAlert, 10},
		{api.EventTypeRequest{Title: "T", Priority: 1}, api.PushAlert, 1},
		{api.EventTypeRequest{PushType: api.PushBackground}, api.PushBackground, 5},
		{api.EventTypeRequest{PushType: api.PushBackground, Priority: 1}, api.PushBackground, 5},
		{api.EventTypeRequest{PushType: api.PushVoIP}, api.PushVoIP, 10},
		{api.EventTypeRequest{PushType: api.PushLocation, APS: aps, Priority: 5}, api.PushLocation, 5},
	} {
		t.Run(string(tt.eventType.PushType)+strconv.Itoa(tt.eventType.Priority), func(t *testing.T) {
			t.Parallel()
			p := mustRender(t, mustTemplates(t, &tt.eventType), &api.EventRequest{})
			if p.PushType != tt.pushType || p.Priority != tt.priority {
				t.Errorf("%s %d, want %s %d", p.PushType, p.Priority, tt.pushType, tt.priority)
			}
		})
	}
	for _, kind := range []api.PushType{"location", "complication", "pushtotalk", "widgets", "controls"} {
		t.Run(string(kind)+" takes its payload from aps", func(t *testing.T) {
			t.Parallel()
			l := mustTemplates(t, &api.EventTypeRequest{PushType: kind})
			_, err := l.Render("ev1", &api.EventRequest{})
			mustInvalid(t, err, "aps", "required")
			if p := mustRender(t, l, &api.EventRequest{APS: aps}); !bytes.Contains(p.Payload, aps) {
				t.Errorf("payload %s has no %s", p.Payload, aps)
			}
			mustRender(t, mustTemplates(t, &api.EventTypeRequest{PushType: kind, APS: aps}), &api.EventRequest{})
		})
	}
}

func TestNewTemplateSetRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, field, rule string
		eventType         api.EventTypeRequest
	}{
		{"a bad title", "title", "template", api.EventTypeRequest{Title: "{{.x}}", Body: "b"}},
		{"a bad body", "body", "template", api.EventTypeRequest{Title: "t", Body: "{{range .data}}{{end}}"}},
		{"aps that is no object", "aps", "object", api.EventTypeRequest{Title: "t", APS: json.RawMessage(`[1]`)}},
		{"aps that is null", "aps", "object", api.EventTypeRequest{Title: "t", APS: json.RawMessage(`null`)}},
		{"background with a badge", "aps.badge", "background", api.EventTypeRequest{PushType: api.PushBackground, APS: json.RawMessage(`{"badge":1}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := render.NewTemplateSet(&tt.eventType)
			mustInvalid(t, err, tt.field, tt.rule)
		})
	}
	t.Run("names every failing field", func(t *testing.T) {
		t.Parallel()
		_, err := render.NewTemplateSet(&api.EventTypeRequest{Title: "{{.x}}", Body: "{{.y}}"})
		var e *api.Error
		if !errors.As(err, &e) || len(e.Fields) != 2 {
			t.Errorf("error %v, want both fields", err)
		}
	})
	t.Run("an alert with nothing to show", func(t *testing.T) {
		t.Parallel()
		_, err := render.NewTemplateSet(&api.EventTypeRequest{})
		var e *api.Error
		if !errors.As(err, &e) || len(e.Fields) != 2 || e.Fields[0].Field != "title" {
			t.Errorf("error %v, want title and body required", err)
		}
		mustTemplates(t, &api.EventTypeRequest{APS: json.RawMessage(`{"badge":1}`)})
	})
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, field, rule string
		eventType         api.EventTypeRequest
		ev                api.EventRequest
	}{
		{"an alert for background", "alert", "background", api.EventTypeRequest{PushType: api.PushBackground}, api.EventRequest{Alert: &api.Alert{Title: "t"}}},
		{"a sound for background", "aps.sound", "background", api.EventTypeRequest{PushType: api.PushBackground}, api.EventRequest{APS: json.RawMessage(`{"sound":"a"}`)}},
		{"a missing name", "data.n", "required", api.EventTypeRequest{Title: "t {{.data.n}}"}, api.EventRequest{}},
		{"aps that is no object", "aps", "object", api.EventTypeRequest{Title: "t"}, api.EventRequest{APS: json.RawMessage(`"x"`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := mustTemplates(t, &tt.eventType).Render("ev1", &tt.ev)
			mustInvalid(t, err, tt.field, tt.rule)
		})
	}
}

func TestP7_PayloadLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind  api.PushType
		limit int
	}{{api.PushAlert, 4096}, {api.PushVoIP, 5120}} {
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			eventType := &api.EventTypeRequest{PushType: tt.kind, Body: strings.Repeat("b", 2048), APS: json.RawMessage(`{"t":"` + strings.Repeat("t", 1500) + `"}`)}
			l := mustTemplates(t, eventType)
			ev := &api.EventRequest{Type: "t", Data: map[string]string{"d": ""}}
			free := tt.limit - len(mustRender(t, l, ev).Payload)
			if free > 2000 {
				ev.APS, free = json.RawMessage(`{"u":"`+strings.Repeat("u", 1000)+`"}`), free-1007
			}
			ev.Data["d"] = strings.Repeat("d", free)
			if n := len(mustRender(t, l, ev).Payload); n != tt.limit {
				t.Fatalf("the test's payload is %d bytes, not %d", n, tt.limit)
			}
			ev.Data["d"] += "d"
			_, err := l.Render("ev1", ev)
			mustInvalid(t, err, "payload", "max")
			for _, part := range []string{strconv.Itoa(tt.limit), strconv.Itoa(tt.limit + 1)} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %s", err, part)
				}
			}
		})
	}
}
