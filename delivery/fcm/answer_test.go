package fcm

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/fcm/fcmtest"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// answerRows is the table of the contract: FCM's answers, and their meaning for the notification.
var answerRows = []struct {
	name   string
	answer fcmtest.Answer
	want   transport.Answer // Outcome, Reason, Said, RetryAfter, Least
}{
	{"404 UNREGISTERED", fcmtest.Refuse(404, "UNREGISTERED"), transport.Answer{Outcome: transport.DropDevice, Reason: "UNREGISTERED"}},
	{"404 without an FcmError", fcmtest.Answer{Status: 404, RPC: "NOT_FOUND", Message: "no such project"},
		transport.Answer{Outcome: transport.PauseApp, Reason: "NOT_FOUND", Said: "no such project"}},
	{"404 HTML", fcmtest.Answer{Status: 404, Body: []byte("<html>")}, transport.Answer{Outcome: transport.PauseApp}},
	{"404 another FcmError", fcmtest.Refuse(404, "SOMETHING_NEW"), transport.Answer{Outcome: transport.OurBug, Reason: "SOMETHING_NEW"}},
	{"403 SENDER_ID_MISMATCH", fcmtest.Refuse(403, "SENDER_ID_MISMATCH"), transport.Answer{Outcome: transport.SuspectDevice, Reason: "SENDER_ID_MISMATCH"}},
	{"400 about the token", fcmtest.Answer{Status: 400, Code: "INVALID_ARGUMENT", Field: "message.token"}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "INVALID_ARGUMENT"}},
	{"400 about the fid", fcmtest.Answer{Status: 400, Code: "INVALID_ARGUMENT", Field: "message.fid"}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "INVALID_ARGUMENT"}},
	{"400 about the activity", fcmtest.Answer{Status: 400, Code: "INVALID_ARGUMENT", Field: "message.apns.live_activity_token"}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "INVALID_ARGUMENT"}},
	{"400 by its words", fcmtest.Answer{Status: 400, RPC: "INVALID_ARGUMENT", Message: "The registration token is not a valid FCM registration token"},
		transport.Answer{Outcome: transport.SuspectDevice, Reason: "INVALID_ARGUMENT", Said: "The registration token is not a valid FCM registration token"}},
	{"400 about something else", fcmtest.Answer{Status: 400, Code: "INVALID_ARGUMENT", Field: "message.data"}, transport.Answer{Outcome: transport.OurBug, Reason: "INVALID_ARGUMENT"}},
	{"400 another code", fcmtest.Answer{Status: 400, Code: "UNSPECIFIED_ERROR", Field: "message.token"}, transport.Answer{Outcome: transport.OurBug, Reason: "UNSPECIFIED_ERROR"}},
	{"401 THIRD_PARTY_AUTH_ERROR", fcmtest.Refuse(401, "THIRD_PARTY_AUTH_ERROR"), transport.Answer{Outcome: transport.OurBug, Reason: "THIRD_PARTY_AUTH_ERROR"}},
	{"another 4xx", fcmtest.Answer{Status: 413, Body: []byte("<html>")}, transport.Answer{Outcome: transport.OurBug}},
	{"another 403", fcmtest.Answer{Status: 403, RPC: "PERMISSION_DENIED", Message: "Permission 'cloudmessaging.messages.create' denied\non resource"},
		transport.Answer{Outcome: transport.PauseApp, Reason: "PERMISSION_DENIED", Said: "Permission 'cloudmessaging.messages.create' denied on resource"}},
	{"429 of the device", fcmtest.Answer{Status: 429, Code: "QUOTA_EXCEEDED", Quota: []string{"device:abc"}, RetryAfter: "7"},
		transport.Answer{Outcome: transport.BackoffDevice, Reason: "QUOTA_EXCEEDED", RetryAfter: 7 * time.Second}},
	{"429 of the project", fcmtest.Answer{Status: 429, Code: "QUOTA_EXCEEDED", Quota: []string{"project:1"}, RetryAfter: "7"},
		transport.Answer{Outcome: transport.RetryUncounted, Reason: "QUOTA_EXCEEDED", RetryAfter: 7 * time.Second}},
	{"429 of both", fcmtest.Answer{Status: 429, Code: "QUOTA_EXCEEDED", Quota: []string{"device:abc", "project:1"}},
		transport.Answer{Outcome: transport.RetryUncounted, Reason: "QUOTA_EXCEEDED", RetryAfter: time.Minute}},
	{"429 unreadable", fcmtest.Answer{Status: 429, Body: []byte("<html>")}, transport.Answer{Outcome: transport.RetryUncounted, RetryAfter: time.Minute}},
	{"500", fcmtest.Refuse(500, "INTERNAL"), transport.Answer{Outcome: transport.Retry, Reason: "INTERNAL", Least: 10 * time.Second}},
	{"502", fcmtest.Answer{Status: 502, Body: []byte("<html>")}, transport.Answer{Outcome: transport.Retry, Least: 10 * time.Second}},
	{"504", fcmtest.Answer{Status: 504, RetryAfter: "30"}, transport.Answer{Outcome: transport.Retry, RetryAfter: 30 * time.Second, Least: 10 * time.Second}},
	{"503", fcmtest.Answer{Status: 503, Code: "UNAVAILABLE", RetryAfter: "30"}, transport.Answer{Outcome: transport.RetryUncounted, Reason: "UNAVAILABLE", RetryAfter: 30 * time.Second}},
	{"a redirect", fcmtest.Answer{Status: 307, Body: []byte("x")}, transport.Answer{Outcome: transport.Retry, Least: 10 * time.Second}},
}

