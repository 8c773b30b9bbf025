package handlers_test

import (
	"strings"
	"testing"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
)

const (
	endpoint = "https://fcm.googleapis.com/fcm/send/unspeakable"
	point    = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	auth     = "BTBZMqHH6r4Tts7J_aSIgg"
	// subscription is what a page's PushSubscription.toJSON() gives.
	subscription = `{"endpoint":"` + endpoint + `","expirationTime":null,"keys":{"p256dh":"` + point + `","auth":"` + auth + `"}}`
)

// browserBody registers a browser, with more members.
func browserBody(more string) string {
	return `{"platform":"webpush","topic":"shop","subscription":` + subscription + more + `}`
}

// aBrowser is that browser in answers.
func aBrowser(more string) string {
	return `{"token":"` + api.TokenOfEndpoint(endpoint) + `","platform":"webpush","topic":"shop","origin":"https://fcm.googleapis.com"` + more + `,"state":"active","registered_at":"*"}`
}

// otherKeys is the subscription of the same endpoint after the page subscribed again.
func otherKeys(t *testing.T, body string) string {
	s := storetest.Subscription(t, endpoint)
	return strings.NewReplacer(point, s.Keys.P256dh, auth, s.Keys.Auth).Replace(body)
}

// W2: a page registers its browser with what it has, and answers show its origin alone.
func TestW2_Browsers(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const path = "/v1/users/bob/devices"
		w.put(path+"/"+token, `{"platform":"apns","topic":"a","environment":"sandbox"}`).wants(t, 201, `"*"`)
		w.post(path, browserBody(`,"locale":"de","replaces":"`+token+`"`)).wants(t, 201, aBrowser(`,"locale":"de"`))
		w.get(path).wants(t, 200, `{"items":[`+aBrowser(`,"locale":"de"`)+`]}`)
		w.post(path, otherKeys(t, browserBody(""))).wants(t, 200, aBrowser(""))
		w.get("/v1/users/bob/notification-settings").wants(t, 200, `{"opt_outs":[],"mutes":[],"devices":[`+aBrowser("")+`]}`)
		w.post("/v1/users/eve/devices", browserBody("")).wants(t, 201, aBrowser(""))
		w.get(path).wants(t, 200, `{"items":[]}`)
		t.Run("another device can replace it", func(t *testing.T) {
			w.put("/v1/users/eve/devices/"+token, `{"platform":"apns","topic":"a","environment":"sandbox","replaces":"`+api.TokenOfEndpoint(endpoint)+`"}`).wants(t, 201, `"*"`)
			if a := w.get("/v1/users/eve/devices"); strings.Contains(a.body, "webpush") {
				t.Error(a.body)
			}
		})
		t.Run("it is removed by its token", func(t *testing.T) {
			w.post(path, browserBody("")).wants(t, 201, aBrowser(""))
			w.del(path+"/"+api.TokenOfEndpoint(endpoint)).wants(t, 204, "")
			w.get(path).wants(t, 200, `{"items":[]}`)
		})
		t.Run("once per idempotency key", func(t *testing.T) {
			const key = "Idempotency-Key: 1"
			w.do(post(path, browserBody("")).with(key)).wants(t, 201, aBrowser(""))
			w.del(path+"/"+api.TokenOfEndpoint(endpoint)).wants(t, 204, "")
			again := w.do(post(path, browserBody("")).with(key)).wants(t, 201, aBrowser(""))
			wantHeader(t, again, "Idempotent-Replayed", "true")
			w.get(path).wants(t, 200, `{"items":[]}`)
			w.do(post(path, otherKeys(t, browserBody(""))).with(key)).wants(t, 422, problem(api.CodeIdempotencyReused, "this Idempotency-Key was used with another body"))
		})
		t.Run("in a batch", func(t *testing.T) {
			w.do(deviceBatch(aDevice("dan", 1), `{"user":"dan",`+browserBody("")[1:])).wants(t, 204, "")
			if a := w.get("/v1/users/dan/devices"); !strings.Contains(a.body, `"origin":"https://fcm.googleapis.com"`) {
				t.Error(a.body)
			}
		})
		for _, secret := range []string{"unspeakable", point, auth} {
			if log := w.log.String(); strings.Contains(log, secret) {
				t.Errorf("the log has %s: %s", secret, log)
			}
		}
	})
}

// W2: a user's own token registers browsers for that user alone, if there is an app for them.
func TestW2_UsersRegisterTheirBrowsers(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t, func(o *handlers.Options) {
		o.TakesDevice = func(r *api.DeviceRequest) bool { return r.Platform == "webpush" && r.Topic == "shop" }
		o.Web.AllowedOrigins = []string{"https://shop.example"}
	})
	own, page := w.mustToken("bob", api.UserScopeDevices), "Origin: https://shop.example"
	a := w.do(post("/v1/users/bob/devices", browserBody("")).with(own, page)).wants(t, 201, aBrowser(""))
	wantHeader(t, a, "Access-Control-Allow-Origin", "https://shop.example")
	asked := w.do(call{method: "OPTIONS", path: "/v1/users/bob/devices"}.with(page, "Access-Control-Request-Method: POST"))
	wantHeader(t, asked, "Access-Control-Allow-Methods", "GET, HEAD, POST")
	elsewhere := strings.Replace(browserBody(""), "shop", "other", 1)
	w.do(post("/v1/users/bob/devices", elsewhere).with(own)).wants(t, 422, problem(api.CodeUnknownApp, "no app is configured for this topic and environment"))
	w.do(post("/v1/users/bob/devices", elsewhere).with(admin)).wants(t, 200, strings.Replace(aBrowser(""), "shop", "other", 1))
}

