package apns

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

func (w *world) create() (string, error) {
	return w.sender.CreateChannel(w.t.Context(), apnstest.DefaultTopic, api.EnvProduction, api.KeepLatest)
}

func (w *world) delete(channel string) error {
	return w.sender.DeleteChannel(w.t.Context(), apnstest.DefaultTopic, api.EnvProduction, channel)
}

func (w *world) list() ([]string, error) {
	return w.sender.ListChannels(w.t.Context(), apnstest.DefaultTopic, api.EnvProduction)
}

func TestChannels(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{MaxChannels: 1200})
	var made []string
	for range 3 {
		channel, err := w.create()
		storetest.Must(t, err)
		made = append(made, channel)
	}
	if r := w.Managed.Requests()[0]; r.Path != "/1/apps/"+apnstest.DefaultTopic+"/channels" || string(r.Payload) != `{"message-storage-policy":1,"push-type":"LiveActivity"}` || r.Bearer == "" {
		t.Fatalf("got %+v", r)
	}
	storetest.Must(t, w.delete(made[1]))
	storetest.WantCode(t, w.delete(made[1]), api.CodeNotFound)
	for range 1198 { // more than one window of an answer
		w.AddChannel(apnstest.DefaultTopic, 0)
	}
	all, err := w.list()
	storetest.Must(t, err)
	if len(all) != 1200 || !slices.Contains(all, made[0]) || slices.Contains(all, made[1]) {
		t.Fatalf("the list has %d channels", len(all))
	}
	_, err = w.create()
	storetest.WantCode(t, err, api.CodeChannelsExhausted)
	if v := w.Violations(); len(v) > 0 || w.Accepted() != 1 {
		t.Fatalf("%d connections, %v", w.Accepted(), v)
	}
}

// manageRows are the answers of the management host that Apple documents, to each of its calls.
var manageRows = []struct {
	status int
	reason string
	want   api.Code
}{
	{400, "FeatureNotEnabled", api.CodeChannelsRefused},
	{400, "MissingChannelId", api.CodeInternal},
	{400, "BadChannelId", api.CodeNotFound},
	{400, "ChannelNotRegistered", api.CodeNotFound},
	{400, "BadRequestParams", api.CodeInternal},
	{400, "BadRequestPayload", api.CodeInternal},
	{400, "PayloadEmpty", api.CodeInternal},
	{400, "BadMessageId", api.CodeInternal},
	{400, "MissingPushType", api.CodeInternal},
	{400, "InvalidPushType", api.CodeInternal},
	{400, "CannotCreateChannelConfig", api.CodeChannelsExhausted},
	{400, "BadExpirationDate", api.CodeInternal},
	{400, "TopicDisallowed", api.CodeChannelsRefused},
	{400, "BadPriority", api.CodeInternal},
	{400, "IdleTimeout", api.CodeUnavailable},
	{400, "", api.CodeInternal},
	{403, "BadCertificate", api.CodeChannelsRefused},
	{403, "BadCertificateEnvironment", api.CodeChannelsRefused},
	{403, "TopicMismatch", api.CodeChannelsRefused},
	{403, "MissingProviderToken", api.CodeChannelsRefused},
	{403, "ExpiredProviderToken", api.CodeChannelsRefused},
	{403, "InvalidProviderToken", api.CodeChannelsRefused},
	{403, "", api.CodeChannelsRefused},
	{404, "BadPath", api.CodeInternal},
	{404, "", api.CodeInternal},
	{405, "MethodNotAllowed", api.CodeInternal},
	{405, "", api.CodeInternal},
	{413, "PayloadTooLarge", api.CodeInternal},
	{413, "", api.CodeInternal},
	{429, "TooManyRequests", api.CodeUnavailable},
	{429, "TooManyProviderTokenUpdates", api.CodeUnavailable},
	{429, "", api.CodeUnavailable},
	{503, "ServiceUnavailable", api.CodeUnavailable},
	{503, "Shutdown", api.CodeUnavailable},
	{503, "", api.CodeUnavailable}, // "Service Unavailable", with a blank
	{418, "SomethingNew", api.CodeInternal},
	{500, "InternalServerError", api.CodeUnknownOutcome},
	{502, "", api.CodeUnknownOutcome},
	{302, "", api.CodeUnknownOutcome},
	{200, "", api.CodeUnknownOutcome}, // without a channel
	{201, "", api.CodeUnknownOutcome},
}

// Each row goes through the whole client to a stand-in that gives this answer. To delete or list again changes nothing, so
// that there an unknown outcome is none.
func TestG6_AnswersOfTheManagementHost(t *testing.T) {
	t.Parallel()
	for _, row := range manageRows {
		t.Run(fmt.Sprintf("%d %s", row.status, row.reason), func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			a := apnstest.Answer{Status: row.status, Reason: row.reason, RetryAfter: "7"}
			if row.reason == "" {
				a.Body = []byte(`{"reason":"Service Unavailable"}`)
			}
			w.ScriptManagement(a)
			_, err := w.create()
			storetest.WantCode(t, err, row.want)
			if e := (*api.Error)(nil); api.Passing(err) && (!asError(err, &e) || e.RetryAfter != 7*time.Second) {
				t.Errorf("%v does not say when to try again", err)
			}
			if row.status/100 == 2 {
				return
			}
			again := row.want
			if again == api.CodeUnknownOutcome {
				again = api.CodeUnavailable
			}
			storetest.WantCode(t, w.delete(w.AddChannel(apnstest.DefaultTopic, 0)), again)
			_, err = w.list()
			storetest.WantCode(t, err, again)
		})
	}
}

