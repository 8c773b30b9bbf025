package handlers_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/handlers"
	"fanfare/store/broadcasts"
	"fanfare/store/storetest"
)

const broadcastB = "/v1/broadcasts/match:1"

// setupChannels opens a server whose channels come from a stand-in for APNs.
func setupChannels(t testing.TB, o apnstest.Options) (*world, *apnstest.Server) {
	t.Helper()
	s := apnstest.Start(t, o)
	sender := apns.New(apns.Options{URL: s.URL(), ManageURL: s.ManageURL(), CAFile: s.CAFile(), KeyFile: s.KeyFile(), KeyID: s.KeyID(), TeamID: s.TeamID()})
	t.Cleanup(func() { _ = sender.Close() })
	storetest.Must(t, transport.Configure(sender, "", ""))
	db := storetest.Open(t, "embedded")
	url := storetest.SQLite(t)
	w := setupSQL(t, db, url, func(h *handlers.Options) {
		h.Broadcasts = broadcasts.New(broadcasts.Options{DB: db, Record: h.Record, Channels: sender, Logger: slog.New(slog.DiscardHandler)})
	})
	return w, s
}

// broadcastBody is a body whose broadcast ends in an hour.
func broadcastBody(members string) string {
	return `{"topic":"com.example.app","environment":"production","ends_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `",` + members + `}`
}

func TestBroadcastCalls(t *testing.T) {
	t.Parallel()
	w, s := setupChannels(t, apnstest.Options{MaxChannels: 2})
	shown := func(state, keep string) string {
		return `{"object":"match:1","topic":"com.example.app","environment":"production","keep":"` + keep + `","ends_at":"*","channel":"*","state":"` + state + `","created_at":"*","updated_at":"*"}`
	}
	w.get(broadcastB).wants(t, 404, problem(api.CodeNotFound, "there is no broadcast of match:1"))
	w.get("/v1/broadcasts").wants(t, 200, `{"items":[]}`)
	body := broadcastBody(`"keep":"latest"`)
	first := w.put(broadcastB, body).wants(t, 201, shown("open", "latest"))
	if channel := first.member(t, "channel"); s.Channels("com.example.app")[0] != channel {
		t.Errorf("the channel is %s, APNs has %v", channel, s.Channels("com.example.app"))
	}
	if again := w.put(broadcastB, body).wants(t, 200, shown("open", "latest")); again.body != first.body {
		t.Errorf("the same again is %s, want %s", again.body, first.body)
	}
	w.put(broadcastB, broadcastBody(`"keep":"none"`)).wants(t, 409,
		problem(api.CodeConflict, "the broadcast has a channel of another topic, environment or keep, which cannot be changed: delete it first"))
	w.put("/v1/broadcasts/chat:c", broadcastBody(`"keep":"none"`))
	w.put("/v1/broadcasts/match:2", body).wants(t, 409, problem(api.CodeChannelsExhausted, "APNs' management host answered 400 CannotCreateChannelConfig"))
	page := w.get("/v1/broadcasts?limit=1")
	w.get("/v1/broadcasts?limit=1&cursor="+page.member(t, "next")).wants(t, 200, `{"items":[`+shown("open", "latest")+`]}`)
	w.get(broadcastB).wants(t, 200, shown("open", "latest"))
	s.RefuseManagement(true)
	w.del(broadcastB).wants(t, 204, "")
	w.get(broadcastB).wants(t, 200, shown("closing", "latest"))
	if a := w.put(broadcastB, body); a.status != 503 {
		t.Errorf("while the management host is away, PUT is %d %s", a.status, a.body)
	}
	s.RefuseManagement(false)
	w.del(broadcastB).wants(t, 204, "")
	w.get(broadcastB).wants(t, 404, problem(api.CodeNotFound, "there is no broadcast of match:1"))
	w.del(broadcastB).wants(t, 204, "")
	s.ScriptManagement(apnstest.Fail(400, "FeatureNotEnabled"))
	w.put(broadcastB, body).wants(t, 409, problem(api.CodeChannelsRefused, "APNs' management host answered 400 FeatureNotEnabled", `"reason":"FeatureNotEnabled"`))
}

