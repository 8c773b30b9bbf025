package handlers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

func TestEventTypes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path, times = "/v1/event-types/photo.shared", `"created_at":"*","updated_at":"*"`
	full := `{"title":"New photo","body":"{{.actor}} shared {{.data.album}}","sound":"default","push_type":"alert","priority":5,"ttl_seconds":0,"collapse":false,"retry_unknown":false,"aps":{"badge":1}}`
	const shown = `{"type":"photo.shared","title":"x","push_type":"alert","collapse":true,"retry_unknown":true,"revision":2,`
	w.get(path).wants(t, 404, problem(api.CodeNotFound, "there is no event type photo.shared"))
	w.put(path, full).wants(t, 201, `{"type":"photo.shared",`+full[1:len(full)-1]+`,"revision":1,`+times+`}`)
	w.put(path, full).wants(t, 200, `{"type":"photo.shared",`+full[1:len(full)-1]+`,"revision":1,`+times+`}`)
	w.put(path, `{"title":"x"}`).wants(t, 200, shown+times+`}`)
	w.get(path).wants(t, 200, shown+times+`}`)
	w.get("/v1/event-types").wants(t, 200, `{"items":[`+shown+times+`}]}`)
	w.del(path).wants(t, 204, "")
	w.del(path).wants(t, 204, "")
	w.get("/v1/event-types").wants(t, 200, `{"items":[]}`)

	t.Run("templates do no more than they may", func(t *testing.T) {
		for _, body := range []string{"{{range .data}}x{{end}}", "{{.actor | printf}}", "{{.user}}", "{{if .actor}}", "{{len .actor}}"} {
			a := w.put(path, `{"title":"x","body":"`+body+`"}`)
			if a.status != 422 || a.member(t, "code") != "validation_failed" || !strings.Contains(a.body, `"field":"body"`) {
				t.Errorf("%s: %d %s", body, a.status, a.body)
			}
		}
	})
	t.Run("texts in other languages are shown as they were given", func(t *testing.T) {
		const texts = `"localized":{"de":{"title":"y"},"de-AT":{"title":"z","body":"{{.actor}}"},"fr":{"body":"w"}}`
		w.put("/v1/event-types/hello", `{"title":"x",`+texts+`}`).
			wants(t, 201, `{"type":"hello","title":"x","push_type":"alert","collapse":true,"retry_unknown":true,`+texts+`,"revision":1,`+times+`}`)
		w.del("/v1/event-types/hello").wants(t, 204, "")
	})
	t.Run("what pages get is shown as it was given", func(t *testing.T) {
		const look = `"webpush":{"icon":"/i.png","badge":"/b.png","image":"m","url":"/a","actions":[{"action":"like","title":"Like","icon":"l"}],"require_interaction":false}`
		w.put("/v1/event-types/look", `{"title":"x",`+look+`}`).
			wants(t, 201, `{"type":"look","title":"x","push_type":"alert","collapse":true,"retry_unknown":true,`+look+`,"revision":1,`+times+`}`)
		w.post("/v1/events", strings.Replace(anEvent, "{", `{`+look+`,`, 1)).wants(t, 202, `{"id":"*"}`)
		w.del("/v1/event-types/look").wants(t, 204, "")
	})
	t.Run("an alert needs a text", func(t *testing.T) {
		if a := w.put(path, `{}`); a.status != 422 {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.put("/v1/event-types/quiet", `{"push_type":"background"}`).wants(t, 201, `{"type":"quiet","push_type":"background","collapse":true,"retry_unknown":true,"revision":1,`+times+`}`)
	})
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.put(fmt.Sprintf("/v1/event-types/t%d", i), `{"title":"x"}`)
	}
	var seen []string
	path := "/v1/event-types?limit=2"
	for next := path; next != ""; {
		a := w.get(next)
		for i := range 5 {
			if name := fmt.Sprintf("t%d", i); strings.Contains(a.body, `"`+name+`"`) {
				seen = append(seen, name)
			}
		}
		next = ""
		if cursor := a.member(t, "next"); cursor != "" {
			next = path + "&cursor=" + cursor
		}
	}
	if got := strings.Join(seen, " "); got != "t0 t1 t2 t3 t4" {
		t.Errorf("the pages held %s", got)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const request = `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`
	device := `{"token":"` + token + `","platform":"apns","topic":"com.example.app","environment":"sandbox","state":"active","registered_at":"*"}`
	path := "/v1/users/bob/devices"
	w.put(path+"/"+strings.ToUpper(token), request).wants(t, 201, device)
	w.put(path+"/"+token, request).wants(t, 200, device)
	w.get(path).wants(t, 200, `{"items":[`+device+`]}`)
	t.Run("a locale is kept as it was given, until the next registration", func(t *testing.T) {
		located := strings.Replace(device, `"state"`, `"locale":"de-aT","state"`, 1)
		w.put(path+"/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox","locale":"de-aT"}`).wants(t, 200, located)
		w.get(path).wants(t, 200, `{"items":[`+located+`]}`)
		w.get("/v1/users/bob/notification-settings").wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[`+located+`]}`)
		w.put(path+"/"+token, request).wants(t, 200, device)
		w.get(path).wants(t, 200, `{"items":[`+device+`]}`)
	})
	t.Run("a device of FCM has no environment, and its token keeps its case", func(t *testing.T) {
		registered := `{"token":"` + fcmToken + `","platform":"fcm","topic":"com.example.app","state":"active","registered_at":"*"}`
		w.put("/v1/users/eve/devices/"+fcmToken, `{"platform":"fcm","topic":"com.example.app"}`).wants(t, 201, registered)
		w.get("/v1/users/eve/devices").wants(t, 200, `{"items":[`+registered+`]}`)
		w.del("/v1/users/eve/devices/"+strings.ToLower(fcmToken)).wants(t, 204, "")
		w.get("/v1/users/eve/devices").wants(t, 200, `{"items":[`+registered+`]}`)
		w.del("/v1/users/eve/devices/"+fcmToken).wants(t, 204, "")
		w.get("/v1/users/eve/devices").wants(t, 200, `{"items":[]}`)
	})
	t.Run("a registration replaces the user's own former token", func(t *testing.T) {
		replacing := func(former string) string { return strings.Replace(request, "{", `{"replaces":"`+former+`",`, 1) }
		for range 2 { // again, when it is not there any more
			w.put(path+"/"+strings.Repeat("ab", 32), replacing(strings.ToUpper(token)))
			w.get(path).wants(t, 200, `{"items":[`+strings.Replace(device, token, strings.Repeat("ab", 32), 1)+`]}`)
		}
		w.put("/v1/users/eve/devices/"+strings.Repeat("cd", 32), replacing(strings.Repeat("ab", 32))).wants(t, 201, `"*"`)
		w.put(path+"/"+token, replacing(strings.Repeat("ab", 32))).wants(t, 201, device)
		w.put(path+"/"+token, replacing(token)).wants(t, 200, device)
		w.get(path).wants(t, 200, `{"items":[`+device+`]}`)
		w.del("/v1/users/eve/devices/"+strings.Repeat("cd", 32)).wants(t, 204, "")
	})
	t.Run("a token moves to the user who registers it", func(t *testing.T) {
		if a := w.put("/v1/users/carol/devices/"+token, request); a.status != 201 && a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.get(path).wants(t, 200, `{"items":[]}`)
		w.get("/v1/users/carol/devices").wants(t, 200, `{"items":[`+device+`]}`)
	})
	t.Run("removing is for good and may be repeated", func(t *testing.T) {
		w.del("/v1/users/carol/devices/"+strings.ToUpper(token)).wants(t, 204, "")
		w.del("/v1/users/carol/devices/"+token).wants(t, 204, "")
		w.get("/v1/users/carol/devices").wants(t, 200, `{"items":[]}`)
	})
	t.Run("the 51st is refused", func(t *testing.T) {
		for i := range api.MaxDevices {
			w.put(fmt.Sprintf("/v1/users/dan/devices/%064x", i), request).wants(t, 201, `{"token":"*","platform":"apns","topic":"com.example.app","environment":"sandbox","state":"active","registered_at":"*"}`)
		}
		if a := w.put("/v1/users/dan/devices/"+token, request); a.status != 422 {
			t.Errorf("%d %s", a.status, a.body)
		}
		a := w.get("/v1/users/dan/devices?limit=50")
		if strings.Count(a.body, `"token"`) != 50 || a.member(t, "next") != "" {
			t.Errorf("lists %s", a.body)
		}
	})
}

