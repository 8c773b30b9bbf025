package fanfare

import (
	"errors"
	"net/http"
	"testing"
	"time"
)

// The example that Standard Webhooks publishes.
const (
	exampleSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	exampleBody      = `{"test": 2432232314}`
	exampleSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	exampleSecond    = 1614265330
)

func exampleHeader(change func(http.Header)) http.Header {
	h := http.Header{}
	h.Set("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	h.Set("webhook-timestamp", "1614265330")
	h.Set("webhook-signature", exampleSignature)
	if change != nil {
		change(h)
	}
	return h
}

func TestVerifyWebhook(t *testing.T) {
	t.Parallel()
	const wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
	now := time.Unix(exampleSecond, 0)
	set := func(name, value string) func(http.Header) { return func(h http.Header) { h.Set(name, value) } }
	for name, c := range map[string]struct {
		header  http.Header
		body    string
		secrets []string
		now     time.Time
		ok      bool
	}{
		"Valid":            {exampleHeader(nil), exampleBody, []string{exampleSecret}, now, true},
		"WithoutPrefix":    {exampleHeader(nil), exampleBody, []string{exampleSecret[6:]}, now, true},
		"SecondSecret":     {exampleHeader(nil), exampleBody, []string{"whsec_AAAA", exampleSecret}, now, true},
		"OneOfMany":        {exampleHeader(set("webhook-signature", wrong+" v2,x "+exampleSignature+" "+wrong)), exampleBody, []string{exampleSecret}, now, true},
		"OldEnough":        {exampleHeader(nil), exampleBody, []string{exampleSecret}, now.Add(WebhookTolerance), true},
		"New":              {exampleHeader(nil), exampleBody, []string{exampleSecret}, now.Add(-WebhookTolerance), true},
		"TooOld":           {exampleHeader(nil), exampleBody, []string{exampleSecret}, now.Add(WebhookTolerance + time.Second), false},
		"TooNew":           {exampleHeader(nil), exampleBody, []string{exampleSecret}, now.Add(-WebhookTolerance - time.Second), false},
		"OtherBody":        {exampleHeader(nil), exampleBody + " ", []string{exampleSecret}, now, false},
		"OtherSecret":      {exampleHeader(nil), exampleBody, []string{"whsec_AAAA"}, now, false},
		"NoSecret":         {exampleHeader(nil), exampleBody, nil, now, false},
		"WrongSignature":   {exampleHeader(set("webhook-signature", wrong)), exampleBody, []string{exampleSecret}, now, false},
		"OtherVersion":     {exampleHeader(set("webhook-signature", "v2"+exampleSignature[2:])), exampleBody, []string{exampleSecret}, now, false},
		"EmptySignature":   {exampleHeader(set("webhook-signature", "v1,")), exampleBody, []string{exampleSecret}, now, false},
		"OtherID":          {exampleHeader(set("webhook-id", "msg_x")), exampleBody, []string{exampleSecret}, now, false},
		"NoID":             {exampleHeader(set("webhook-id", "")), exampleBody, []string{exampleSecret}, now, false},
		"NoTimestamp":      {exampleHeader(set("webhook-timestamp", "")), exampleBody, []string{exampleSecret}, now, false},
		"TimestampIsWrong": {exampleHeader(set("webhook-timestamp", "1614265330.0")), exampleBody, []string{exampleSecret}, now, false},
		"NoSignature":      {exampleHeader(func(h http.Header) { h.Del("webhook-signature") }), exampleBody, []string{exampleSecret}, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := verifyWebhook(c.secrets, c.header, []byte(c.body), c.now)
			if c.ok && err != nil || !c.ok && !errors.Is(err, ErrWebhook) {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := VerifyWebhook([]string{exampleSecret}, exampleHeader(nil), []byte(exampleBody)); !errors.Is(err, ErrWebhook) {
		t.Errorf("a request of 2021: %v", err)
	}
	if _, err := verifyWebhook([]string{"whsec_?"}, exampleHeader(nil), []byte(exampleBody), now); err == nil || errors.Is(err, ErrWebhook) {
		t.Errorf("a secret that is none: %v", err)
	}
}

func TestVerifyWebhookReadsTheBatch(t *testing.T) {
	t.Parallel()
	const body = `{"webhook":"shop","gap":2,"facts":[{"id":"0-1-2","type":"event.done","key":"e1","at":"2026-03-01T12:00:00.000Z","data":{"state":"done"}}]}`
	h := exampleHeader(func(h http.Header) { h.Set("webhook-signature", "v1,tL5Hdqtp6oC/P+Ri++b8FjHyezwcFOMy+qlRV7oc6b4=") })
	batch, err := verifyWebhook([]string{exampleSecret}, h, []byte(body), time.Unix(exampleSecond, 0))
	if err != nil {
		t.Fatal(err)
	}
	f := batch.Facts[0]
	if batch.Webhook != "shop" || batch.Gap != 2 || f.ID != "0-1-2" || f.Type != "event.done" || f.Key != "e1" || !f.At.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) || string(f.Data) != `{"state":"done"}` {
		t.Errorf("got %+v", batch)
	}
}
