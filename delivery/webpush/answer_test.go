package webpush

import (
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
)

type answerRow struct {
	name   string
	answer webpushtest.Answer
	want   transport.Answer // Outcome, Reason, Said, Spare, RetryAfter
}

// answerRows is the table of the contract: the answers of push services, and their meaning.
var answerRows = []answerRow{
	{"201", webpushtest.Answer{Location: "https://fcm.googleapis.com/m/1"}, transport.Answer{Outcome: transport.Delivered}},
	{"200", webpushtest.Answer{Status: 200, Body: "ok"}, transport.Answer{Outcome: transport.Delivered}},
	{"202", webpushtest.Answer{Status: 202}, transport.Answer{Outcome: transport.Delivered}},
	{"204", webpushtest.Answer{Status: 204}, transport.Answer{Outcome: transport.Delivered}},
	{"410", webpushtest.Answer{Status: 410, Body: "push subscription has unsubscribed or expired.\n"},
		transport.Answer{Outcome: transport.DropDevice, Reason: "gone", Said: "push subscription has unsubscribed or expired."}},
	{"404", webpushtest.Answer{Status: 404}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "not_found"}},
	{"401", webpushtest.Answer{Status: 401, Body: `{"reason":"x"}`}, transport.Answer{Outcome: transport.UnclearRefusal, Spare: true, Reason: "unauthorized", Said: `{"reason":"x"}`}},
	{"403", webpushtest.Answer{Status: 403, Body: `{"reason":"BadJwtToken"}`}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "forbidden", Said: `{"reason":"BadJwtToken"}`}},
	{"413", webpushtest.Answer{Status: 413}, transport.Answer{Outcome: transport.FailMessage, Reason: "payload_too_large"}},
	{"429", webpushtest.Answer{Status: 429, RetryAfter: "7"}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests", RetryAfter: 7 * time.Second}},
	{"429 without Retry-After", webpushtest.Answer{Status: 429}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests"}},
	{"500", webpushtest.Answer{Status: 500}, transport.Answer{Outcome: transport.Retry}},
	{"502", webpushtest.Answer{Status: 502, Body: "<html>"}, transport.Answer{Outcome: transport.Retry, Said: "<html>"}},
	{"503", webpushtest.Answer{Status: 503, RetryAfter: "30"}, transport.Answer{Outcome: transport.Retry, RetryAfter: 30 * time.Second}},
	{"a redirect", webpushtest.Answer{Status: 307, Location: "https://fcm.googleapis.com/other"}, transport.Answer{Outcome: transport.FailMessage, Reason: "redirect"}},
	{"another redirect", webpushtest.Answer{Status: 301, Location: "https://169.254.169.254/"}, transport.Answer{Outcome: transport.FailMessage, Reason: "redirect"}},
	{"408", webpushtest.Answer{Status: 408}, transport.Answer{Outcome: transport.Retry}},
	{"425", webpushtest.Answer{Status: 425, RetryAfter: "3"}, transport.Answer{Outcome: transport.Retry, RetryAfter: 3 * time.Second}},
	{"400", webpushtest.Answer{Status: 400, Body: "bad\x00\nTopic"}, transport.Answer{Outcome: transport.UnclearRefusal, Said: "bad  Topic"}},
	{"405", webpushtest.Answer{Status: 405}, transport.Answer{Outcome: transport.UnclearRefusal}},
	{"406", webpushtest.Answer{Status: 406}, transport.Answer{Outcome: transport.UnclearRefusal}},
	{"411", webpushtest.Answer{Status: 411}, transport.Answer{Outcome: transport.UnclearRefusal}},
	{"a header that only Windows' service has", webpushtest.Answer{NotificationStatus: "dropped"}, transport.Answer{Outcome: transport.Delivered}},
}

// appleRows and windowsRows are what these two services say beside the status.
var appleRows = []answerRow{
	{"403 BadJwtToken", apple(403, "BadJwtToken"), transport.Answer{Outcome: transport.PauseApp, Reason: "BadJwtToken", Said: `{"reason":"BadJwtToken"}`}},
	{"403 BadAuthorizationHeader", apple(403, "BadAuthorizationHeader"), transport.Answer{Outcome: transport.PauseApp, Reason: "BadAuthorizationHeader", Said: `{"reason":"BadAuthorizationHeader"}`}},
	{"401 BadJwtToken", apple(401, "BadJwtToken"), transport.Answer{Outcome: transport.PauseApp, Reason: "BadJwtToken", Said: `{"reason":"BadJwtToken"}`}},
	{"400 VapidPkHashMismatch", apple(400, "VapidPkHashMismatch"), transport.Answer{Outcome: transport.SuspectDevice, Reason: "VapidPkHashMismatch", Said: `{"reason":"VapidPkHashMismatch"}`}},
	{"403 for another reason", apple(403, "x"), transport.Answer{Outcome: transport.SuspectDevice, Reason: "forbidden", Said: `{"reason":"x"}`}},
	{"403 that is not JSON", webpushtest.Answer{Status: 403, Body: "BadJwtToken"}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "forbidden", Said: "BadJwtToken"}},
	{"503 BadJwtToken", apple(503, "BadJwtToken"), transport.Answer{Outcome: transport.Retry, Said: `{"reason":"BadJwtToken"}`}},
	{"410", webpushtest.Answer{Status: 410}, transport.Answer{Outcome: transport.DropDevice, Reason: "gone"}},
}

