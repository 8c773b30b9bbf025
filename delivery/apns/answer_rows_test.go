package apns

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// answerRows is the table of the contract: the answers of APNs, and their meaning for the
// notification.
var answerRows = []struct {
	status int
	reason string
	want   transport.Outcome
}{
	{200, "", transport.Delivered},
	{400, "BadDeviceToken", transport.SuspectDevice},
	{400, "DeviceTokenNotForTopic", transport.SuspectDevice},
	{400, "MissingDeviceToken", transport.OurBug},
	{400, "BadMessageId", transport.OurBug},
	{400, "BadExpirationDate", transport.OurBug},
	{400, "BadPriority", transport.OurBug},
	{400, "BadCollapseId", transport.OurBug},
	{400, "InvalidPushType", transport.OurBug},
	{400, "DuplicateHeaders", transport.OurBug},
	{400, "PayloadEmpty", transport.OurBug},
	{404, "BadPath", transport.OurBug},
	{405, "MethodNotAllowed", transport.OurBug},
	{405, "", transport.OurBug},
	{413, "PayloadTooLarge", transport.OurBug},
	{413, "", transport.OurBug},
	{400, "BadTopic", transport.PauseApp},
	{400, "MissingTopic", transport.PauseApp},
	{400, "TopicDisallowed", transport.PauseApp},
	{403, "BadCertificate", transport.PauseApp},
	{403, "BadCertificateEnvironment", transport.PauseApp},
	{403, "Forbidden", transport.PauseApp},
	{403, "MissingProviderToken", transport.PauseApp},
	{403, "InvalidProviderToken", transport.PauseApp},
	{403, "BadEnvironmentKeyIdInToken", transport.PauseApp},
	{403, "UnrelatedKeyIdInToken", transport.PauseApp},
	{400, "IdleTimeout", transport.Again},
	{503, "Shutdown", transport.Again},
	{403, "ExpiredProviderToken", transport.PauseApp}, // sent again, and paused after three times
	{410, "Unregistered", transport.DropDevice},
	{410, "ExpiredToken", transport.DropDevice},
	{429, "TooManyRequests", transport.BackoffDevice},
	{429, "", transport.BackoffDevice},
	{429, "TooManyProviderTokenUpdates", transport.PauseApp},
	{500, "InternalServerError", transport.Retry},
	{500, "", transport.Retry},
	{502, "", transport.Retry},
	{503, "", transport.Retry},
	{599, "Whatever", transport.Retry},
	{503, "ServiceUnavailable", transport.RetryUncounted},
	{400, "SomethingNew", transport.FailMessage},
	{403, "SomethingNew", transport.FailMessage},
	{404, "SomethingNew", transport.FailMessage},
	{410, "SomethingNew", transport.FailMessage},
	{418, "", transport.FailMessage},
}

// Each row goes through the whole sender to a stand-in that gives this answer.
func TestAnswersTable(t *testing.T) {
	t.Parallel()
	for _, row := range answerRows {
		t.Run(fmt.Sprintf("%d %s", row.status, row.reason), func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			a := apnstest.Fail(row.status, row.reason)
			if row.reason == "" {
				a.Body = []byte("<html>no JSON</html>")
			}
			w.mustDeliver(testNote(0)) // a topic that has not delivered is no app's fault
			w.ScriptAll(a)
			got := w.send(testNote(1))
			if got.Outcome != row.want || got.Status != row.status || got.Reason != row.reason || got.Err != nil {
				t.Fatalf("got %s %d %q %v, want %s", got.Outcome, got.Status, got.Reason, got.Err, row.want)
			}
		})
	}
}

// No row of the table in the code may be missing above.
func TestAnswersTableIsWhole(t *testing.T) {
	t.Parallel()
	tested := make(map[answer]bool)
	for _, row := range answerRows {
		tested[answer{row.status, row.reason}] = true
	}
	for a, o := range outcomes {
		if !tested[a] {
			t.Errorf("no test for %d %q", a.status, a.reason)
		}
		if o < transport.Delivered || o > transport.NoApp {
			t.Errorf("%d %q has no outcome: %d", a.status, a.reason, o)
		}
	}
}