// W11: each row goes through the whole sender to a stand-in that gives this answer.
func TestW11_Answers(t *testing.T) {
	t.Parallel()
	for _, row := range answerRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, fcmtest.Options{})
			w.Answers(row.answer)
			got := w.send(testNote(1))
			if want := row.want; got.Outcome != want.Outcome || got.Status != row.answer.Status || got.Reason != want.Reason || got.Said != want.Said ||
				got.RetryAfter != want.RetryAfter || got.Least != want.Least || got.Err != nil || !got.GoneAt.IsZero() {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if len(w.Requests()) != 1 {
				t.Errorf("%d requests", len(w.Requests()))
			}
		})
	}
}

// W11: a 401 makes a new access token, and the third in a row pauses the app.
func TestW11_AnInvalidTokenIsReplaced(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, fcmtest.Options{}, c.options)
	w.mustDeliver(testNote(0))
	c.advance(10 * time.Second)
	w.EndTokens()
	w.mustDeliver(testNote(1)) // a new token, and again
	if w.TokensAsked() != 2 || len(w.Requests()) != 2 {
		t.Fatalf("%d tokens, %d requests", w.TokensAsked(), len(w.Requests()))
	}
	c.advance(10 * time.Second)
	w.Answers(fcmtest.Answer{Status: 401, RPC: "UNAUTHENTICATED"}, fcmtest.Answer{Status: 401, RPC: "UNAUTHENTICATED"}, fcmtest.Answer{Status: 401, RPC: "UNAUTHENTICATED"})
	a := w.send(testNote(2))
	if a.Outcome != transport.PauseApp || a.Reason != "UNAUTHENTICATED" || len(w.Of(deviceToken(2))) != 3 || w.TokensAsked() != 3 {
		t.Errorf("got %+v, %d requests, %d tokens", a, len(w.Of(deviceToken(2))), w.TokensAsked())
	}
}

// W11: when the project's quota is used up, this process sends nothing of the app for a while. Another app
// of the project goes on.
func TestW11_TheAppRestsAfterTheProjectsQuota(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, fcmtest.Options{}, c.options)
	w.mustConfigure(entry(w.Server, topic), entry(w.Server, "other"))
	w.Answers(fcmtest.Answer{Status: 429, Code: "QUOTA_EXCEEDED", Quota: []string{"project:1"}, RetryAfter: "7"})
	w.send(testNote(0))
	c.advance(3 * time.Second)
	if a := w.send(testNote(1)); a.Outcome != transport.NotSent || a.RetryAfter != 4*time.Second || len(w.Of(deviceToken(1))) != 0 {
		t.Errorf("during the rest: %+v", a)
	}
	other := testNote(2)
	other.Topic = "other"
	w.mustDeliver(other)
	c.advance(4 * time.Second)
	w.mustDeliver(testNote(3))
}

// W11: a 503 halves the requests under way; 429 does not.
func TestW11_UnavailableSlowsDown(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{http.StatusServiceUnavailable: coldLimit / 2, http.StatusTooManyRequests: coldLimit} {
		w := setup(t, fcmtest.Options{})
		w.Answers(fcmtest.Answer{Status: status})
		w.send(testNote(0))
		if _, limit := w.sender.apps.Load().apps[topic].limiter.State(); limit != want {
			t.Errorf("after %d the limit is %d, want %d", status, limit, want)
		}
	}
}

// A11 holds for FCM: strange answers never hang or crash the sender, and what the provider says is short.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	for i, body := range []string{
		"", "{", "[]", `{"error":7}`, `{"error":{"details":[7,{"@type":7},{"@type":"x/google.firebase.fcm.v1.FcmError","errorCode":"no code"}]}}`,
		`{"error":{"status":"a b"}}`, `{"error":{"status":"` + strings.Repeat("A", 65) + `"}}`,
		fmt.Sprintf(`{"error":{"message":%q}}`, strings.Repeat("ü", 1000)), strings.Repeat("x", 1<<20),
	} {
		a := answerOfBody(500, body)
		if a.Outcome != transport.Retry || a.Reason != "" || len(a.Said) > 300 || strings.Contains(a.Said, "�") {
			t.Errorf("%d: %+v", i, a)
		}
	}
}

func answerOfBody(status int, body string) transport.Answer {
	return answerOf(&h2.Result{Status: status, Body: []byte(body)})
}
