package handlers_test

import (
	"slices"
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/store/apikeys"
)

func TestN13_TestNotification(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
		w.put("/v1/users/bob/devices/"+fcmToken, `{"platform":"fcm","topic":"com.example.app"}`)
		secret := w.mustKey(api.ScopePush)
		key, once := "Authorization: Bearer "+secret, "Idempotency-Key: k"
		path := "/v1/users/bob/devices/" + strings.ToUpper(token) + "/test"
		first := w.post(path, "", key, once).wants(t, 202, `{"id":"*"}`)
		id := first.member(t, "id")
		wantHeader(t, first, "Location", "/v1/events/"+id)
		other := w.post("/v1/users/bob/devices/"+fcmToken+"/test", "", key).wants(t, 202, `{"id":"*"}`).member(t, "id")
		w.do(get("/v1/events/"+id).with(key)).wants(t, 200, `{"id":"`+id+`","type":"fanfare.test","state":"queued","accepted_at":"*","recipients":0,"notifications":0,
			"delivered":0,"failed":0,"expired":0,"cancelled":0,"retrying":0,"suppressed":{"is_actor":0,"opted_out":0,"muted":0,"no_device":0,"live":0}}`)

		none := problem(api.CodeNotFound, "the user has no such device")
		w.post("/v1/users/eve/devices/"+token+"/test", "", key).wants(t, 404, none)
		w.post("/v1/users/bob/devices/"+strings.Repeat("ab", 32)+"/test", "", key).wants(t, 404, none)
		w.post("/v1/users/bob/devices/short/test", "", key).wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"token","rule":"token","message":"*"}]`))
		w.post(path, "", key, "Idempotency-Key: ").wants(t, 400, problem(api.CodeInvalidRequest, "*"))
		w.post("/v1/users/bob/devices/"+fcmToken+"/test", "", key, once).wants(t, 202, `{"id":"*"}`) // another call
		w.do(call{method: "DELETE", path: "/v1/users/bob/devices/" + token}.with(key)).wants(t, 204, "")
		w.post(path, "", key).wants(t, 404, none)
		again := w.post(path, "", key, once).wants(t, 202, `{"id":"`+id+`"}`)
		wantHeader(t, again, "Idempotent-Replayed", "true")

		by := " " + apikeys.IDOf(secret)
		if got := w.changes(); len(got) != 3 || !slices.Contains(got, "devices.test "+id+by) || !slices.Contains(got, "devices.test "+other+by) {
			t.Errorf("changes %v", got)
		}
	})
}