// The time of a 410 is in milliseconds; apns2 truncates it to seconds.
func TestGoneTimestampInMilliseconds(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	at := time.UnixMilli(1_700_000_000_123)
	w.Script(deviceToken(1), apnstest.Gone("Unregistered", at))
	if a := w.send(testNote(1)); !a.GoneAt.Equal(at) || a.Outcome != transport.DropDevice {
		t.Fatalf("got %s at %v, want %v", a.Outcome, a.GoneAt, at)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	for i, row := range []struct {
		header   string
		min, max time.Duration
	}{
		{"", 0, 0}, {"7", 7 * time.Second, 7 * time.Second}, {"-3", 0, 0}, {"soon", 0, 0},
		{time.Now().Add(time.Minute).UTC().Format(http.TimeFormat), 50 * time.Second, time.Minute},
		// no notification waits for 68 years.
		{"3600", time.Hour, time.Hour}, {"2147483647", time.Hour, time.Hour}, {"99999999999999999999", time.Hour, time.Hour},
		{"-99999999999999999999", 0, 0}, {"-9223372037", 0, 0}, {"9223372036", time.Hour, time.Hour},
		{"Fri, 31 Dec 9999 23:59:59 GMT", time.Hour, time.Hour}, {"Thu, 01 Jan 1970 00:00:00 GMT", 0, 0},
	} {
		w.Script(deviceToken(i), apnstest.Answer{Status: 429, Reason: "TooManyRequests", RetryAfter: row.header})
		a := w.send(testNote(i))
		if a.Outcome != transport.BackoffDevice || a.RetryAfter < row.min || a.RetryAfter > row.max {
			t.Errorf("%q: got %s after %v", row.header, a.Outcome, a.RetryAfter)
		}
	}
}

// 400 IdleTimeout and 503 Shutdown are treated like GOAWAY: sent again at once on a new connection.
func TestShutdownMovesToNewConnection(t *testing.T) {
	t.Parallel()
	for _, a := range []apnstest.Answer{apnstest.Fail(400, "IdleTimeout"), apnstest.Fail(503, "Shutdown")} {
		t.Run(a.Reason, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			w.mustDeliver(testNote(0))
			w.Script(deviceToken(1), a, apnstest.OK())
			w.mustDeliver(testNote(1))
			got := w.Of(deviceToken(1))
			if len(got) != 2 || got[0].Connection == got[1].Connection || got[0].ID != got[1].ID {
				t.Fatalf("got %+v", got)
			}
			w.Script(deviceToken(2), a)
			if got := w.send(testNote(2)); got.Outcome != transport.Again || got.RetryAfter <= 0 {
				t.Fatalf("when it never ends: %s after %v", got.Outcome, got.RetryAfter)
			}
		})
	}
}

// If a server answers so on every connection, there is a pause: each notification ends soon with a
// time for the next try, and few connections are opened, however many notifications there are.
func TestShutdownForEverIsNoStorm(t *testing.T) {
	t.Parallel()
	for _, answer := range []apnstest.Answer{
		apnstest.Fail(400, "IdleTimeout"), apnstest.Fail(503, "Shutdown"), {Status: 503, Reason: "Shutdown", RetryAfter: "30"},
	} {
		t.Run(answer.Reason+answer.RetryAfter, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			w.ScriptAll(answer)
			began, asked := time.Now(), 0
			for i := range 500 {
				a := w.send(testNote(i))
				switch {
				case a.Outcome == transport.NotSent && a.Err != nil: // it was not even tried
				case a.Outcome != transport.Again || a.RetryAfter < exchange.AgainAfter || answer.RetryAfter != "" && a.RetryAfter != 30*time.Second:
					t.Fatalf("got %s after %v: %v", a.Outcome, a.RetryAfter, a.Err)
				default:
					asked++
				}
			}
			most := 3 + int(time.Since(began)/(50*time.Millisecond))
			if n := w.Accepted(); n > most || w.Total() != n || asked == 0 {
				t.Fatalf("%d connections and %d requests, %d at most", n, w.Total(), most)
			}
			w.ScriptAll(apnstest.OK())
			storetest.Eventually(t, 20*time.Second, "it is found working", func() bool { return w.send(testNote(0)).Outcome == transport.Delivered })
		})
	}
}

// 503 ServiceUnavailable halves the requests that the app may have under way, once per round, and
// the limit recovers.
func TestServiceUnavailableHalvesConcurrency(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{StartStreams: 1000})
	w.mustDeliver(testNote(0))
	w.ScriptAll(apnstest.Answer{Status: 503, Reason: "ServiceUnavailable", Delay: 300 * time.Millisecond})
	if got := outcomesOf(w.sendMany(1, 64)); got[transport.RetryUncounted] != 64 {
		t.Fatalf("got %v", got)
	}
	limit := w.limit()
	if limit < 8 || limit > 32 {
		t.Fatalf("after one round of 64 the limit is %d", limit)
	}
	w.ScriptAll(apnstest.OK())
	storetest.Eventually(t, 20*time.Second, "the limit grows again", func() bool {
		w.mustDeliver(testNote(0))
		return w.limit() > limit
	})
}

// app is the app of the default topic.
func (w *world) app() *app {
	return w.sender.apps.Load().find(apnstest.DefaultTopic, testNote(0).Environment)
}

// limit is the concurrency limit of the default topic.
func (w *world) limit() int {
	_, limit := w.app().limiter.State()
	return limit
}

// open is how many connections the app of the default topic has.
func (w *world) open() int {
	n, _ := w.app().link.pool.State()
	return n
}

// An app that is asked to slow down does not slow down another app.
func TestSlowAppSlowsNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{StartStreams: 1000})
	w.ScriptTopic("com.example.slow", apnstest.Answer{Status: 503, Reason: "ServiceUnavailable"})
	slow := testNote(1)
	slow.Topic = "com.example.slow"
	for range 12 {
		if a := w.send(slow); a.Outcome != transport.RetryUncounted {
			t.Fatalf("got %s: %v", a.Outcome, a.Err)
		}
	}
	if got := outcomesOf(w.sendMany(0, 500)); got[transport.Delivered] != 500 || w.limit() != 0 {
		t.Fatalf("the other app: %v, limit %d", got, w.limit())
	}
	w.ScriptTopic("com.example.slow", apnstest.After(time.Minute))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 { // one is under way, which the limit allows, and one waits
		go func() {
			for ctx.Err() == nil {
				transport.Await(ctx, w.sender, slow)
			}
		}()
	}
	storetest.Eventually(t, 20*time.Second, "more than may wait fail at once", func() bool {
		ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		a := transport.Await(ctx, w.sender, slow)
		return a.Outcome == transport.NotSent && a.Err == h2.ErrLimited
	})
}
