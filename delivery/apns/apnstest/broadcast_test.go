package apnstest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// request is a request with the client's provider token.
func (c *client) request(method, url, body string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("authorization", "bearer "+c.bearer)
	return r
}

// broadcast is a broadcast to a channel that nothing is wrong with.
func (c *client) broadcast(channel string) *http.Request {
	r := c.request(http.MethodPost, c.s.URL()+broadcastPath+DefaultTopic, `{"aps":{"event":"update"}}`)
	for k, v := range map[string]string{
		"apns-channel-id": channel, "apns-push-type": "liveactivity", "apns-priority": "10", "apns-expiration": "0",
		"apns-request-id": "11111111-2222-5333-8444-555555555555",
	} {
		r.Header.Set(k, v)
	}
	return r
}

// wants sends a request, and checks the status and Apple's reason.
func (c *client) wants(t *testing.T, r *http.Request, status int, reason string) {
	t.Helper()
	got, body, err := c.send(r)
	if err != nil || got != status || reason != "" && body != `{"reason":"`+reason+`"}` || reason == "" && status == 200 && r.Method == http.MethodPost && body != "" {
		t.Fatalf("got %d %s %v, want %d %s", got, body, err, status, reason)
	}
}

// Each rule is broken alone and with all rules that come after it, so that the order of the checks is tested too.
func TestBroadcastIsChecked(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{Topics: []string{DefaultTopic, "com.example.plain"}, NoBroadcast: []string{"com.example.plain"}})
	none, latest := s.AddChannel(DefaultTopic, 0), s.AddChannel(DefaultTopic, 1)
	set := func(k, v string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(k, v) } }
	drop := func(k string) func(*http.Request) { return func(r *http.Request) { r.Header.Del(k) } }
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	body := func(b []byte) func(*http.Request) {
		return func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b)) }
	}
	large := append(append([]byte(`"`), bytes.Repeat([]byte("x"), maxBroadcast-1)...), '"')
	rows := []struct {
		name   string
		change func(*http.Request)
		status int
		reason string
	}{
		{"get", func(r *http.Request) { r.Method = http.MethodGet }, 405, "MethodNotAllowed"},
		{"no bundle id", path(broadcastPath), 404, "BadPath"},
		{"twice", func(r *http.Request) { r.Header.Add("apns-priority", "5") }, 400, "DuplicateHeaders"},
		{"no bearer", drop("authorization"), 403, "MissingProviderToken"},
		{"bearer", set("authorization", "bearer x"), 403, "InvalidProviderToken"},
		{"a topic of Live Activities", path(broadcastPath + DefaultTopic + liveActivity), 400, "TopicDisallowed"},
		{"another's topic", path(broadcastPath + "com.example.other"), 403, "TopicMismatch"},
		{"not enabled", path(broadcastPath + "com.example.plain"), 400, "FeatureNotEnabled"},
		{"no channel", drop("apns-channel-id"), 400, "MissingChannelId"},
		{"no base64", set("apns-channel-id", "x!"), 400, "BadChannelId"},
		{"unknown channel", set("apns-channel-id", "dHN0LXNyY2gtY2hubA=="), 400, "ChannelNotRegistered"},
		{"id", set("apns-request-id", "x"), 400, "BadMessageId"},
		{"no push type", drop("apns-push-type"), 400, "MissingPushType"},
		{"push type", set("apns-push-type", "alert"), 400, "InvalidPushType"},
		{"no expiration", drop("apns-expiration"), 400, "BadExpirationDate"},
		{"stored without storage", set("apns-expiration", "2000000000"), 400, "BadExpirationDate"},
		{"no priority", drop("apns-priority"), 400, "BadPriority"},
		{"priority", set("apns-priority", "7"), 400, "BadPriority"},
		{"empty", body(nil), 400, "PayloadEmpty"},
		{"5121 bytes", body(large), 413, "PayloadTooLarge"},
		{"no JSON", body([]byte(`{"aps":`)), 400, "BadRequestPayload"},
		{"5120 bytes", body(append(large[:maxBroadcast-1:maxBroadcast-1], '"')), 200, ""},
		{"stored", func(r *http.Request) {
			r.Header.Set("apns-channel-id", latest)
			r.Header.Set("apns-expiration", "2000000000")
		}, 200, ""},
	}
	for i, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := c.broadcast(none)
			row.change(r)
			c.wants(t, r, row.status, row.reason)
			if i >= 4 && i < 18 { // a broken rule goes before those behind it
				r = c.broadcast(none)
				body(nil)(r)
				row.change(r)
				c.wants(t, r, row.status, row.reason)
			}
		})
	}
	if got := s.Of(none); len(got) == 0 || got[len(got)-1].Topic != DefaultTopic || got[len(got)-1].ID != "11111111-2222-5333-8444-555555555555" || s.Taken() != 2 {
		t.Fatalf("the ledger has %+v, %d taken", got, s.Taken())
	}
}

