package handlers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/storetest"
)

const tokenRule = "must be a token of APNs (hex of even length, 64 to 200 digits), FCM (20 to 512 characters of A-Z a-z 0-9 _ : . -) or a browser (wp. and 43 of base64url)"

// fcmToken is a registration token of FCM.
const fcmToken = "cAb3-_xyz:APA91bEXAMPLE_of-a-token"

// aDevice is a device of a batch.
func aDevice(user string, n int) string {
	return fmt.Sprintf(`{"user":"%s","token":"%064x","platform":"apns","topic":"com.example.app","environment":"sandbox"}`, user, n)
}

func deviceBatch(list ...string) call {
	return post("/v1/devices/batch", `{"devices":[`+strings.Join(list, ",")+`]}`)
}

// TestP13_Batch: the devices of a batch are there, each as a single call makes it.
func TestP13_Batch(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		w.put(fmt.Sprintf("/v1/users/amy/devices/%064x", 255), `{"platform":"apns","topic":"other","environment":"production"}`).wants(t, 201, `"*"`)
		onFCM := `{"token":"` + fcmToken + `","platform":"fcm","topic":"com.example.app","locale":"de"`
		w.do(deviceBatch(`{"user":"dan",`+onFCM[1:]+`}`)).wants(t, 204, "")
		w.get("/v1/users/dan/devices").wants(t, 200, `{"items":[`+onFCM+`,"state":"active","registered_at":"*"}]}`)
		upper := strings.Replace(aDevice("bob", 255), "ff", "FF", 1)
		w.do(deviceBatch(upper, aDevice("bob", 1), aDevice("carl", 2))).wants(t, 204, "")
		item := func(n int) string {
			return fmt.Sprintf(`{"token":"%064x","platform":"apns","topic":"com.example.app","environment":"sandbox","state":"active","registered_at":"*"}`, n)
		}
		w.get("/v1/users/amy/devices").wants(t, 200, `{"items":[]}`)
		w.get("/v1/users/bob/devices").wants(t, 200, `{"items":[`+item(1)+`,`+item(255)+`]}`)
		w.get("/v1/users/carl/devices").wants(t, 200, `{"items":[`+item(2)+`]}`)
		w.put(fmt.Sprintf("/v1/users/bob/devices/%064x", 1), `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`).wants(t, 200, item(1))
	})
}

// TestP13_AFiftyFirstDeviceOfABatch: nothing of the batch is done, and the errors name what does not fit.
func TestP13_AFiftyFirstDeviceOfABatch(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		var full []string
		for i := range api.MaxDevices {
			full = append(full, aDevice("bob", i))
		}
		w.do(deviceBatch(full...)).wants(t, 204, "")
		a := w.do(deviceBatch(aDevice("amy", 100), aDevice("bob", 101), aDevice("bob", 7), aDevice("bob", 102)))
		const rule = `"rule":"max","message":"would be one more than the 50 devices a user may have"}`
		if a.status != 422 || !strings.Contains(a.body, `"errors":[{"field":"devices[1].token",`+rule+`,{"field":"devices[3].token",`+rule+`]`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		w.get("/v1/users/amy/devices").wants(t, 200, `{"items":[]}`)
	})
}

