package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
)

// liveEvent is an update that breaks no rule, changed.
func liveEvent(change func(*api.EventRequest)) *api.EventRequest {
	return event(func(e *api.EventRequest) {
		e.Audience = api.Audience{ActivitiesOf: "match:7"}
		e.Live = &api.Live{Action: api.LiveUpdate, ContentState: json.RawMessage(`{"home":1}`)}
		change(e)
	})
}

// startEvent is a start that breaks no rule, changed.
func startEvent(change func(*api.EventRequest)) *api.EventRequest {
	return event(func(e *api.EventRequest) {
		e.Object = "match:7"
		e.Live = &api.Live{Action: api.LiveStart, ContentState: json.RawMessage(`{}`), AttributesType: "Match", Attributes: json.RawMessage(`{"object":"match:7"}`)}
		change(e)
	})
}

// activity is one that breaks no rule, changed.
func activity(change func(*api.ActivityRequest)) *api.ActivityRequest {
	r := &api.ActivityRequest{Platform: "apns", Topic: "com.example.app", Environment: api.EnvSandbox, Kind: api.ActivityUpdate, Object: "match:7"}
	change(r)
	return r
}

// TestG2_LiveIsChecked: each field that is wrong is named, with the rule that it breaks.
func TestG2_LiveIsChecked(t *testing.T) {
	t.Parallel()
	rules := api.NewValidator()
	for name, c := range map[string]struct {
		value any
		want  string
	}{
		"an update":      {liveEvent(func(*api.EventRequest) {}), ""},
		"to a broadcast": {liveEvent(func(e *api.EventRequest) { e.Audience = api.Audience{Broadcast: "match:7"} }), ""},
		"its object":     {liveEvent(func(e *api.EventRequest) { e.Object = "match:7" }), ""},
		"an alert":       {liveEvent(func(e *api.EventRequest) { e.Alert = &api.Alert{Title: "Goal"} }), ""},
		"an end":         {liveEvent(func(e *api.EventRequest) { e.Live = &api.Live{Action: api.LiveEnd, DismissAt: new(api.At(time.Now()))} }), ""},
		"a start":        {startEvent(func(*api.EventRequest) {}), ""},
		"a start to all": {startEvent(func(e *api.EventRequest) { e.Audience = api.Audience{All: true} }), ""},
		"for Android": {liveEvent(func(e *api.EventRequest) {
			e.Live.Android = &api.LiveAndroid{Progress: &api.LiveProgress{Value: 3, Points: []api.LivePoint{{Position: 1, Color: "#aaBB09"}}}}
		}), ""},
		"no live":             {liveEvent(func(e *api.EventRequest) { e.Live = nil }), "live required"},
		"no action":           {liveEvent(func(e *api.EventRequest) { e.Live.Action = "" }), "live.action required"},
		"another action":      {liveEvent(func(e *api.EventRequest) { e.Live.Action = "stop" }), "live.action oneof"},
		"no state":            {liveEvent(func(e *api.EventRequest) { e.Live.ContentState = nil }), "live.content_state required"},
		"null for a state":    {liveEvent(func(e *api.EventRequest) { e.Live.ContentState = json.RawMessage("null") }), "live.content_state required"},
		"a list for a state":  {liveEvent(func(e *api.EventRequest) { e.Live.ContentState = json.RawMessage("[]") }), "live.content_state object"},
		"a topic by channel":  {liveEvent(func(e *api.EventRequest) { e.Audience, e.Topic = api.Audience{Broadcast: "match:7"}, api.Topics{"t"} }), "topic broadcast"},
		"a state too large":   {liveEvent(func(e *api.EventRequest) { e.Live.ContentState = aps(api.MaxBroadcast + 1) }), "live.content_state max"},
		"an update to users":  {liveEvent(func(e *api.EventRequest) { e.Audience = api.Audience{Users: []string{"bob"}} }), "audience audience"},
		"an end to a topic":   {liveEvent(func(e *api.EventRequest) { e.Audience, e.Live.Action = api.Audience{Topic: "news"}, api.LiveEnd }), "audience audience"},
		"a start of others":   {startEvent(func(e *api.EventRequest) { e.Audience = api.Audience{ActivitiesOf: "match:7"} }), "audience audience"},
		"a start by channel":  {startEvent(func(e *api.EventRequest) { e.Audience = api.Audience{Broadcast: "match:7"} }), "audience audience"},
		"a start of nothing":  {startEvent(func(e *api.EventRequest) { e.Object = "" }), "object required"},
		"a start of no type":  {startEvent(func(e *api.EventRequest) { e.Live.AttributesType = "" }), "live.attributes_type required"},
		"a start without":     {startEvent(func(e *api.EventRequest) { e.Live.Attributes = nil }), "live.attributes required"},
		"a text for them":     {startEvent(func(e *api.EventRequest) { e.Live.Attributes = json.RawMessage(`"x"`) }), "live.attributes object"},
		"attributes later":    {liveEvent(func(e *api.EventRequest) { e.Live.Attributes = json.RawMessage(`{}`) }), "live.attributes action"},
		"a type later":        {liveEvent(func(e *api.EventRequest) { e.Live.AttributesType = "Match" }), "live.attributes_type action"},
		"dismissed before":    {liveEvent(func(e *api.EventRequest) { e.Live.DismissAt = new(api.At(time.Now())) }), "live.dismiss_at action"},
		"an alert of an end":  {liveEvent(func(e *api.EventRequest) { e.Live.Action, e.Alert = api.LiveEnd, &api.Alert{Title: "Over"} }), "alert action"},
		"two objects":         {liveEvent(func(e *api.EventRequest) { e.Object = "match:8" }), "object equal"},
		"an object of braces": {liveEvent(func(e *api.EventRequest) { e.Audience.ActivitiesOf = "{x}" }), "audience.activities_of identifier"},
		"a colour": {liveEvent(func(e *api.EventRequest) {
			e.Live.Android = &api.LiveAndroid{Progress: &api.LiveProgress{Segments: []api.LiveSegment{{Length: 1, Color: "red"}}}}
		}), "live.android.progress.segments[0].color color"},
		"no length": {liveEvent(func(e *api.EventRequest) {
			e.Live.Android = &api.LiveAndroid{Progress: &api.LiveProgress{Segments: []api.LiveSegment{{}}}}
		}), "live.android.progress.segments[0].length min"},
	} {
		mustBreak(t, rules, name, c.value, c.want)
	}
}

