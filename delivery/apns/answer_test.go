package apns

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
)

func TestA2_SameIDOnEveryRetry(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.Script(deviceToken(1), apnstest.Fail(500, ""), apnstest.Failing(apnstest.Drop), apnstest.Failing(apnstest.Refuse), apnstest.OK())
	for range 3 {
		w.send(testNote(1))
	}
	got := w.Of(deviceToken(1))
	if len(got) != 4 {
		t.Fatalf("%d requests", len(got))
	}
	for _, r := range got {
		if r.ID != testNote(1).ID {
			t.Fatalf("apns-id %q", r.ID)
		}
	}
}

func TestA3_CollapseID(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	for i, id := range []string{"", "event-1", strings.Repeat("x", 64)} {
		n := testNote(i)
		n.CollapseID = id
		w.mustDeliver(n)
		if got := w.Of(deviceToken(i))[0].CollapseID; got != id {
			t.Errorf("%q was sent as %q", id, got)
		}
	}
	n := testNote(9)
	n.CollapseID = strings.Repeat("x", 65)
	if a := w.send(n); a.Outcome != transport.OurBug || a.Reason != "BadCollapseId" {
		t.Errorf("65 bytes: %s %s", a.Outcome, a.Reason)
	}
}

func TestA4_Expiration(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	at := func(sec int64) *time.Time { x := time.Unix(sec, 999); return &x }
	for i, row := range []struct {
		expiration *time.Time
		want       string
	}{{nil, ""}, {at(0), "0"}, {at(1_900_000_000), "1900000000"}, {at(-5), "0"}} {
		n := testNote(i)
		n.Expiration = row.expiration
		w.mustDeliver(n)
		if got := w.Of(deviceToken(i))[0].Expiration; got != row.want {
			t.Errorf("%v was sent as %q, want %q", row.expiration, got, row.want)
		}
	}
}

func TestA5_PushTypesAndPriorities(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	for i, pt := range []api.PushType{
		api.PushAlert, api.PushBackground, api.PushLocation, api.PushVoIP, api.PushComplication,
		api.PushLiveActivity, api.PushPushToTalk, api.PushWidgets, api.PushControls,
	} {
		n := testNote(i)
		n.PushType, n.Priority, n.Topic = pt, []int{1, 5}[i%2], apnstest.DefaultTopic+pt.TopicSuffix()
		w.mustDeliver(n)
		r := w.Of(deviceToken(i))[0]
		if r.PushType != string(pt) || r.Priority != []string{"1", "5"}[i%2] {
			t.Errorf("%s was sent as %s with priority %s", pt, r.PushType, r.Priority)
		}
	}
	n := testNote(50)
	n.PushType, n.Priority = "", 0
	w.mustDeliver(n)
	if r := w.Of(deviceToken(50))[0]; r.PushType != "alert" || r.Priority != "" {
		t.Errorf("nothing told was sent as %s with priority %q", r.PushType, r.Priority)
	}
}

// The payload is sent as it was rendered; apns2 would escape it and make it longer.
func TestPayloadIsNotTouched(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	head, tail := []byte(`{"aps": {"alert": "`), []byte(`"}}`)
	n := testNote(1)
	n.Payload = append(append(head, bytes.Repeat([]byte("<&>"), (4096-len(head)-len(tail))/3)...), tail...)
	w.mustDeliver(n)
	if got := w.Of(deviceToken(1))[0].Payload; !bytes.Equal(got, n.Payload) {
		t.Fatalf("%d bytes became %d", len(n.Payload), len(got))
	}
	n = testNote(2)
	n.Payload = nil
	if a := w.send(n); a.Outcome != transport.OurBug || len(w.Of(deviceToken(2))) != 0 {
		t.Fatalf("no payload: %s", a.Outcome)
	}
}

// A11: an answer that is cut off behind its status is a refusal whose reason is missing. The notification is sent again, for neither the
// device nor the app may be at fault. Of 429 the status says enough.
func TestA11_AnAnswerThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	for i, a := range []apnstest.Answer{apnstest.Fail(400, "IdleTimeout"), apnstest.Fail(403, "ExpiredProviderToken"), apnstest.Gone("Unregistered", time.Now()), apnstest.Fail(413, "PayloadTooLarge")} {
		a.Fault = apnstest.CutOff
		w.Script(deviceToken(i), a, apnstest.OK())
		if got := w.send(testNote(i)); got.Outcome != transport.Retry || got.Status != a.Status || got.Reason != "" {
			t.Errorf("%d %s: %+v", a.Status, a.Reason, got)
		}
		w.mustDeliver(testNote(i))
	}
	busy := apnstest.Fail(429, "TooManyRequests")
	busy.Fault = apnstest.CutOff
	w.Script(deviceToken(9), busy)
	if got := w.send(testNote(9)); got.Outcome != transport.BackoffDevice {
		t.Errorf("429: %+v", got)
	}
}

func TestA11_StrangeAnswersKeepTheirStatus(t *testing.T) {
	t.Parallel()
	huge := bytes.Repeat([]byte("x"), 1<<20)
	for name, row := range map[string]struct {
		answer apnstest.Answer
		want   transport.Outcome
	}{
		"503 in HTML":          {apnstest.Answer{Status: 503, Body: []byte("<html>")}, transport.Retry},
		"503 empty":            {apnstest.Answer{Status: 503, Body: []byte{}}, transport.Retry},
		"500 huge":             {apnstest.Answer{Status: 500, Body: huge}, transport.Retry},
		"400 huge":             {apnstest.Answer{Status: 400, Body: huge}, transport.FailMessage},
		"400 with a number":    {apnstest.Answer{Status: 400, Body: []byte(`{"reason":7}`)}, transport.FailMessage},
		"400 half a JSON":      {apnstest.Answer{Status: 400, Body: []byte(`{"reason":"BadDev`)}, transport.FailMessage},
		"400 wild reason":      {apnstest.Answer{Status: 400, Body: []byte(`{"reason":"a b\nc"}`)}, transport.FailMessage},
		"410 strange time":     {apnstest.Answer{Status: 410, Body: []byte(`{"reason":"Unregistered","timestamp":"x"}`)}, transport.DropDevice},
		"413 in HTML":          {apnstest.Answer{Status: 413, Body: []byte("<html>")}, transport.OurBug},
		"429 in HTML":          {apnstest.Answer{Status: 429, Body: []byte("<html>")}, transport.BackoffDevice},
		"200 with a body":      {apnstest.Answer{Status: 200, Body: huge}, transport.Delivered},
		"204":                  {apnstest.Answer{Status: 204}, transport.Retry},
		"307 to somewhere":     {apnstest.Answer{Status: 307, Body: []byte("x")}, transport.Retry},
		"302":                  {apnstest.Answer{Status: 302, Body: []byte("x")}, transport.Retry},
		"unknown 4xx":          {apnstest.Answer{Status: 499, Body: []byte("x")}, transport.FailMessage},
		"a status of its own":  {apnstest.Answer{Status: 799, Body: []byte("x")}, transport.Retry},
		"a reason in the 500s": {apnstest.Fail(507, "Full"), transport.Retry},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, apnstest.Options{})
			w.ScriptAll(row.answer)
			for range 2 { // the connection stays open
				a := w.send(testNote(0))
				if a.Outcome != row.want || a.Status != row.answer.Status || a.Err != nil {
					t.Fatalf("got %s %d %v, want %s", a.Outcome, a.Status, a.Err, row.want)
				}
			}
			if w.Accepted() != 1 {
				t.Fatalf("%d connections", w.Accepted())
			}
		})
	}
}
