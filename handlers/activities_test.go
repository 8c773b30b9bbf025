package handlers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

const activityRequest = `{"platform":"apns","topic":"com.example.app","environment":"sandbox","kind":"update","object":"match:7"}`

// activityShown is an activity in an answer.
func activityShown(token, members string) string {
	return `{"token":"` + token + `","platform":"apns","topic":"com.example.app.push-type.liveactivity","environment":"sandbox",` + members + `"registered_at":"*"`
}

// TestG1_Activities: an activity is registered, listed, handed over and removed, and is no device.
func TestG1_Activities(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		path := "/v1/users/bob/activities"
		update := activityShown(token, `"object":"match:7","kind":"update",`) + `,"ends_at":"*"}`
		w.put(path+"/"+strings.ToUpper(token), activityRequest).wants(t, 201, update)
		w.put(path+"/"+token, strings.Replace(activityRequest, "com.example.app", "com.example.app.push-type.liveactivity", 1)).wants(t, 200, update)
		w.get(path).wants(t, 200, `{"items":[`+update+`]}`)
		w.get("/v1/users/bob/devices").wants(t, 200, `{"items":[]}`)
		w.get("/v1/users/bob/notification-settings").wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[]}`)
		w.post("/v1/users/bob/devices/"+token+"/test", "").wants(t, 404, problem(api.CodeNotFound, "the user has no such device"))
		w.del("/v1/users/bob/devices/"+token).wants(t, 204, "")
		w.get(path).wants(t, 200, `{"items":[`+update+`]}`)

		t.Run("a start token has a type and no end", func(t *testing.T) {
			other := strings.Repeat("ab", 40)
			start := activityShown(other, `"kind":"start","attributes_type":"Match","locale":"de",`) + `}`
			w.put("/v1/users/eve/activities/"+other, `{"platform":"apns","topic":"com.example.app","environment":"sandbox","kind":"start","attributes_type":"Match","locale":"de"}`).wants(t, 201, start)
			w.get("/v1/users/eve/activities").wants(t, 200, `{"items":[`+start+`]}`)
		})
		t.Run("a token moves to the user who registers it", func(t *testing.T) {
			w.put("/v1/users/carol/activities/"+token, activityRequest).wants(t, 201, update)
			w.get(path).wants(t, 200, `{"items":[]}`)
			w.del(path+"/"+token).wants(t, 204, "")
			w.get("/v1/users/carol/activities").wants(t, 200, `{"items":[`+update+`]}`)
			w.del("/v1/users/carol/activities/"+token).wants(t, 204, "")
			w.del("/v1/users/carol/activities/"+token).wants(t, 204, "")
			w.get("/v1/users/carol/activities").wants(t, 200, `{"items":[]}`)
		})
		t.Run("the 21st is refused, and devices do not count", func(t *testing.T) {
			w.put("/v1/users/dan/devices/"+strings.Repeat("ee", 32), `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
			for i := range api.MaxActivities {
				if a := w.put(fmt.Sprintf("/v1/users/dan/activities/%064x", i), activityRequest); a.status != 201 {
					t.Fatalf("%d %s", a.status, a.body)
				}
			}
			last := "/v1/users/dan/activities/" + token
			w.put(last, activityRequest).wants(t, 422, broken("token", "max", "would be one more than the 20 activities a user may have"))
			w.put(fmt.Sprintf("/v1/users/dan/activities/%064x", 5), activityRequest).wants(t, 200, activityShown(fmt.Sprintf("%064x", 5), `"object":"match:7","kind":"update",`)+`,"ends_at":"*"}`)
			storetest.Eventually(t, soon, "the first to end in a second", func() bool {
				in := fmt.Sprintf(`{"ends_at":%q,`, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano))
				return w.put(fmt.Sprintf("/v1/users/dan/activities/%064x", 0), strings.Replace(activityRequest, "{", in, 1)).status == 200
			})
			storetest.Eventually(t, soon, "room for another", func() bool { return w.put(last, activityRequest).status == 201 })
			if a := w.get("/v1/users/dan/activities?limit=50"); strings.Count(a.body, `"token"`) != api.MaxActivities || strings.Contains(a.body, fmt.Sprintf("%064x", 0)) {
				t.Errorf("%s", a.body)
			}
		})
		t.Run("an iPhone through FCM is a device of the user", func(t *testing.T) {
			const phone = fcmToken + "phone"
			path, body := "/v1/users/fay/activities/"+strings.Repeat("cd", 40), `{"platform":"fcm","topic":"com.example.app","kind":"update","object":"match:7","registration":"`+phone+`"}`
			w.put(path, body).wants(t, 422, broken("registration", "device", "is no device of the user; register the phone first"))
			w.put("/v1/users/fay/devices/"+phone, `{"platform":"fcm","topic":"com.example.app"}`)
			if a := w.put(path, body); a.status != 201 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
		t.Run("an Android phone has one token for all", func(t *testing.T) {
			const body = `{"platform":"fcm","topic":"com.example.app","kind":"update","object":"match:7"}`
			android := "/v1/users/amy/activities/" + fcmToken
			w.put(android, body).wants(t, 422, broken("token", "device", "is no device of the user; register the phone first"))
			w.put("/v1/users/amy/devices/"+fcmToken, `{"platform":"fcm","topic":"com.example.app"}`)
			for _, object := range []string{"match:7", "match:8"} {
				shown := `{"token":"` + fcmToken + `","platform":"fcm","topic":"com.example.app","object":"` + object + `","kind":"update","registered_at":"*","ends_at":"*"}`
				w.put(android, strings.Replace(body, "match:7", object, 1)).wants(t, 201, shown)
				w.put(android, strings.Replace(body, "match:7", object, 1)).wants(t, 200, shown)
			}
			if a := w.get("/v1/users/amy/activities"); strings.Count(a.body, fcmToken) != 2 {
				t.Errorf("%s", a.body)
			}
			w.del(android+"?object=match:8").wants(t, 204, "")
			if a := w.get("/v1/users/amy/activities"); strings.Count(a.body, fcmToken) != 1 || !strings.Contains(a.body, "match:7") {
				t.Errorf("%s", a.body)
			}
			w.del(android).wants(t, 204, "")
			w.get("/v1/users/amy/activities").wants(t, 200, `{"items":[]}`)
			if a := w.get("/v1/users/amy/devices"); !strings.Contains(a.body, fcmToken) {
				t.Errorf("the phone is gone: %s", a.body)
			}
		})
	})
}