// A list that ends with an object of the greatest length goes on.
func TestBroadcastsWithLongObjectsAreListed(t *testing.T) {
	t.Parallel()
	w, _ := setupChannels(t, apnstest.Options{MaxChannels: 2})
	long := "chat:" + strings.Repeat("a", api.MaxIdentifier)
	for _, object := range []string{long, "match:1"} {
		if a := w.put("/v1/broadcasts/"+object, broadcastBody(`"keep":"none"`)); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	shown := func(object string) string {
		return `{"object":"` + object + `","topic":"com.example.app","environment":"production","keep":"none","ends_at":"*","channel":"*","state":"open","created_at":"*","updated_at":"*"}`
	}
	page := w.get("/v1/broadcasts?limit=1").wants(t, 200, `{"items":[`+shown(long)+`],"next":"*"}`)
	w.get("/v1/broadcasts?limit=1&cursor="+page.member(t, "next")).wants(t, 200, `{"items":[`+shown("match:1")+`]}`)
}

func TestBadBroadcasts(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const when = `"ends_at":"2099-01-01T00:00:00Z"`
	with := func(members string) call { return put(broadcastB, "{"+members+"}") }
	run(t, w, []bad{
		{"an object with a space", put("/v1/broadcasts/a%20b", broadcastBody(`"keep":"none"`)), 422, broken("object", "identifier", identifierRule)},
		{"no topic", with(`"environment":"production","keep":"none",` + when), 422, broken("topic", "required", "is required")},
		{"a topic of VoIP", with(`"topic":"com.example.app.voip","environment":"production","keep":"none",` + when), 422,
			broken("topic", "bundle_id", "must be the bundle id of an app, with or without .push-type.liveactivity at its end")},
		{"no environment", with(`"topic":"a","keep":"none",` + when), 422, broken("environment", "required", "is required")},
		{"another environment", with(`"topic":"a","environment":"test","keep":"none",` + when), 422, broken("environment", "oneof", "must be one of production, sandbox")},
		{"no keep", with(`"topic":"a","environment":"sandbox",` + when), 422, broken("keep", "required", "is required")},
		{"another keep", with(`"topic":"a","environment":"sandbox","keep":"all",` + when), 422, broken("keep", "oneof", "must be one of none, latest")},
		{"no end", with(`"topic":"a","environment":"sandbox","keep":"none"`), 422, broken("ends_at", "required", "is required")},
		{"an end that is past", with(`"topic":"a","environment":"sandbox","keep":"none","ends_at":"2020-01-01T00:00:00Z"`), 422, broken("ends_at", "future", "must be in the future")},
		{"a channel", with(`"topic":"a","environment":"sandbox","keep":"none","channel":"x",` + when), 400, badJSON("channel", "is not a field of this call")},
		{"a limit of 501", get("/v1/broadcasts?limit=501"), 422, broken("limit", "max", "must be at most 500")},
	})
	w.get("/v1/broadcasts").wants(t, 200, `{"items":[]}`)
}

func TestBroadcastOfAnUnknownApp(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	sender := apns.New(apns.Options{})
	t.Cleanup(func() { _ = sender.Close() })
	w := setupSQL(t, db, storetest.SQLite(t), func(h *handlers.Options) {
		h.Broadcasts = broadcasts.New(broadcasts.Options{DB: db, Record: h.Record, Channels: sender})
	})
	w.put(broadcastB, broadcastBody(`"keep":"none"`)).wants(t, 422,
		problem(api.CodeUnknownApp, "there is no app of APNs for the topic com.example.app in the environment production"))
}

func TestN22_Broadcasts(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	cookie, key := w.login(w.mustKey(api.ScopeOpsRead)), w.bearer(api.ScopePush)
	w.page("/console/broadcasts", cookie).shows(t, 200, "No object has a channel")
	w.do(put(broadcastB, broadcastBody(`"keep":"latest"`)).with(key))
	w.page("/console/broadcasts", cookie).shows(t, 200, ">match:1</a></th>", `href="./objects/match:1"`, "com.example.app/production", "the latest update", "not known", "open")
}

func TestG8_LiveObject(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const path = "/v1/live/match:7"
		w.get(path).wants(t, 200, `{"object":"match:7","activities":{}}`)
		w.put("/v1/users/bob/activities/"+token, activityRequest)
		w.put("/v1/users/carol/activities/"+strings.Repeat("ab", 32), activityRequest)
		w.put("/v1/users/dan/activities/"+strings.Repeat("cd", 32), strings.Replace(activityRequest, "match:7", "match:8", 1))
		w.put("/v1/users/bob/devices/"+fcmToken, `{"platform":"fcm","topic":"com.example.app"}`)
		w.put("/v1/users/bob/activities/"+fcmToken, `{"platform":"fcm","topic":"com.example.app","kind":"update","object":"match:7"}`)
		w.get(path).wants(t, 200, `{"object":"match:7","activities":{"apns":2,"fcm":1}}`)
		w.del("/v1/users/bob/activities/" + token)
		w.put("/v1/broadcasts/match:7", broadcastBody(`"keep":"none"`))
		w.get(path).wants(t, 200, `{"object":"match:7","activities":{"apns":1,"fcm":1},"broadcast":{"object":"match:7","topic":"com.example.app",
			"environment":"production","keep":"none","ends_at":"*","channel":"*","state":"open","created_at":"*","updated_at":"*"}}`)
		w.get("/v1/live/a%20b").wants(t, 422, broken("object", "identifier", identifierRule))
	})
}

func TestN22_Objects(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	cookie, key := w.login(w.mustKey(api.ScopeOpsRead)), w.bearer(api.ScopePush)
	w.page("/console/objects/match:1", cookie).shows(t, 200, "No activity shows it", "None is known", "has no channel")
	w.do(put("/v1/users/bob/activities/"+token, strings.Replace(activityRequest, "match:7", "match:1", 1)).with(key))
	w.do(put(broadcastB, broadcastBody(`"keep":"latest"`)).with(key))
	w.page("/console/objects/match:1", cookie).shows(t, 200, `<th scope="row">apns</th><td class="n">1</td>`, "com.example.app/production", "the latest update").hides(t, "bob", token)
	if a := w.page("/console/objects?object=match:1", cookie); a.status != 303 || a.header.Get("Location") != "./objects/match:1" {
		t.Errorf("the search leads to %d %s", a.status, a.header.Get("Location"))
	}
}
