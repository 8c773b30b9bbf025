package handlers_test

import (
	"context"
	"slices"
	"testing"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/apps"
	"fanfare/store/storetest"
)

// N16: a probe is asked for of each paused app of the topic, and of no other app.
func TestN16_AppsAndProbes(t *testing.T) {
	t.Parallel()
	at := api.AtMillis(1767366245000)
	all := []api.App{
		{App: "news/production", Topic: "news", Platform: "apns", Environment: "production", State: "paused", Reason: "refused", Since: &at},
		{App: "shop/fcm", Topic: "shop", Platform: "fcm", State: "paused", Reason: "403", Since: &at, Waiting: 3},
		{App: "shop/production", Topic: "shop", Platform: "apns", Environment: "production", State: "resuming", Reason: "refused", Since: &at},
		{App: "shop/sandbox", Topic: "shop", Platform: "apns", Environment: "sandbox", State: "paused", Reason: "refused", Since: &at},
		{App: "wine/production", Topic: "wine", Platform: "apns", Environment: "production", State: "running"},
	}
	w := setup(t, func(o *handlers.Options) {
		o.Apps = func(context.Context) ([]api.App, error) { return all, nil }
	})
	const since = `"since":"2026-01-02T15:04:05.000Z"`
	w.get("/v1/apps").wants(t, 200, `{"items":[
		{"app":"news/production","topic":"news","platform":"apns","environment":"production","state":"paused","reason":"refused",`+since+`,"waiting":0},
		{"app":"shop/fcm","topic":"shop","platform":"fcm","state":"paused","reason":"403",`+since+`,"waiting":3},
		{"app":"shop/production","topic":"shop","platform":"apns","environment":"production","state":"resuming","reason":"refused",`+since+`,"waiting":0},
		{"app":"shop/sandbox","topic":"shop","platform":"apns","environment":"sandbox","state":"paused","reason":"refused",`+since+`,"waiting":0},
		{"app":"wine/production","topic":"wine","platform":"apns","environment":"production","state":"running","waiting":0}]}`)
	asked := func() map[string]string {
		t.Helper()
		requests, err := apps.New(w.db, apps.Options{}).Asked(t.Context())
		storetest.Must(t, err)
		return requests
	}
	const probe = "/v1/apps/shop/probe"
	w.post("/v1/apps/wine/probe", "").wants(t, 202, `{"topic":"wine"}`)
	if got := asked(); len(got) != 0 {
		t.Errorf("of an app that runs: %v", got)
	}
	w.post(probe, "", "Idempotency-Key: once").wants(t, 202, `{"topic":"shop"}`)
	first := asked()
	if len(first) != 2 || first["shop/fcm"] == "" || first["shop/sandbox"] == "" {
		t.Errorf("asked %v", first)
	}
	again := w.post(probe, "", "Idempotency-Key: once").wants(t, 202, `{"topic":"shop"}`)
	if again.header.Get("Idempotent-Replayed") != "true" || asked()["shop/fcm"] != first["shop/fcm"] {
		t.Error("a repeat asked again")
	}
	w.post(probe, "").wants(t, 202, `{"topic":"shop"}`)
	if asked()["shop/fcm"] == first["shop/fcm"] {
		t.Error("a second call did not ask again")
	}
	w.post("/v1/apps/shoes/probe", "").wants(t, 404, problem(api.CodeNotFound, "there is no app of the topic shoes"))
	w.post("/v1/apps/*/probe", "").wants(t, 422, broken("topic", "identifier", identifierRule))
	want := []string{"apps.probe shop/fcm ", "apps.probe shop/sandbox "}
	if got := w.changes(); !slices.Equal(got, append(want, want...)) {
		t.Errorf("N4: changes %q", got)
	}
}