var windowsRows = []answerRow{
	{"201", webpushtest.Answer{NotificationStatus: "received"}, transport.Answer{Outcome: transport.Delivered}},
	{"406", webpushtest.Answer{Status: 406, RetryAfter: "3"}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests", RetryAfter: 3 * time.Second}},
	{"429", webpushtest.Answer{Status: 429}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests"}},
	{"200 channelthrottled", webpushtest.Answer{Status: 200, NotificationStatus: "channelthrottled"}, transport.Answer{Outcome: transport.BackoffDevice, Reason: "too_many_requests"}},
	{"200 dropped", webpushtest.Answer{Status: 200, NotificationStatus: "dropped"}, transport.Answer{Outcome: transport.FailMessage, Reason: "dropped"}},
	{"200 Dropped in the newer header", webpushtest.Answer{Status: 200, NewStatus: "Dropped"}, transport.Answer{Outcome: transport.FailMessage, Reason: "dropped"}},
	{"403 dropped", webpushtest.Answer{Status: 403, NotificationStatus: "dropped"}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "forbidden"}},
	{"404", webpushtest.Answer{Status: 404}, transport.Answer{Outcome: transport.SuspectDevice, Reason: "not_found"}},
}

func apple(status int, reason string) webpushtest.Answer {
	return webpushtest.Answer{Status: status, Body: `{"reason":"` + reason + `"}`}
}

// W14: each row goes through the whole sender to a stand-in that gives this answer. No redirect is
// followed.
func TestW14_Answers(t *testing.T) {
	t.Parallel()
	for host, rows := range map[string][]answerRow{chrome: answerRows, "web.push.apple.com": appleRows, "wns2-par02p.notify.windows.com": windowsRows} {
		for _, row := range rows {
			t.Run(host+" "+row.name, func(t *testing.T) {
				t.Parallel()
				testAnswer(t, host, row)
			})
		}
	}
}

func testAnswer(t *testing.T, host string, row answerRow) {
	w := setup(t, webpushtest.Options{})
	w.browser = w.MustSubscribe(t, host)
	w.Answers(row.answer)
	got, want := w.send(w.note()), row.want
	if got.Outcome != want.Outcome || got.Status != w.last().Status || got.Reason != want.Reason || got.Said != want.Said || got.Spare != want.Spare ||
		got.RetryAfter != want.RetryAfter || got.Least != 0 || got.Err != nil || !got.GoneAt.IsZero() || got.Took <= 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if len(w.Requests()) != 1 || len(w.Refused()) != 0 || w.Accepted() != 1 {
		t.Errorf("%d requests on %d connections, refused %v", len(w.Requests()), w.Accepted(), w.Refused())
	}
}

// W14: what pauses an app or throttles it is read from the two services alone: users may name hosts of others.
func TestW14_OthersReasonsAreNotRead(t *testing.T) {
	t.Parallel()
	for _, host := range []string{chrome, "evil.example", "a.push.apple.com", "push.apple.com.evil.example"} {
		w := setup(t, webpushtest.Options{}, func(o *Options) { o.Origins = append(api.PushOrigins{"*"}, o.Origins...) })
		w.browser = w.MustSubscribe(t, host)
		w.Answers(apple(403, "BadJwtToken"))
		if a := w.send(w.note()); a.Outcome != transport.SuspectDevice {
			t.Errorf("%s: %+v", host, a)
		}
	}
}

// W14: Apple's service refuses a subscription of another key with a reason of its own. It is the device's fault.
func TestW14_ASubscriptionOfAnotherKeyAtApple(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	other := webpushtest.Start(t, webpushtest.Options{})
	app := other.App(topic)
	app["ca_file"], app["connect_to"] = w.CAFile(), w.Addr()
	w.mustConfigure(app)
	w.browser = w.MustSubscribe(t, "web.push.apple.com")
	if a := w.send(w.note()); a.Outcome != transport.SuspectDevice || a.Status != 400 || a.Reason != "VapidPkHashMismatch" {
		t.Errorf("got %+v", a)
	}
}

// W13: Windows' service refuses a TTL of 0, and gets 1 instead.
func TestW13_WindowsGetsNoTTLOf0(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{})
	for host, want := range map[string]int{"wns2-par02p.notify.windows.com": 1, chrome: 0} {
		w.browser = w.MustSubscribe(t, host)
		for _, end := range []time.Time{time.Unix(0, 0), time.Now().Add(-time.Minute), time.Now().Add(900 * time.Millisecond)} {
			n := w.note()
			n.Expiration, n.At = &end, time.Now()
			w.mustDeliver(n)
			if got := w.last().TTL; got != want {
				t.Errorf("%s: TTL %d for %v, want %d", host, got, end, want)
			}
		}
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