func TestP13_BatchesAreIdempotent(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const key = "Idempotency-Key: 1"
		w.do(deviceBatch(aDevice("bob", 1)).with(key)).wants(t, 204, "")
		w.del(fmt.Sprintf("/v1/users/bob/devices/%064x", 1)).wants(t, 204, "")
		again := w.do(deviceBatch(aDevice("bob", 1)).with(key)).wants(t, 204, "")
		wantHeader(t, again, "Idempotent-Replayed", "true")
		w.get("/v1/users/bob/devices").wants(t, 200, `{"items":[]}`)
		if a := w.do(deviceBatch(aDevice("bob", 2)).with(key)); a.status != 422 || a.member(t, "code") != "idempotency_key_reused" {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

func TestBadDeviceBatches(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const batch = "/v1/devices/batch"
	run(t, w, []bad{
		{"nothing", post(batch, `{}`), 422, broken("devices", "required", "is required")},
		{"no device", deviceBatch(), 422, broken("devices", "min", "must have at least 1 item")},
		{"1,001 devices", deviceBatch(strings.Split(strings.Repeat("{} ", 1001), " ")[:1001]...), 422, broken("devices", "max", "must have at most 1000 items")},
		{"an unknown field", post(batch, `{"devices":[{"name":"x"}]}`), 400, badJSON("devices[0].name", "is not a field of this call")},
		{"a bad user", deviceBatch(aDevice("bob", 1), aDevice("{x}", 2)), 422, broken("devices[1].user", "identifier", identifierRule)},
		{"a token twice", deviceBatch(aDevice("bob", 0xab), aDevice("bob", 2), strings.Replace(aDevice("amy", 0xab), "ab", "AB", 1)), 422,
			broken("devices[2].token", "unique", "repeats devices[0]")},
		{"a token of another platform", deviceBatch(aDevice("bob", 1), strings.Replace(aDevice("bob", 2), `apns","topic":"com.example.app","environment":"sandbox"`, `fcm","topic":"x"`, 1)), 422,
			broken("devices[1].token", "token", "is not a token of fcm")},
		{"no environment on APNs", deviceBatch(strings.Replace(aDevice("bob", 1), `,"environment":"sandbox"`, "", 1)), 422, broken("devices[0].environment", "required", "is required")},
		{"an environment on FCM", deviceBatch(`{"user":"bob","token":"` + fcmToken + `","platform":"fcm","topic":"x","environment":"sandbox"}`), 422,
			broken("devices[0].environment", "apns", "is for the platform apns alone")},
		{"a bad token twice", post(batch, strings.Replace(`{"devices":[D,D]}`, "D", strings.Replace(aDevice("bob", 1), "000001", "00000/", 1), 2)), 422, problem(api.CodeValidation,
			"devices[0].token "+tokenRule+" (and 1 more)", `"errors":[{"field":"devices[0].token","rule":"token","message":"`+tokenRule+`"},{"field":"devices[1].token","rule":"token","message":"`+tokenRule+`"}]`)},
	})
}

// TestP13_EveryWrongDeviceIsNamed, however many there are.
func TestP13_EveryWrongDeviceIsNamed(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := make([]string, api.MaxDeviceBatch)
	for i := range list {
		list[i] = `{"user":"{","token":"x","platform":"x","topic":"{","environment":"x","locale":"_"}`
	}
	a := w.do(deviceBatch(list...))
	var p api.Problem
	storetest.Must(t, json.Unmarshal([]byte(a.body), &p))
	named := map[string]bool{}
	for _, e := range p.Errors {
		named[e.Field] = true
	}
	for i := range list {
		for _, field := range []string{"user", "token", "platform", "topic", "environment", "locale"} {
			if name := fmt.Sprintf("devices[%d].%s", i, field); !named[name] {
				t.Fatalf("%d: %s is not named", a.status, name)
			}
		}
	}
}

// TestP13_TheLargestBatch is below the limit of its body.
func TestP13_TheLargestBatch(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := make([]string, api.MaxDeviceBatch)
	for i := range list {
		list[i] = fmt.Sprintf(`{"user": "%s%04d", "token": "%0200x", "platform": "apns", "topic": "%s", "environment": "production"}`,
			strings.Repeat("u", api.MaxIdentifier-4), i, i, strings.Repeat("t", api.MaxIdentifier))
	}
	for range 2 {
		storetest.Eventually(t, time.Minute, "the batch to be taken", func() bool {
			a := w.do(deviceBatch(list...))
			if a.status != 204 && a.status != 503 { // a busy machine may not do it in time
				t.Fatalf("%d %s", a.status, a.body)
			}
			return a.status == 204
		})
	}
}

// TestP13_NotForUserTokens: an API key needs the scope, and a user token opens neither batch.
func TestP13_NotForUserTokens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.do(deviceBatch(aDevice("bob", 1)).with("Authorization: Bearer "+w.mustKey(api.ScopePush))).wants(t, 204, "")
	w.do(deviceBatch(aDevice("bob", 1)).with("Authorization: Bearer "+w.mustKey(api.ScopeContacts))).
		wants(t, 403, problem(api.CodeForbidden, "this API key lacks the scope push", `"scope":"push"`))
	w.do(deviceBatch(aDevice("bob", 1)).with(w.mustToken("bob", api.UserScopeDevices))).
		wants(t, 403, problem(api.CodeForbidden, "a user token does not open this call"))
}