func TestManagementHost(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{MaxChannels: 2, NoBroadcast: []string{"com.example.plain"}})
	const good = `{"message-storage-policy":1,"push-type":"LiveActivity"}`
	at := func(bundle, what string) string { return s.ManageURL() + "/1/apps/" + bundle + "/" + what }
	channels, all := at(DefaultTopic, "channels"), at(DefaultTopic, "all-channels")
	about := func(method, channel string) *http.Request {
		r := c.request(method, channels, "")
		if channel != "" {
			r.Header.Set("apns-channel-id", channel)
		}
		return r
	}
	c.wants(t, c.request(http.MethodGet, all, ""), 200, "")
	c.wants(t, c.request(http.MethodPost, channels, good), 201, "")
	channel := s.Channels(DefaultTopic)[0]
	res, err := c.http.Do(about(http.MethodGet, channel))
	if err != nil {
		t.Fatal(err)
	}
	var is map[string]any
	if err := json.NewDecoder(res.Body).Decode(&is); err != nil || res.StatusCode != 200 || is["message-storage-policy"] != 1.0 || is["push-type"] != "LiveActivity" {
		t.Fatalf("read: %d %v %v", res.StatusCode, is, err)
	}
	_ = res.Body.Close()
	without := c.request(http.MethodPost, channels, good)
	without.Header.Del("authorization")
	bad := c.request(http.MethodPost, channels, good)
	bad.Header.Set("apns-request-id", "X")
	for name, row := range map[string]struct {
		r      *http.Request
		status int
		reason string
	}{
		"a device":       {c.request(http.MethodPost, s.ManageURL()+"/3/device/"+token, good), 404, "BadPath"},
		"no app":         {c.request(http.MethodPost, s.ManageURL()+"/1/apps//channels", good), 404, "BadPath"},
		"another path":   {c.request(http.MethodPost, at(DefaultTopic, "channel"), good), 404, "BadPath"},
		"post to all":    {c.request(http.MethodPost, all, good), 405, "MethodNotAllowed"},
		"put":            {c.request(http.MethodPut, channels, good), 405, "MethodNotAllowed"},
		"no token":       {without, 403, "MissingProviderToken"},
		"id":             {bad, 400, "BadMessageId"},
		"activities":     {c.request(http.MethodPost, at(DefaultTopic+liveActivity, "channels"), good), 400, "TopicDisallowed"},
		"not enabled":    {c.request(http.MethodPost, at("com.example.plain", "channels"), good), 400, "FeatureNotEnabled"},
		"empty":          {c.request(http.MethodPost, channels, ""), 400, "PayloadEmpty"},
		"no JSON":        {c.request(http.MethodPost, channels, "{"), 400, "BadRequestPayload"},
		"another member": {c.request(http.MethodPost, channels, `{"message-storage-policy":1,"push-type":"LiveActivity","x":1}`), 400, "BadRequestParams"},
		"policy 2":       {c.request(http.MethodPost, channels, `{"message-storage-policy":2,"push-type":"LiveActivity"}`), 400, "BadRequestParams"},
		"no policy":      {c.request(http.MethodPost, channels, `{"push-type":"LiveActivity"}`), 400, "BadRequestParams"},
		"no push type":   {c.request(http.MethodPost, channels, `{"message-storage-policy":1}`), 400, "MissingPushType"},
		"push type":      {c.request(http.MethodPost, channels, `{"message-storage-policy":1,"push-type":"alert"}`), 400, "InvalidPushType"},
		"read none":      {about(http.MethodGet, ""), 400, "MissingChannelId"},
		"read no base64": {about(http.MethodGet, "x!"), 400, "BadChannelId"},
		"delete another": {about(http.MethodDelete, "dHN0LXNyY2gtY2hubA=="), 400, "ChannelNotRegistered"},
	} {
		t.Run(name, func(t *testing.T) { c.wants(t, row.r, row.status, row.reason) })
	}
	c.wants(t, c.request(http.MethodPost, channels, good), 201, "")
	c.wants(t, c.request(http.MethodPost, channels, good), 400, "CannotCreateChannelConfig")
	if _, body, _ := c.send(c.request(http.MethodGet, all, "")); !strings.Contains(body, `"`+channel+`"`) || strings.Count(body, ",") != 1 {
		t.Fatalf("the list is %s", body)
	}
	c.wants(t, about(http.MethodDelete, channel), 204, "")
	c.wants(t, about(http.MethodDelete, channel), 400, "ChannelNotRegistered")
	if got := s.Channels(DefaultTopic); len(got) != 1 || slices.Contains(got, channel) || s.Total() != 0 || s.Managed.Total() == 0 {
		t.Fatalf("the channels are %v, and the host of notifications got %d requests", got, s.Total())
	}
}

// With a lost answer the request is done, and with a refusal it is not.
func TestManagementScripts(t *testing.T) {
	t.Parallel()
	s, c := setup(t, Options{})
	const good = `{"message-storage-policy":0,"push-type":"LiveActivity"}`
	post := func() *http.Request {
		return c.request(http.MethodPost, s.ManageURL()+"/1/apps/"+DefaultTopic+"/channels", good)
	}
	for _, row := range []struct {
		answer Answer
		made   int
	}{{Failing(Drop), 1}, {Failing(DropUntaken), 0}, {Fail(500, "InternalServerError"), 0}, {After(0), 1}} {
		s.ScriptManagement(row.answer)
		before := len(s.Channels(DefaultTopic))
		status, body, err := c.send(post())
		if made := len(s.Channels(DefaultTopic)) - before; made != row.made {
			t.Errorf("%+v made %d channels: %d %s %v", row.answer, made, status, body, err)
		}
	}
	s.ScriptManagement()
	s.RefuseManagement(true)
	if status, _, err := c.send(post()); err == nil {
		t.Errorf("away it answers %d", status)
	}
	c.wants(t, c.broadcast(s.AddChannel(DefaultTopic, 0)), 200, "")
	s.RefuseManagement(false)
	c.wants(t, post(), 201, "")
}
