package handlers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/chat/live"
	"fanfare/store/events"
	"fanfare/store/queue"
	"fanfare/store/storetest"
)

// userEvent is the whole answer about an event of the type t for bob, without devices or notifications.
func userEvent(id, now string) string {
	return `{"id":"` + id + `","user":"bob","type":"t","state":"queued","now":{` + now + `},"notifications":[],"outcomes_kept":true}`
}

func TestN10_Scopes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	id := w.post("/v1/events", `{"type":"t","alert":{"title":"T"},"audience":{"users":["bob"]}}`).member(t, "id")
	path := "/v1/events/" + id + "/users/bob"
	for scopes, status := range map[string]int{
		"push ops:read": 200, "push ops": 200, "admin": 200, "ops:read": 403, "ops": 403, "push": 403, "push push:all": 403, "chat": 403,
	} {
		var list []api.Scope
		for s := range strings.FieldsSeq(scopes) {
			list = append(list, api.Scope(s))
		}
		a := w.do(get(path).with("Authorization: Bearer " + w.mustKey(list...)))
		if a.status != status {
			t.Errorf("%s: %d, want %d: %s", scopes, a.status, status, a.body)
		}
		if status == 403 && strings.Contains(scopes, "ops") && a.member(t, "scope") != "push" {
			t.Errorf("%s: %s does not name the scope push", scopes, a.body)
		}
	}
}

func TestN10_WhatHoldsNow(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		id := w.post("/v1/events", `{"type":"t","alert":{"title":"T"},"audience":{"users":["bob"]}}`).member(t, "id")
		path := "/v1/events/" + id + "/users/bob"
		w.get(path).wants(t, 200, userEvent(id, `"opted_out":false,"muted":false,"live":false,"devices":[]`)) // no device
		w.put("/v1/users/bob/opt-outs/other", "")
		w.get(path).wants(t, 200, userEvent(id, `"opted_out":false,"muted":false,"live":false,"devices":[]`))
		w.put("/v1/users/bob/opt-outs/t", "")
		w.get(path).wants(t, 200, userEvent(id, `"opted_out":true,"muted":false,"live":false,"devices":[]`))
		w.del("/v1/users/bob/opt-outs/t")
		storetest.Must(t, w.db.Client().Set(t.Context(), live.PresenceKey("bob"), "a process", time.Minute).Err())
		w.get(path).wants(t, 200, userEvent(id, `"opted_out":false,"muted":false,"live":true,"devices":[]`))
		storetest.Must(t, w.db.Client().Del(t.Context(), live.PresenceKey("bob")).Err())

		// A device that is gone, with reason and time, and one that is not.
		w.put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
		storetest.Must(t, w.devices.Drop(t.Context(), token, "Unregistered", api.At(time.Now().Add(time.Hour)), api.At(time.Now().Add(time.Hour))))
		w.put("/v1/users/bob/devices/"+fcmToken, `{"platform":"fcm","topic":"com.example.app"}`)
		w.get(path).wants(t, 200, userEvent(id, `"opted_out":false,"muted":false,"live":false,"devices":[
			{"token":"`+token+`","platform":"apns","topic":"com.example.app","environment":"sandbox","state":"dropped","reason":"Unregistered","registered_at":"*","dropped_at":"*"},
			{"token":"`+fcmToken+`","platform":"fcm","topic":"com.example.app","state":"active","registered_at":"*"}]`))

		w.get("/v1/events/"+id+"/users/"+strings.Repeat("a", 129)).wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"user","rule":"identifier","message":"*"}]`))
		w.get("/v1/events/"+id+"/users/a%20b").wants(t, 422, problem(api.CodeValidation, "*", `"errors":[{"field":"user","rule":"identifier","message":"*"}]`))
		for _, unknown := range []string{queue.NewID(0, time.Now()), queue.NewID(255, time.Now()), "x", strings.Repeat("v", 32)} {
			w.get("/v1/events/"+unknown+"/users/bob").wants(t, 404, problem(api.CodeNotFound, "*"))
		}
	})
}

// N10: a notification that waits says that its app is paused, and why.
func TestN10_WaitsForItsApp(t *testing.T) {
	t.Parallel()
	state := api.AppPaused
	w := setup(t, func(o *handlers.Options) {
		o.Apps = func(context.Context) ([]api.App, error) {
			return []api.App{
				{App: "com.example.app/fcm", Topic: "com.example.app", Platform: api.PlatformFCM, State: api.AppPaused, Reason: "another"},
				{App: "com.example.app/sandbox", Topic: "com.example.app", Platform: api.PlatformAPNs, Environment: api.EnvSandbox, State: state, Reason: "InvalidProviderToken"},
			}, nil
		}
	})
	w.put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
	id := w.post("/v1/events", `{"type":"t","alert":{"title":"T"},"audience":{"users":["bob"]}}`).member(t, "id")
	_, err := w.notifications.Enqueue(t.Context(), queue.Job{ID: events.NotificationJob(id, token), Shard: w.notifications.Route(token), Group: id, Payload: []byte("x")})
	storetest.Must(t, err)
	for s, reason := range map[api.AppState]string{api.AppPaused: `,"reason":"app_paused: InvalidProviderToken"`, api.AppResuming: `,"reason":"app_resuming"`, api.AppRunning: ""} {
		state = s
		w.get("/v1/events/"+id+"/users/bob").wants(t, 200, `{"id":"`+id+`","user":"bob","type":"t","state":"queued","now":{"opted_out":false,"muted":false,"live":false,"devices":["*"]},
			"notifications":[{"token":"`+token+`","platform":"apns","state":"waiting"`+reason+`}],"outcomes_kept":true}`)
	}
}
