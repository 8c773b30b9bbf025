package apns

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

// testBroadcast is a valid broadcast to a channel.
func testBroadcast(i int, channel string) *transport.Notification {
	n := testNote(i)
	n.Token, n.Channel, n.PushType, n.CollapseID = api.BroadcastToken("match:1"), channel, api.PushLiveActivity, ""
	n.Topic, n.Payload = apnstest.DefaultTopic+api.PushLiveActivity.TopicSuffix(), []byte(`{"aps":{"event":"update","timestamp":1}}`)
	return n
}

func TestG4_BroadcastRequest(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	none, latest := w.AddChannel(apnstest.DefaultTopic, 0), w.AddChannel(apnstest.DefaultTopic, 1)
	w.mustDeliver(testBroadcast(0, none))
	r := w.Of(none)[0]
	if r.Path != "/4/broadcasts/apps/"+apnstest.DefaultTopic || r.Method != "POST" || r.Topic != apnstest.DefaultTopic || r.PushType != "liveactivity" ||
		r.Priority != "10" || r.Expiration != "0" || r.ID != testNote(0).ID || r.CollapseID != "" || string(r.Payload) != string(testBroadcast(0, none).Payload) {
		t.Fatalf("got %+v", r)
	}
	n, at := testBroadcast(1, latest), time.Unix(1_900_000_000, 0)
	n.Priority, n.Expiration = 5, &at
	w.mustDeliver(n)
	if r := w.Of(latest)[0]; r.Priority != "5" || r.Expiration != "1900000000" {
		t.Fatalf("got %+v", r)
	}
	n = testBroadcast(2, none)
	n.Payload = append(append([]byte(`{"aps":"`), strings.Repeat("x", 5120-len(`{"aps":""}`))...), `"}`...)
	w.mustDeliver(n)
	if v := w.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
}

// broadcastRows are the answers to broadcasts that Apple documents, with what each means here (docs/spec/live.md).
var broadcastRows = []struct {
	status int
	reason string
	want   transport.Outcome
}{
	{200, "", transport.Delivered},
	{400, "FeatureNotEnabled", transport.OurBug},
	{400, "MissingChannelId", transport.OurBug},
	{400, "BadChannelId", transport.DropDevice},
	{400, "ChannelNotRegistered", transport.DropDevice},
	{400, "BadRequestParams", transport.OurBug},
	{400, "BadRequestPayload", transport.OurBug},
	{400, "PayloadEmpty", transport.OurBug},
	{400, "BadMessageId", transport.OurBug},
	{400, "MissingPushType", transport.OurBug},
	{400, "InvalidPushType", transport.OurBug},
	{400, "CannotCreateChannelConfig", transport.OurBug},
	{400, "BadExpirationDate", transport.OurBug},
	{400, "TopicDisallowed", transport.PauseApp},
	{400, "BadPriority", transport.OurBug},
	{403, "BadCertificate", transport.PauseApp},
	{403, "BadCertificateEnvironment", transport.PauseApp},
	{403, "TopicMismatch", transport.PauseApp},
	{403, "MissingProviderToken", transport.PauseApp},
	{403, "ExpiredProviderToken", transport.PauseApp}, // sent again, and paused after three times
	{403, "InvalidProviderToken", transport.PauseApp},
	{404, "BadPath", transport.OurBug},
	{405, "MethodNotAllowed", transport.OurBug},
	{413, "PayloadTooLarge", transport.OurBug},
	{429, "TooManyRequests", transport.BackoffDevice},
	{429, "TooManyProviderTokenUpdates", transport.PauseApp},
	{500, "InternalServerError", transport.Retry},
	{503, "ServiceUnavailable", transport.RetryUncounted},
	{503, "", transport.RetryUncounted}, // "Service Unavailable", with a blank
	{503, "Shutdown", transport.Again},
	{400, "SomethingNew", transport.FailMessage},
	{502, "", transport.Retry},
}

// Each row goes through the whole sender to a stand-in that gives this answer. The topic has not delivered before: only
// the backend names topics of broadcasts, so that it is no device's fault.
func TestG6_AnswersToBroadcasts(t *testing.T) {
	t.Parallel()
	for _, row := range broadcastRows {
		t.Run(fmt.Sprintf("%d %s", row.status, row.reason), func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			a := apnstest.Fail(row.status, row.reason)
			if row.reason == "" {
				a.Body = []byte(`{"reason":"Service Unavailable"}`)
			}
			w.ScriptAll(a)
			got := w.send(testBroadcast(1, w.AddChannel(apnstest.DefaultTopic, 0)))
			if got.Outcome != row.want || got.Status != row.status || got.Reason != row.reason || got.Err != nil {
				t.Fatalf("got %s %d %q %v, want %s", got.Outcome, got.Status, got.Reason, got.Err, row.want)
			}
		})
	}
}

// No row of the table in the code may be missing above.
func TestG6_AnswersToBroadcastsAreWhole(t *testing.T) {
	t.Parallel()
	tested := make(map[answer]bool)
	for _, row := range broadcastRows {
		tested[answer{row.status, row.reason}] = true
	}
	for a := range broadcastOutcomes {
		if !tested[a] {
			t.Errorf("no test for %d %q", a.status, a.reason)
		}
	}
}

// A broadcast goes through the app of Live Activities, or that of the bundle id, and else through the key for all topics.
func TestBroadcastFindsItsApp(t *testing.T) {
	t.Parallel()
	for _, topic := range []string{apnstest.DefaultTopic, apnstest.DefaultTopic + api.PushLiveActivity.TopicSuffix()} {
		s := apnstest.Start(t, apnstest.Options{})
		o := optionsFor(s)
		o.KeyFile, o.KeyID, o.TeamID = "", "", ""
		app := fileApp(s, topic, api.EnvProduction)
		app["manage_url"], o.ManageURL = s.ManageURL(), ""
		w := &world{Server: s, t: t, sender: mustNew(t, o, mustAppsFile(t, "", app))}
		channel, err := w.sender.CreateChannel(t.Context(), apnstest.DefaultTopic, api.EnvProduction, api.KeepNone)
		if err != nil || !w.sender.TakesBroadcast(apnstest.DefaultTopic, api.EnvProduction) {
			t.Fatalf("%s: %v", topic, err)
		}
		w.mustDeliver(testBroadcast(1, channel))
		if w.sender.TakesBroadcast(apnstest.DefaultTopic, api.EnvSandbox) || w.sender.TakesBroadcast("com.example.other", api.EnvProduction) {
			t.Errorf("%s: it takes broadcasts of other apps", topic)
		}
		other := testBroadcast(2, channel)
		other.Environment = api.EnvSandbox
		if a := w.send(other); a.Outcome != transport.NoApp {
			t.Errorf("%s: in the sandbox the answer is %s", topic, a.Outcome)
		}
	}
}