// TestG1_BadActivities: each field that is wrong is named.
func TestG1_BadActivities(t *testing.T) {
	t.Parallel()
	w := setup(t)
	path := "/v1/users/bob/activities/" + token
	with := func(members string) string { return strings.Replace(activityRequest, "{", "{"+members+",", 1) }
	at := func(d time.Duration) string {
		return fmt.Sprintf(`"ends_at":%q`, time.Now().Add(d).UTC().Format(time.RFC3339))
	}
	run(t, w, []bad{
		{"an end in the past", put(path, with(at(-time.Hour))), 422, broken("ends_at", "future", "must be in the future")},
		{"an end too late", put(path, with(at(13*time.Hour))), 422, broken("ends_at", "max", "must be at most 12 hours ahead")},
		{"no kind", put(path, strings.Replace(activityRequest, `"kind":"update",`, "", 1)), 422, broken("kind", "required", "is required")},
		{"no object", put(path, strings.Replace(activityRequest, `,"object":"match:7"`, "", 1)), 422, broken("object", "required", "is required")},
		{"a token of Android", put("/v1/users/bob/activities/"+fcmToken, activityRequest), 422, broken("token", "token", "is not a token of apns")},
		{"no token", put("/v1/users/bob/activities/x", activityRequest), 422, broken("token", "token", api.TokenRule)},
	})
}

// TestG1_AppsOfActivities: a user registers activities only of apps that the server has.
func TestG1_AppsOfActivities(t *testing.T) {
	t.Parallel()
	w, _ := setupUsers(t, func(o *handlers.Options) {
		o.TakesDevice = func(r *api.DeviceRequest) bool {
			return r.Topic == "com.example.app.push-type.liveactivity"
		}
	})
	bob := w.mustToken("bob")
	for topic, status := range map[string]int{
		"com.example.app": 200, "com.example.app.push-type.liveactivity": 200, "com.example.other": 422,
	} {
		a := w.do(put("/v1/users/bob/activities/"+token, strings.Replace(activityRequest, "com.example.app", topic, 1)).with(bob))
		if a.status/100*100 != status/100*100 {
			t.Errorf("%s: %d %s", topic, a.status, a.body)
		}
	}
}

// TestG2_BadLiveEvents: what is wrong with a live event is named.
func TestG2_BadLiveEvents(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.put("/v1/event-types/photo", `{"title":"x"}`)
	w.put("/v1/event-types/match", `{"push_type":"liveactivity"}`)
	const events = "/v1/events"
	live := func(typ, audience, members string) string {
		return `{"type":"` + typ + `","audience":{"activities_of":"match:7"` + audience + `},"live":{"action":"update","content_state":{}}` + members + `}`
	}
	w.post(events, live("match", "", "")).wants(t, 202, `{"id":"*"}`)
	w.post(events, live("unknown", "", "")).wants(t, 202, `{"id":"*"}`)
	run(t, w, []bad{
		{"without live", post(events, `{"type":"match","audience":{"users":["bob"]}}`), 422, broken("live", "required", "is where a push of type liveactivity takes its payload from")},
		{"an alert's type", post(events, live("photo", "", "")), 422, broken("live", "push_type", "goes only with an event type whose push type is liveactivity")},
		{"two audiences", post(events, live("match", `,"all":true`, "")), 422, broken("audience", "exactly_one", "must hold exactly one of users, contacts_of, chat, topic, all, activities_of, broadcast")},
		{"a state that is no object", post(events, `{"type":"match","audience":{"activities_of":"a"},"live":{"action":"update","content_state":[]}}`), 422, broken("live.content_state", "object", "must be a JSON object")},
		{"an update to users", post(events, `{"type":"match","audience":{"users":["bob"]},"live":{"action":"update","content_state":{}}}`), 422,
			broken("audience", "audience", "must be one of activities_of, broadcast for this action of live")},
		{"what live sets", post(events, live("match", "", `,"aps":{"timestamp":1}`)), 422, broken("aps.timestamp", "reserved", "is set by live")},
	})
	a := w.post(events+"?dry_run=true", live("match", "", `,"alert":{"title":"Goal"}`))
	if a.status != 200 || strings.Contains(a.body, "9999999999") || !strings.Contains(a.body, `"event":"update"`) || !strings.Contains(a.body, `"push_type":"liveactivity"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
