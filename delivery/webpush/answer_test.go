package webpush

import (
	"strings"
	"testing"
	"time"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
)

// answerRows is the table of the contract: the answers of push services, and their meaning.
var answerRows = []struct {
	name   string
	answer webpushtest.Answer
	want   transport.Answer // Outcome, Reason, Said, RetryAfter
}{
	{"201", webpushtest.Answer{Location: "https://fcm.googleapis.com/m/1"}, transport.Answer{Outcome: transport.Delivered}},
	{"200", webpushtest.Answer{Status: 200, Body: "ok"}, transport.Answer{Outcome: transport.Delivered}},
	{"202", webpushtest.Answer{Status: 202}, transport.Answer{Outcome: transport.Delivered}},
	{"204", webpushtest.Answer{Status: 204}, transport.Answer{Outcome: transport.Delivered}},
	{"410", webpushtest.Answer{Status: 410, Body: "push subscription has unsubscribed or expired.\n"},
		transport.Answer{Outcome: transport.DropDevice, Reason: "gone", Said: "push subscription has unsubscribed or expired."}},
	{"404", webpushtest.Answer{Status: 404}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "not_found"}},
	{"401", webpushtest.Answer{Status: 401, Body: `{"reason":"x"}`}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "unauthorized", Said: `{"reason":"x"}`}},
	{"403", webpushtest.Answer{Status: 403, Body: `{"reason":"BadJwtToken"}`}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "forbidden", Said: `{"reason":"BadJwtToken"}`}},
	{"413", webpushtest.Answer{Status: 413}, transport.Answer{Outcome: transport.FailMessage, Reason: "payload_too_large"}},
	{"429", webpushtest.Answer{Status: 429, RetryAfter: "7"}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests", RetryAfter: 7 * time.Second}},
	{"429 without Retry-After", webpushtest.Answer{Status: 429}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests"}},
	{"500", webpushtest.Answer{Status: 500}, transport.Answer{Outcome: transport.Retry}},
	{"502", webpushtest.Answer{Status: 502, Body: "<html>"}, transport.Answer{Outcome: transport.Retry, Said: "<html>"}},
	{"503", webpushtest.Answer{Status: 503, RetryAfter: "30"}, transport.Answer{Outcome: transport.Retry, RetryAfter: 30 * time.Second}},
	{"a redirect", webpushtest.Answer{Status: 307, Location: "https://fcm.googleapis.com/other"}, transport.Answer{Outcome: transport.FailMessage, Reason: "redirect"}},
	{"another redirect", webpushtest.Answer{Status: 301, Location: "https://169.254.169.254/"}, transport.Answer{Outcome: transport.FailMessage, Reason: "redirect"}},
	{"400", webpushtest.Answer{Status: 400, Body: "bad\x00\nTopic"}, transport.Answer{Outcome: transport.OurBug, Said: "bad  Topic"}},
	{"406", webpushtest.Answer{Status: 406}, transport.Answer{Outcome: transport.OurBug}},
}

// W14: each row goes through the whole sender to a stand-in that gives this answer. No redirect is
// followed.
func TestW14_Answers(t *testing.T) {
	t.Parallel()
	for _, row := range answerRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, webpushtest.Options{})
			w.Answers(row.answer)
			got, want := w.send(w.note()), row.want
			if got.Outcome != want.Outcome || got.Status != w.last().Status || got.Reason != want.Reason || got.Said != want.Said ||
				got.RetryAfter != want.RetryAfter || got.Least != 0 || got.Err != nil || !got.GoneAt.IsZero() || got.Took <= 0 {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if len(w.Requests()) != 1 || len(w.Refused()) != 0 || w.Accepted() != 1 {
				t.Errorf("%d requests on %d connections, refused %v", len(w.Requests()), w.Accepted(), w.Refused())
			}
		})
	}
}

// What a push service says is short, and does not show the endpoint's path. An answer that is huge is cut
// off.
func TestWhatAPushServiceSaysShowsNoEndpoint(t *testing.T) {
	t.Parallel()
	for status, body := range map[int]string{400: "no subscription /push/secret here", 599: strings.Repeat("/push/secret", 1<<16), 403: strings.Repeat("ü", 1000)} {
		a := answerOf(&h2.Result{Status: status, Body: []byte(body)}, "/push/secret")
		if strings.Contains(a.Said, "secret") || a.Said == "" || len(a.Said) > 300 || strings.Contains(a.Said, "�") {
			t.Errorf("%d: %q", status, a.Said)
		}
	}
	w := setup(t, webpushtest.Options{})
	w.Answers(webpushtest.Answer{Status: 500, Body: strings.Repeat("x", 1<<20)})
	if a := w.send(w.note()); a.Outcome != transport.Retry || len(a.Said) != 300 {
		t.Errorf("got %+v", a)
	}
	w.mustDeliver(w.note())
}
