package render_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/store/events/render"
)

// update is an update of a Live Activity.
func update(change func(*api.EventRequest)) *api.EventRequest {
	e := &api.EventRequest{Type: "t", Object: "match:7", Audience: api.Audience{ActivitiesOf: "match:7"},
		Live: &api.Live{Action: api.LiveUpdate, ContentState: json.RawMessage(`{ "home": 1, "at": {"timestamp":9999999999} }`)}}
	change(e)
	return e
}

// TestG2_LivePayloads: a live event is rendered once, with a place for its timestamp, which is filled in wherever it is sent.
func TestG2_LivePayloads(t *testing.T) {
	t.Parallel()
	at := api.At(time.Unix(1_700_000_100, 0))
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		typ  api.EventTypeRequest
		e    *api.EventRequest
		want string
	}{
		"Update": {
			api.EventTypeRequest{Priority: 5}, update(func(e *api.EventRequest) { e.Live.StaleAt, e.Live.Relevance = &at, new(75.5) }),
			`{"aps":{"content-state":{"home":1,"at":{"timestamp":9999999999}},"event":"update","relevance-score":75.5,"stale-date":1700000100,"timestamp":1700000000},` +
				`"event_id":"ev1","object":"match:7","type":"t"}`,
		},
		"Alert": {
			api.EventTypeRequest{Sound: "default"}, update(func(e *api.EventRequest) {
				e.Live.ContentState, e.Alert, e.Data = raw(`{}`), &api.Alert{Title: "Goal", Body: "<1:0>"}, map[string]string{"minute": "12"}
			}),
			`{"aps":{"alert":{"body":"<1:0>","sound":"default","title":"Goal"},"content-state":{},"event":"update","timestamp":1700000000},` +
				`"data":{"minute":"12"},"event_id":"ev1","object":"match:7","type":"t"}`,
		},
		"TextsOfTheType": {
			api.EventTypeRequest{Title: "Kick-off", Sound: "default", APS: raw(`{"alert":{"subtitle":"x"}}`)}, update(func(e *api.EventRequest) { e.Live.ContentState = raw(`{}`) }),
			`{"aps":{"content-state":{},"event":"update","timestamp":1700000000},"event_id":"ev1","object":"match:7","type":"t"}`,
		},
		"End": {
			api.EventTypeRequest{Title: "{{.data.n}}", APS: raw(`{"alert":{"title":"x"},"timestamp":1}`)},
			update(func(e *api.EventRequest) { e.Live = &api.Live{Action: api.LiveEnd, DismissAt: &at} }),
			`{"aps":{"dismissal-date":1700000100,"event":"end","timestamp":1700000000},"event_id":"ev1","object":"match:7","type":"t"}`,
		},
		"Start": {
			api.EventTypeRequest{Title: "Kick-off"}, update(func(e *api.EventRequest) {
				e.Live = &api.Live{Action: api.LiveStart, ContentState: raw(`{}`), AttributesType: "Match", Attributes: raw(`{"object":"match:7"}`)}
			}),
			`{"aps":{"alert":{"title":"Kick-off"},"attributes":{"object":"match:7"},"attributes-type":"Match","content-state":{},"event":"start",` +
				`"input-push-token":1,"timestamp":1700000000},"event_id":"ev1","object":"match:7","type":"t"}`,
		},
		"Channel": {
			api.EventTypeRequest{Title: "Kick-off"}, update(func(e *api.EventRequest) {
				e.Live = &api.Live{Action: api.LiveStart, ContentState: raw(`{}`), AttributesType: "Match", Attributes: raw(`{}`)}
				e.APS = raw(`{"input-push-channel":"abc"}`)
			}),
			`{"aps":{"alert":{"title":"Kick-off"},"attributes":{},"attributes-type":"Match","content-state":{},"event":"start",` +
				`"input-push-channel":"abc","timestamp":1700000000},"event_id":"ev1","object":"match:7","type":"t"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.typ.PushType = api.PushLiveActivity
			p := mustRender(t, mustTemplates(t, &c.typ), c.e)
			if strings.Count(string(p.Payload), `"timestamp":9999999999}`) < 1 || p.CollapseID != "" {
				t.Errorf("before it begins: %s", p.Payload)
			}
			p.Stamp(1_700_000_000)
			if string(p.Payload) != c.want {
				t.Errorf("%s\nwant %s", p.Payload, c.want)
			}
		})
	}
}

// TestG2_LiveAndItsType: live goes with push type liveactivity alone, and that with live alone. What live sets cannot be set
// otherwise, and a start needs an alert. A payload that is too large is refused with both numbers.
func TestG2_LiveAndItsType(t *testing.T) {
	t.Parallel()
	live := mustTemplates(t, &api.EventTypeRequest{PushType: api.PushLiveActivity, APS: json.RawMessage(`{"event":"update"}`)})
	start := update(func(e *api.EventRequest) {
		e.Live = &api.Live{Action: api.LiveStart, ContentState: json.RawMessage(`{}`), AttributesType: "M", Attributes: json.RawMessage(`{}`)}
	})
	for name, c := range map[string]struct {
		set         *render.TemplateSet
		e           *api.EventRequest
		field, rule string
	}{
		"no live":         {live, update(func(e *api.EventRequest) { e.Live = nil }), "live", "required"},
		"an alert's type": {mustTemplates(t, &api.EventTypeRequest{Title: "x"}), update(func(*api.EventRequest) {}), "live", "push_type"},
		"its timestamp":   {live, update(func(e *api.EventRequest) { e.APS = json.RawMessage(`{"timestamp":1}`) }), "aps.timestamp", "reserved"},
		"its state":       {live, update(func(e *api.EventRequest) { e.APS = json.RawMessage(`{"content-state":{}}`) }), "aps.content-state", "reserved"},
		"the number":      {live, update(func(e *api.EventRequest) { e.APS = json.RawMessage(`{"x":{"timestamp": 9999999999}}`) }), "aps.x", "reserved"},
		"its data":        {live, update(func(e *api.EventRequest) { e.Data = map[string]string{"live": "x"} }), "data.live", "reserved"},
		"a silent start":  {live, start, "alert", "required"},
	} {
		_, err := c.set.Render("ev1", c.e)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != api.CodeValidation || len(e.Fields) != 1 || e.Fields[0].Field != c.field || e.Fields[0].Rule != c.rule {
			t.Errorf("%s: %+v", name, err)
		}
	}
	sized := func(n int, to api.Audience) error {
		_, err := live.Render("ev1", update(func(e *api.EventRequest) {
			e.Audience, e.Live.ContentState = to, json.RawMessage(`{"x":"`+strings.Repeat("x", n)+`"}`)
		}))
		return err
	}
	const around = len(`{"aps":{"content-state":{"x":""},"event":"update","timestamp":9999999999},"event_id":"ev1","object":"match:7","type":"t"}`)
	for limit, to := range map[int]api.Audience{4096: {ActivitiesOf: "match:7"}, 5120: {Broadcast: "match:7"}} {
		if err := sized(limit-around, to); err != nil {
			t.Errorf("%d bytes: %v", limit, err)
		}
		var e *api.Error
		if err := sized(limit-around+1, to); !errors.As(err, &e) || e.Fields[0].Field != "payload" || e.Facts["size"] != limit+1 || e.Facts["limit"] != limit {
			t.Errorf("%d bytes: %+v", limit+1, err)
		}
	}
	if _, err := render.LiveTemplateSet().Render("ev1", update(func(*api.EventRequest) {})); err != nil {
		t.Errorf("without a type: %v", err)
	}
}

// TestG7_LiveOnFCM: Android gets the same event as data, and an iPhone as APNs gets it. Browsers get nothing.
func TestG7_LiveOnFCM(t *testing.T) {
	t.Parallel()
	e := update(func(e *api.EventRequest) {
		e.Live.ContentState, e.Data = json.RawMessage(`{"home": 1}`), map[string]string{"minute": "12"}
		e.Live.Android = &api.LiveAndroid{Title: "Ajax - Feyenoord", Progress: &api.LiveProgress{Value: 12}}
	})
	p := mustRender(t, mustTemplates(t, &api.EventTypeRequest{PushType: api.PushLiveActivity, FCM: json.RawMessage(`{"direct_boot_ok":true,"notification":{"title":"x"}}`)}), e)
	p.Stamp(1_700_000_000)
	var v render.Variants
	got := v.Of(p, &api.Device{Token: strings.Repeat("f", 30)})
	const want = `{"android":{"collapse_key":"match:7","direct_boot_ok":true,"priority":"HIGH"},"apns":{"headers":{"apns-priority":"10"},"payload":{"aps":` +
		`{"content-state":{"home":1},"event":"update","timestamp":1700000000}}},"data":{"minute":"12","event_id":"ev1",` +
		`"live":"{\"action\":\"update\",\"content_state\":{\"home\":1},\"android\":{\"title\":\"Ajax - Feyenoord\",\"progress\":{\"value\":12}}}",` +
		`"object":"match:7","timestamp":"1700000000","type":"t"}}`
	if got == nil || string(got.Payload) != want || got.LiveData != nil {
		t.Errorf("%s\nwant %s", got.Payload, want)
	}
	if got := v.Of(p, &api.Device{Token: "wp." + strings.Repeat("x", 43)}); got != nil {
		t.Errorf("a browser gets %s", got.Payload)
	}
	if got := v.Of(p, &api.Device{Token: strings.Repeat("ab", 32), Environment: api.EnvProduction}); got != p {
		t.Error("APNs gets something else")
	}
	e.Live.ContentState = json.RawMessage(`{"x":"` + strings.Repeat("x", 3800) + `"}`)
	e.Live.Android.Text = strings.Repeat("x", 300) // only Android gets it
	p = mustRender(t, render.LiveTemplateSet(), e)
	mustInvalid(t, p.Check(e, func(to api.Platform) bool { return to == api.PlatformFCM }), "payload", "max")
	if err := p.Check(e, func(api.Platform) bool { return false }); err != nil {
		t.Errorf("without FCM: %v", err)
	}
}

// P3: the topics of a live event choose the same apps with and without the end of their topics, on all platforms.
func TestP3_TopicsOfLiveEvents(t *testing.T) {
	t.Parallel()
	const end = ".push-type.liveactivity"
	for _, topics := range [][]string{{"a"}, {"a" + end}, {"b", "a" + end}} {
		p := &render.Push{PushType: api.PushLiveActivity, Topics: topics}
		for _, row := range []struct {
			topic    string
			platform api.Platform
			want     bool
		}{
			{"a" + end, api.PlatformAPNs, true}, {"a", api.PlatformAPNs, false}, {"c" + end, api.PlatformAPNs, false},
			{"a", api.PlatformFCM, true}, {"c", api.PlatformFCM, false},
		} {
			if got := p.Suits(row.topic, row.platform); got != row.want {
				t.Errorf("topics %v suit %s on %s: %v", topics, row.topic, row.platform, got)
			}
		}
	}
}