// mustBreak fails the test unless a value breaks this rule alone, or none for "".
func mustBreak(t *testing.T, rules *api.Validator, name string, value any, want string) {
	t.Helper()
	got := ""
	bad := rules.Check(value)
	if len(bad) == 1 && bad[0].Message != "" {
		got = bad[0].Field + " " + bad[0].Rule
	}
	if got != want || len(bad) > 1 {
		t.Errorf("%s: %+v, want %q", name, bad, want)
	}
}

// TestG1_StoredActivities: on FCM an Android phone has one activity of each object and one start token of each type. What an
// update says of its type makes no difference.
func TestG1_StoredActivities(t *testing.T) {
	t.Parallel()
	phone := strings.Repeat("f", 30) + ":APA91b"
	stored := map[string]bool{}
	for _, r := range []api.ActivityRequest{
		{Kind: api.ActivityUpdate, Object: "match:7"}, {Kind: api.ActivityUpdate, Object: "match:7", AttributesType: "A"}, {Kind: api.ActivityUpdate, Object: "match:8"},
		{Kind: api.ActivityStart, AttributesType: "A"}, {Kind: api.ActivityStart, AttributesType: "B"},
	} {
		r.Platform = "fcm"
		token, target := r.Stored(phone)
		if _, p := api.ParseToken(token); p != api.PlatformFCM || target != phone {
			t.Errorf("%+v is stored as %s, %s", r, token, target)
		}
		stored[token] = true
	}
	if len(stored) != 4 {
		t.Errorf("there are %d activities, want 4", len(stored))
	}
}

