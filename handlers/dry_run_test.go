package handlers_test

import (
	"encoding/json"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// D2: a dry run shows what an event would send, refuses what POST refuses, and leaves nothing behind.
func TestD2_DryRun(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		w.put("/v1/event-types/photo.shared", `{"title":"{{.actor}}","localized":{"de":{"title":"von {{.actor}}"}},"priority":5,"topic":"com.example.app"}`).wants(t, 201, `"*"`)
		const body = `{"type":"photo.shared","actor":"ann","audience":{"users":["bob"]},"data":{"a":"b"}}`
		a := w.post("/v1/events?dry_run=true", body, "Idempotency-Key: once")
		var got api.EventPreview
		storetest.Must(t, json.Unmarshal([]byte(a.body), &got))
		if a.status != 200 || a.header.Get("Location") != "" || got.PushType != api.PushAlert || got.Priority != 5 || len(got.Topics) != 1 || len(got.Payloads) != 2 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		for i, want := range []struct{ locale, title string }{{"", "ann"}, {"de", "von ann"}} {
			p := got.Payloads[i]
			if p.Platform != api.PlatformAPNs || p.Locale != want.locale || p.Bytes != len(p.Payload) || p.Limit != 4096 ||
				!strings.Contains(string(p.Payload), `{"aps":{"alert":{"title":"`+want.title+`"}},"data":{"a":"b"},"event_id":"`+got.CollapseID+`"`) {
				t.Errorf("%s: %+v", p.Payload, p)
			}
		}
		if found := storetest.KeysWith(t, w.db, "von ann"); len(found) > 0 {
			t.Errorf("it left %v", found)
		}
		if a := w.get("/v1/stats"); !strings.Contains(a.body, `"name":"events","depth":0,`) {
			t.Errorf("%s", a.body)
		}
		w.post("/v1/events?dry_run=true", `{"type":"nobody.knows","audience":{"users":["bob"]}}`).wants(t, 422, problem(api.CodeUnknownEventType, "*", errorsOf("type", "exists", "is no event type")))
		w.post("/v1/events?dry_run=true", strings.Replace(body, `"b"}`, `"`+strings.Repeat("b", 3000)+`"}`, 1)).wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"data","rule":"max","message":"*"}]`))
		w.post("/v1/events?dry_run=1", body).wants(t, 422, broken("dry_run", "oneof", "must be one of true, false"))
		w.post("/v1/events?dry_run=false", strings.Replace(body, "bob", "dan", 1), "Idempotency-Key: once").wants(t, 202, `{"id":"*"}`) // the key was free
		if n := w.accepted.Load(); n != 1 {
			t.Errorf("%d events are counted as accepted, want that of the last request", n)
		}
	})
}