func asError(err error, e **api.Error) bool {
	found, ok := err.(*api.Error)
	*e = found
	return ok
}

// No row of the table in the code may be missing above.
func TestG6_AnswersOfTheManagementHostAreWhole(t *testing.T) {
	t.Parallel()
	tested := make(map[answer]bool)
	for _, row := range manageRows {
		tested[answer{row.status, row.reason}] = true
	}
	for a := range manageCodes {
		if !tested[a] {
			t.Errorf("no test for %d %q", a.status, a.reason)
		}
	}
}

// A lost answer is unknown_outcome only if a channel may have been made.
func TestManagementHostIsLost(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	_, err := w.create()
	storetest.Must(t, err)
	w.ScriptManagement(apnstest.Failing(apnstest.Drop))
	_, err = w.create()
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	if n := len(w.Channels(apnstest.DefaultTopic)); n != 2 {
		t.Fatalf("there are %d channels", n)
	}
	storetest.WantCode(t, w.delete(w.Channels(apnstest.DefaultTopic)[0]), api.CodeUnavailable)
	w.ScriptManagement(apnstest.Failing(apnstest.Hang))
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = w.sender.CreateChannel(short, apnstest.DefaultTopic, api.EnvProduction, api.KeepNone)
	storetest.WantCode(t, err, api.CodeUnknownOutcome)
	w.ScriptManagement()
	w.RefuseManagement(true)
	_, err = w.list() // it finds that the connection is closed
	storetest.WantCode(t, err, api.CodeUnavailable)
	_, err = w.create()
	storetest.WantCode(t, err, api.CodeUnavailable)
	w.RefuseManagement(false)
	_, err = w.create()
	storetest.Must(t, err)
}

// A connection that broke silently is given up, so that the next call opens another one.
func TestManagementHostIsSilent(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	_, err := w.create()
	storetest.Must(t, err)
	w.BlackHole()
	create := func() error {
		within, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		_, err := w.sender.CreateChannel(within, apnstest.DefaultTopic, api.EnvProduction, api.KeepNone)
		return err
	}
	storetest.WantCode(t, create(), api.CodeUnknownOutcome)
	storetest.Must(t, create())
}

// A provider token that Apple finds expired is replaced once it is old enough, and a host that complains of new tokens
// gets none.
func TestManagementHostRenewsTheToken(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	now := func() time.Time { return clock }
	w := setup(t, apnstest.Options{Now: now}, func(o *Options) { o.Now = now })
	_, err := w.create()
	storetest.Must(t, err)
	clock = clock.Add(21 * time.Minute)
	w.ScriptManagement(apnstest.Fail(http.StatusForbidden, "ExpiredProviderToken"), apnstest.Answer{})
	_, err = w.create()
	storetest.Must(t, err)
	r := w.Managed.Requests()
	if len(r) != 3 || r[0].Bearer != r[1].Bearer || r[1].Bearer == r[2].Bearer {
		t.Fatalf("%d requests", len(r))
	}
}

// G7: a certificate shows who is calling; then there is no token. One that the file names with the topic of Live Activities makes and
// deletes channels and sends to them, and to no activity. Another one makes no channels, and sends to none.
func TestManagementHostWithCertificate(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	o := optionsFor(s)
	o.KeyFile, o.KeyID, o.TeamID = "", "", ""
	topic := apnstest.DefaultTopic + api.PushLiveActivity.TopicSuffix()
	file := mustAppsFile(t, "", map[string]string{"topic": topic, "environment": "production", "cert_file": s.CertFile()})
	w := &world{Server: s, t: t, sender: mustNew(t, o, file)}
	channel, err := w.create()
	storetest.Must(t, err)
	w.mustDeliver(testBroadcast(1, channel))
	if r := s.Managed.Requests()[0]; r.Bearer != "" || r.Status != http.StatusCreated {
		t.Fatalf("got %+v", r)
	}
	activity := testBroadcast(3, "")
	activity.Token = testNote(3).Token
	if got := w.send(activity); got.Outcome != transport.NoApp {
		t.Errorf("an activity gets a notification with a certificate: %s", got.Outcome)
	}
	other, err := w.create()
	storetest.Must(t, err)
	storetest.Must(t, w.sender.DeleteChannel(t.Context(), apnstest.DefaultTopic, api.EnvProduction, other))
	if left := s.Channels(apnstest.DefaultTopic); len(left) != 1 || left[0] != channel {
		t.Errorf("the channels are %v, want %s", left, channel)
	}
	w.sender = mustNew(t, o, mustAppsFile(t, "", map[string]string{"topic": apnstest.DefaultTopic, "environment": "production", "cert_file": s.CertFile()}))
	if w.sender.TakesBroadcast(apnstest.DefaultTopic, api.EnvProduction) {
		t.Error("an app with a certificate takes broadcasts")
	}
	_, err = w.create()
	storetest.WantCode(t, err, api.CodeUnknownApp)
	if got := w.send(testBroadcast(2, channel)); got.Outcome != transport.NoApp {
		t.Errorf("a broadcast of an app with a certificate: %s", got.Outcome)
	}
}