// TestG1_ActivitiesAreChecked: what an activity needs depends on its kind and its platform.
func TestG1_ActivitiesAreChecked(t *testing.T) {
	t.Parallel()
	rules := api.NewValidator()
	registration := strings.Repeat("f", 30) + ":APA91b"
	start := func(change func(*api.ActivityRequest)) *api.ActivityRequest {
		return activity(func(r *api.ActivityRequest) {
			r.Kind, r.Object, r.AttributesType = api.ActivityStart, "", "Match"
			change(r)
		})
	}
	for name, c := range map[string]struct {
		value *api.ActivityRequest
		want  string
	}{
		"an update":        {activity(func(*api.ActivityRequest) {}), ""},
		"the whole topic":  {activity(func(r *api.ActivityRequest) { r.Topic += ".push-type.liveactivity" }), ""},
		"a start":          {start(func(*api.ActivityRequest) {}), ""},
		"Android":          {activity(func(r *api.ActivityRequest) { r.Platform, r.Environment = "fcm", "" }), ""},
		"an iPhone by FCM": {activity(func(r *api.ActivityRequest) { r.Platform, r.Environment, r.Registration = "fcm", "", registration }), ""},
		"no object":        {activity(func(r *api.ActivityRequest) { r.Object = "" }), "object required"},
		"no kind":          {activity(func(r *api.ActivityRequest) { r.Kind = "" }), "kind required"},
		"a browser":        {activity(func(r *api.ActivityRequest) { r.Platform, r.Environment = "webpush", "" }), "platform oneof"},
		"no environment":   {activity(func(r *api.ActivityRequest) { r.Environment = "" }), "environment required"},
		"a long topic":     {activity(func(r *api.ActivityRequest) { r.Topic = strings.Repeat("x", api.MaxIdentifier) }), "topic max"},
		"another's token":  {activity(func(r *api.ActivityRequest) { r.Registration = registration }), "registration fcm"},
		"hex for it": {activity(func(r *api.ActivityRequest) {
			r.Platform, r.Environment, r.Registration = "fcm", "", strings.Repeat("ab", 32)
		}), "registration fcm"},
		"a start of one":    {start(func(r *api.ActivityRequest) { r.Object = "match:7" }), "object kind"},
		"a start that ends": {start(func(r *api.ActivityRequest) { r.EndsAt = new(api.At(time.Now())) }), "ends_at kind"},
		"a start of none":   {start(func(r *api.ActivityRequest) { r.AttributesType = "" }), "attributes_type required"},
	} {
		mustBreak(t, rules, name, c.value, c.want)
	}
}

// TestG7_TokensOfActivities: what an activity is kept under, and what is shown of it, on each platform. An Android phone's
// activities have one token and are kept apart.
func TestG7_TokensOfActivities(t *testing.T) {
	t.Parallel()
	hex, registration := strings.Repeat("Ab", 40), strings.Repeat("f", 30)+":APA91b"
	fcm := func(change func(*api.ActivityRequest)) *api.ActivityRequest {
		return activity(func(r *api.ActivityRequest) {
			r.Platform, r.Environment = "fcm", ""
			change(r)
		})
	}
	kept := map[string]bool{}
	for name, c := range map[string]struct {
		r                    *api.ActivityRequest
		token, target, shown string
	}{
		"APNs":    {activity(func(*api.ActivityRequest) {}), hex, "", strings.ToLower(hex)},
		"iPhone":  {fcm(func(r *api.ActivityRequest) { r.Registration = registration }), hex, registration + " " + strings.ToLower(hex), strings.ToLower(hex)},
		"Android": {fcm(func(*api.ActivityRequest) {}), registration, registration, registration},
		"another": {fcm(func(r *api.ActivityRequest) { r.Object = "match:8" }), registration, registration, registration},
		"starts":  {fcm(func(r *api.ActivityRequest) { r.Object, r.Kind, r.AttributesType = "", api.ActivityStart, "Match" }), registration, registration, registration},
	} {
		if err := c.r.CheckToken(c.token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		stored, target := c.r.Stored(c.token)
		d := &api.Device{Token: stored, Environment: c.r.Environment, Target: target, Live: &api.DeviceLive{Object: c.r.Object}}
		if again, _ := api.NormalToken(stored); target != c.target || kept[stored] || again != stored || string(d.PlatformOf()) != c.r.Platform || d.Activity().Token != c.shown {
			t.Errorf("%s is kept as %q for %q, and shown as %+v", name, stored, target, d.Activity())
		}
		kept[stored] = true
	}
	for name, r := range map[string]*api.ActivityRequest{"APNs": activity(func(*api.ActivityRequest) {}), "iPhone": fcm(func(r *api.ActivityRequest) { r.Registration = registration })} {
		if err := r.CheckToken(registration); api.CodeOf(err) != api.CodeValidation {
			t.Errorf("%s with the token of an Android phone: %v", name, err)
		}
	}
	for target, want := range map[string][]string{
		registration: {registration, "", "true"}, registration + " " + strings.ToLower(hex): {registration, strings.ToLower(hex), "true"},
		"": {"", "", "false"}, "https://a.b c d": {"https://a.b", "c d", "false"}, hex: {hex, "", "false"},
	} {
		r, own, ok := api.LiveTarget(target)
		if got := []string{r, own, map[bool]string{true: "true", false: "false"}[ok]}; !slices.Equal(got, want) {
			t.Errorf("%q: %q", target, got)
		}
	}
}