func TestPreferences(t *testing.T) {
	t.Parallel()
	w := setup(t)
	settings := "/v1/users/bob/notification-settings"
	w.get(settings).wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[]}`)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z07:00")
	w.put("/v1/users/bob/opt-outs/photo.shared", "").wants(t, 204, "")
	w.put("/v1/users/bob/opt-outs/photo.shared", "{}").wants(t, 204, "") // an empty object is the same as no body
	w.put("/v1/users/bob/mutes/album:42", "").wants(t, 204, "")
	w.put("/v1/users/bob/mutes/album:43", `{}`).wants(t, 204, "")
	w.put("/v1/users/bob/mutes/album:44", `{"until":"`+until+`"}`).wants(t, 204, "")
	w.get(settings).wants(t, 200, `{"opt_outs":["photo.shared"],"mutes":[{"object":"album:42"},{"object":"album:43"},{"object":"album:44","until":"`+until+`"}],"devices":[]}`)
	for _, path := range []string{"/opt-outs/photo.shared", "/mutes/album:42", "/mutes/album:43", "/mutes/album:44", "/mutes/never"} {
		w.del("/v1/users/bob"+path).wants(t, 204, "")
	}
	w.get(settings).wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[]}`)
}

// C14: every chat can be muted, and an event can be about it.
func TestC14_EveryChatCanBeMuted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	object := api.ChatObject(strings.Repeat("c", 128))
	w.put("/v1/users/bob/mutes/"+object, "").wants(t, 204, "")
	w.get("/v1/users/bob/notification-settings").wants(t, 200, `{"opt_outs":[],"mutes":[{"object":"`+object+`"}],"devices":[]}`)
	w.post("/v1/events", strings.Replace(anEvent, "{", `{"object":"`+object+`",`, 1)).wants(t, 202, `{"id":"*"}`)
	w.del("/v1/users/bob/mutes/"+object).wants(t, 204, "")
	w.get("/v1/users/bob/notification-settings").wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[]}`)
	for _, long := range []string{object + "c", strings.Repeat("o", 129)} {
		if a := w.put("/v1/users/bob/mutes/"+long, ""); a.status != 422 {
			t.Errorf("%d bytes: %d %s", len(long), a.status, a.body)
		}
	}
}

// An event must have everything that the templates print.
func TestEventsBringWhatIsPrinted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/event-types/shared", `{"title":"{{.actor}}","body":"{{if .object}}{{.object}}{{end}}"}`)
	said := "is missing, and the event type's template prints it"
	w.post("/v1/events", `{"type":"shared","audience":{"users":["bob"]}}`).wants(t, 422, broken("actor", "required", said))
	w.post("/v1/events", `{"type":"shared","actor":"al","audience":{"users":["bob"]}}`).wants(t, 202, `{"id":"*"}`)
	w.post("/v1/events/batch", `{"events":[{"type":"shared","actor":"al","audience":{"users":["bob"]}},{"type":"shared","audience":{"users":["bob"]}}]}`).
		wants(t, 422, problem(api.CodeValidation, "events[1]: actor "+said, errorsOf("events[1].actor", "required", said)))
}

func TestEvents(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, w *world) {
		posted := w.post("/v1/events", anEvent).wants(t, 202, `{"id":"*"}`)
		id := posted.member(t, "id")
		if got := posted.header.Get("Location"); got != "/v1/events/"+id {
			t.Errorf("Location: %s", got)
		}
		w.get("/v1/events/"+id).wants(t, 200, `{"id":"`+id+`","type":"photo.shared","state":"queued","accepted_at":"*","recipients":0,"notifications":0,
			"delivered":0,"failed":0,"expired":0,"cancelled":0,"retrying":0,"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":0,"live":0}}`)
		if a := w.get("/v1/events/unknown"); a.status != 404 || a.member(t, "code") != "not_found" {
			t.Errorf("an unknown event: %d %s", a.status, a.body)
		}
		past := `{"type":"photo.shared","audience":{"users":["bob"]},"alert":{"title":"x"},"expires_at":"2020-01-01T00:00:00Z"}`
		if a := w.post("/v1/events", past); a.status != 422 || a.member(t, "code") != "already_expired" {
			t.Errorf("an event of the past: %d %s", a.status, a.body)
		}
		if a := w.post("/v1/events", `{"type":"nobody.knows","audience":{"users":["bob"]}}`); a.status != 422 || a.member(t, "code") != "unknown_event_type" {
			t.Errorf("an unknown type: %d %s", a.status, a.body)
		}
		t.Run("an event for later is scheduled", func(t *testing.T) {
			stamp := func(in time.Duration) string {
				return `"send_at":"` + time.Now().Add(in).UTC().Format("2006-01-02T15:04:05.000Z") + `"`
			}
			with := func(member string) string { return strings.Replace(anEvent, "{", `{`+member+`,`, 1) }
			at := stamp(time.Hour)
			id := w.post("/v1/events", with(at)).wants(t, 202, `{"id":"*"}`).member(t, "id")
			w.get("/v1/events/"+id).wants(t, 200, `{"id":"`+id+`","type":"photo.shared","state":"scheduled","accepted_at":"*",`+at+`,"recipients":0,"notifications":0,
				"delivered":0,"failed":0,"expired":0,"cancelled":0,"retrying":0,"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":0,"live":0}}`)
			broken := problem(api.CodeValidation, "*", `"errors":[{"field":"send_at","rule":"max","message":"*"}]`)
			w.post("/v1/events", with(stamp(8*24*time.Hour))).wants(t, 422, broken)
			w.post("/v1/events/batch", `{"events":[`+anEvent+`,`+with(stamp(8*24*time.Hour))+`]}`).
				wants(t, 422, strings.Replace(broken, `"send_at"`, `"events[1].send_at"`, 1))
			if a := w.get("/v1/stats"); !strings.Contains(a.body, `"scheduled":1`) {
				t.Errorf("%s", a.body)
			}
		})
		t.Run("a batch is all or nothing, and names the index", func(t *testing.T) {
			a := w.post("/v1/events/batch", `{"events":[`+anEvent+`,{"type":"nobody.knows","audience":{"users":["bob"]}}]}`)
			if a.status != 422 || !strings.Contains(a.body, "events[1]") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	})
}

func TestPayloadTooLarge(t *testing.T) {
	t.Parallel()
	w := setup(t)
	body := strings.Repeat("x", 2048)
	a := w.post("/v1/events", `{"type":"a","audience":{"users":["bob"]},"alert":{"title":"x","body":"`+body+`"},"data":{"x":"`+body[:1990]+`"},"aps":{"x":"`+body[:1000]+`"}}`)
	if a.status != 422 || !strings.Contains(a.body, "4096") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
