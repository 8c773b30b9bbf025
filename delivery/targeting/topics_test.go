package targeting_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"fanfare/api"
	"fanfare/store/storetest"
)

// sentTo are the topics to which an event of this type, for users, is sent. They must be as many as the report says.
func (p *pipeline) sentTo(r *api.EventRequest) []string {
	p.Helper()
	p.apns.Reset()
	report := p.mustEnd(p.mustPost(r), api.EventDone)
	topics := []string{}
	for _, r := range p.apns.Requests() {
		topics = append(topics, r.Topic)
	}
	slices.Sort(topics)
	n := int64(len(topics))
	if report.Notifications != n || report.Delivered != n || *report.Recipients != int64(len(r.Audience.Users)) {
		p.Errorf("%d were sent, the report is %+v", n, report)
	}
	return topics
}

// TestA5_TypesGoToTheirTopics: of a user's tokens only those get a push whose topic takes its type. Users with no
// such token count as no_device. The stand-in refuses a wrong pair as Apple does.
func TestA5_TypesGoToTheirTopics(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprint("Waits=", waits), func(t *testing.T) {
			t.Parallel()
			p := setup(t, options{waits: waits})
			types := map[api.PushType]bool{
				api.PushAlert: true, api.PushBackground: true, api.PushLocation: true, api.PushVoIP: true,
				api.PushComplication: true, api.PushPushToTalk: true, api.PushWidgets: true,
				api.PushControls: true,
			}
			topics := map[string]int{}
			for pt := range maps.Keys(types) {
				p.mustType(string(pt), api.EventTypeRequest{Title: titleOf(pt), PushType: pt, APS: json.RawMessage(`{"x":1}`)})
				if topic := goodTopic + pt.TopicSuffix(); topics[topic] == 0 {
					topics[topic] = len(topics) + 1
					p.mustDeviceOf("bob", token(topics[topic]), topic)
				}
			}
			p.mustDeviceOf("eve", token(50), goodTopic+".other")
			for pt := range types {
				want := []string{goodTopic + pt.TopicSuffix()}
				if got := p.sentTo(&api.EventRequest{Type: string(pt), Audience: api.Audience{Users: []string{"bob"}}}); !slices.Equal(got, want) {
					t.Errorf("%s went to %v, want %v", pt, got, want)
				}
				if pt.TopicSuffix() == "" {
					continue
				}
				r := p.mustEnd(p.mustPost(&api.EventRequest{Type: string(pt), Audience: api.Audience{Users: []string{"eve"}}}), api.EventDone)
				if r.Suppressed.NoDevice != 1 || r.Notifications != 0 {
					t.Errorf("%s to a user without such a token: %+v", pt, r)
				}
			}
			stats, err := p.first.queueOfNotes.Stats(t.Context())
			if storetest.Must(t, err); stats.DeadLetters != 0 {
				t.Errorf("%d dead letters", stats.DeadLetters)
			}
		})
	}
}

// titleOf is the title of a type that may have one.
func titleOf(pt api.PushType) string {
	if pt == api.PushAlert {
		return "Hi"
	}
	return ""
}

// TestP3_TopicsChooseAmongApps: the topics of the event, else those of its type, choose among the apps of each
// user. A push type's own topics belong to the app that is named, and a user without one of the apps has no
// device.
func TestP3_TopicsChooseAmongApps(t *testing.T) {
	t.Parallel()
	p := setup(t, options{})
	p.mustType("ride", api.EventTypeRequest{Title: "A ride", Topic: api.Topics{"com.example.driver"}})
	p.mustType("call", api.EventTypeRequest{PushType: api.PushVoIP, Title: "A call"})
	for i, topic := range []string{"com.example.rider", "com.example.driver", "com.example.rider.voip", "com.example.driver.voip", "org.example.voip"} {
		p.mustDeviceOf("bob", token(i), topic)
	}
	p.mustDeviceOf("eve", token(9), "com.example.rider")
	to := api.Audience{Users: []string{"bob"}}
	for name, row := range map[string]struct {
		r    api.EventRequest
		want []string
	}{
		"Type":      {api.EventRequest{Type: "ride"}, []string{"com.example.driver"}},
		"Event":     {api.EventRequest{Type: "ride", Topic: api.Topics{"com.example.rider"}}, []string{"com.example.rider"}},
		"Several":   {api.EventRequest{Type: "ride", Topic: api.Topics{"com.example.rider", "com.example.driver"}}, []string{"com.example.driver", "com.example.rider"}},
		"AppOfCall": {api.EventRequest{Type: "call", Topic: api.Topics{"com.example.rider"}}, []string{"com.example.rider.voip"}},
		"Call":      {api.EventRequest{Type: "call", Topic: api.Topics{"com.example.driver.voip"}}, []string{"com.example.driver.voip"}},
		"AllCalls":  {api.EventRequest{Type: "call"}, []string{"com.example.driver.voip", "com.example.rider.voip", "org.example.voip"}},
		"NoneOf":    {api.EventRequest{Type: "ride", Topic: api.Topics{"com.example.shop"}}, []string{}},
	} {
		row.r.Audience = to
		if got := p.sentTo(&row.r); !slices.Equal(got, row.want) {
			t.Errorf("%s went to %v, want %v", name, got, row.want)
		}
	}
	r := p.mustEnd(p.mustPost(&api.EventRequest{Type: "ride", Audience: api.Audience{Users: []string{"bob", "eve"}}}), api.EventDone)
	if p.mustCounts(r, counts{2, 1, 1, 0, 0}); r.Suppressed.NoDevice != 1 {
		t.Errorf("the report is %+v", r)
	}
	if _, _, err := p.first.events.AcceptTest(t.Context(), "bob", token(2), api.Idempotency{}); api.CodeOf(err) != api.CodeValidation {
		t.Errorf("a test notification to a VoIP token: %v", err)
	}
}