func TestW15_BadBrowsers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const path = "/v1/users/bob/devices"
	with := func(old, new string) call { return post(path, strings.Replace(browserBody(""), old, new, 1)) }
	const endpointRule, unlisted = "must be a URL with https, port 443 and the name of a host, at most 2048 bytes", "is at a push service to which this server does not send"
	run(t, w, []bad{
		{"another platform", with("webpush", "fcm"), 422, broken("platform", "oneof", "must be one of webpush")},
		{"no subscription", post(path, `{"platform":"webpush","topic":"shop"}`), 422, problem(api.CodeValidation, "subscription.endpoint is required (and 2 more)",
			errorsOf("subscription.endpoint", "required", "is required", "subscription.keys.p256dh", "required", "is required", "subscription.keys.auth", "required", "is required"))},
		{"an unknown member", with(`"keys"`, `"options":{},"keys"`), 400, badJSON("subscription.options", "is not a field of this call")},
		{"http", with("https", "http"), 422, broken("subscription.endpoint", "endpoint", endpointRule)},
		{"another port", with(".com/", ".com:8443/"), 422, broken("subscription.endpoint", "endpoint", endpointRule)},
		{"user info", with("fcm.googleapis", "a:b@fcm.googleapis"), 422, broken("subscription.endpoint", "endpoint", endpointRule)},
		{"an address", with("fcm.googleapis.com", "2130706433"), 422, broken("subscription.endpoint", "endpoint", endpointRule)},
		{"2,049 bytes", with("unspeakable", strings.Repeat("s", 2049-len(endpoint)+len("unspeakable"))), 422, broken("subscription.endpoint", "endpoint", endpointRule)},
		{"another push service", with("fcm.googleapis", "push.example"), 422, broken("subscription.endpoint", "origin", unlisted)},
		{"no point on P-256", with(point[:40], point[:39]+"A"), 422, broken("subscription.keys.p256dh", "p256dh", "must be an uncompressed point on P-256 in base64url")},
		{"15 bytes of auth", with(auth, auth[:20]), 422, broken("subscription.keys.auth", "auth", "must be 16 bytes in base64url")},
		{"a bad token to replace", post(path, browserBody(`,"replaces":"x"`)), 422, broken("replaces", "token", tokenRule)},
		{"a token for an endpoint", deviceBatch(aDevice("bob", 1), `{"user":"bob","token":"`+api.TokenOfEndpoint(endpoint)+`",`+browserBody("")[1:]), 422,
			broken("devices[1].token", "derived", "must be left out: the endpoint of the subscription gives it")},
		{"a subscription on APNs", deviceBatch(strings.Replace(aDevice("bob", 1), "{", `{"subscription":`+subscription+",", 1)), 422,
			broken("devices[0].subscription", "webpush", "is for the platform webpush alone")},
		{"another push service in a batch", deviceBatch(aDevice("bob", 1), `{"user":"bob",`+strings.Replace(browserBody(""), "fcm.googleapis", "push.example", 1)[1:]), 422,
			broken("devices[1].subscription.endpoint", "origin", unlisted)},
		{"an endpoint twice", deviceBatch(`{"user":"bob",`+browserBody("")[1:], `{"user":"amy",`+otherKeys(t, browserBody(""))[1:]), 422,
			broken("devices[1].subscription.endpoint", "unique", "repeats devices[0]")},
	})
	var full []string
	for i := range api.MaxDevices {
		full = append(full, aDevice("dan", i))
	}
	w.do(deviceBatch(full...)).wants(t, 204, "")
	const most = "would be one more than the 50 devices a user may have"
	w.post("/v1/users/dan/devices", browserBody("")).wants(t, 422, broken("subscription.endpoint", "max", most))
	w.do(deviceBatch(`{"user":"dan",`+browserBody("")[1:])).wants(t, 422, broken("devices[0].subscription.endpoint", "max", most))
}

// W4: pages of every origin read the key of an app without credentials.
func TestW4_TheKeyForPages(t *testing.T) {
	t.Parallel()
	w, _ := setupUsers(t, func(o *handlers.Options) {
		o.PublicKey = func(topic string) (string, bool) { return "BKey", topic == "shop" }
	})
	page := "Origin: https://shop.example"
	a := w.do(get("/v1/webpush/shop/key").with(page)).wants(t, 200, `{"key":"BKey"}`)
	wantHeader(t, a, "Access-Control-Allow-Origin", `\*`)
	a = w.do(get("/v1/webpush/other/key").with(page)).wants(t, 404, problem(api.CodeNotFound, "there is no app of Web Push for the topic other"))
	wantHeader(t, a, "Access-Control-Allow-Origin", `\*`)
	w.do(get("/v1/webpush/%7B/key")).wants(t, 422, broken("topic", "identifier", identifierRule))
	if a := w.do(call{method: "OPTIONS", path: "/v1/webpush/shop/key"}.with(page, "Access-Control-Request-Method: GET")); a.header.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("credentials are allowed: %v", a.header)
	}
	t.Run("WithoutApps", func(t *testing.T) {
		t.Parallel()
		setup(t, func(o *handlers.Options) { o.PublicKey = func(string) (string, bool) { return "", false } }).get("/v1/webpush/shop/key").wants(t, 404, problem(api.CodeNotFound, "there is no app of Web Push for the topic shop"))
	})
	t.Run("WithoutKeysForThisMachineAlone", func(t *testing.T) {
		t.Parallel()
		w := setup(t)
		w.do(get("/v1/webpush/shop/key").with("Origin: http://localhost:3000")).wants(t, 200, `{"key":"BKey"}`)
		w.do(get("/v1/webpush/shop/key").with(page)).wants(t, 403, problem(api.CodeForbidden, "without an API key this server answers no pages of other origins"))
	})
}
