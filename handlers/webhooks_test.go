package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/record"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

const hookS = "/v1/webhooks/s"

// H7: the secret is in the answer that made it, and nowhere else.
func TestH7_SecretsAreShownOnce(t *testing.T) {
	t.Parallel()
	eachSQL(t, func(t *testing.T, w *world) {
		const request = `{"url":"https://shop.example.com/h?token=hidden","types":["event.done"],"max":7}`
		shown := func(more string) string {
			return `{"id":"s","version":"*","url":"https://shop.example.com/h?token=hidden","types":["event.done"],"max":7,"state":"on","secret_at":"*","created_at":"*","updated_at":"*"` + more + `}`
		}
		w.get(hookS).wants(t, 404, problem(api.CodeNotFound, "there is no webhook s"))
		w.get("/v1/webhooks").wants(t, 200, `{"items":[]}`)
		first := w.do(put(hookS, request)).wants(t, 201, shown(`,"since":"*","secret":"*"`))
		w.do(put(hookS, request)).wants(t, 200, shown(`,"since":"*"`))
		second := w.post(hookS+"/secrets", "").wants(t, 201, `{"secret":"*","old_secret_until":"*"}`)
		status := w.get(hookS).wants(t, 200, shown(`,"old_secret_until":"*","position":"*","lag_ms":0,"gap":0`))
		list := w.get("/v1/webhooks").wants(t, 200, `{"items":[`+shown(`,"old_secret_until":"*"`)+`]}`)
		secrets := []string{first.member(t, "secret"), second.member(t, "secret")}
		for _, secret := range secrets {
			if !strings.HasPrefix(secret, "whsec_") || len(secret) != 50 {
				t.Errorf("%q is no secret", secret)
			}
			if text := status.body + list.body + w.log.String(); strings.Contains(text, secret) {
				t.Error("a secret is shown again, or logged")
			}
		}
		if strings.Contains(w.log.String(), "hidden") || !strings.Contains(w.log.String(), "webhooks.secret") {
			t.Errorf("the log is %s", w.log)
		}
		if secrets[0] == secrets[1] {
			t.Error("the second secret is the first")
		}
		third := w.post(hookS+"/secrets", "").wants(t, 201, `{"secret":"*","old_secret_until":"*"}`)
		refused := w.post(hookS+"/secrets", "")
		if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); refused.status != 429 || refused.member(t, "code") != "too_many_names" || err != nil || wait < 23*3600 {
			t.Errorf("a fourth secret: %d %s", refused.status, refused.body)
		}
		secrets = append(secrets, third.member(t, "secret"))
		if all, err := w.webhooks.Get(t.Context(), "s"); err != nil || !slices.Equal(all.Secrets, []string{secrets[2], secrets[1], secrets[0]}) {
			t.Errorf("%v sign, %v", all, err)
		}
		w.post("/v1/webhooks/none/secrets", "").wants(t, 404, problem(api.CodeNotFound, "there is no webhook none"))
		w.post(hookS+"/secrets", "", "Idempotency-Key: k").wants(t, 400, problem(api.CodeInvalidRequest, "this call takes no Idempotency-Key: its answer is a secret and is not kept"))
		w.del(hookS).wants(t, 204, "")
		w.del(hookS).wants(t, 204, "")
		w.get(hookS).wants(t, 404, problem(api.CodeNotFound, "there is no webhook s"))
	})
}

func TestBadWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	const urlRule = "must be a URL with https and a host, without user info and fragment, at most 2048 bytes"
	with := func(to, members string) call { return put(hookS, `{"url":"`+to+`",`+members+`}`) }
	const good, types = "https://shop.example.com/", `"types":["event.done"]`
	run(t, w, []bad{
		{"an id with a space", put("/v1/webhooks/a%20b", `{"url":"`+good+`",`+types+`}`), 422, broken("id", "identifier", identifierRule)},
		{"no URL", put(hookS, `{`+types+`}`), 422, broken("url", "required", "is required")},
		{"no types", put(hookS, `{"url":"`+good+`"}`), 422, broken("types", "required", "is required")},
		{"user info", with("https://user:secret@shop.example.com/", types), 422, broken("url", "webhook_url", urlRule)},
		{"a fragment", with(good+"#x", types), 422, broken("url", "webhook_url", urlRule)},
		{"another scheme", with("ftp://shop.example.com/", types), 422, broken("url", "webhook_url", urlRule)},
		{"a long URL", with(good+strings.Repeat("x", api.MaxWebhookURL), types), 422, broken("url", "webhook_url", urlRule)},
		{"no TLS", with("http://shop.example.com/", types), 422, broken("url", "https", "must begin with https: http is for the networks in FANFARE_WEBHOOK_NETS, and there are none")},
		{"an unknown type", with(good, `"types":["event.gone"]`), 422, broken("types[0]", "oneof", `"event.gone" is not one of `+strings.Join(api.FactTypes, ", "))},
		{"a type twice", with(good, `"types":["event.done","event.done"]`), 422, broken("types", "unique", "must name each value once")},
		{"no fact", with(good, types+`,"max":0`), 422, broken("max", "min", "must be at least 1")},
		{"many facts", with(good, types+`,"max":101`), 422, broken("max", "max", "must be at most 100")},
		{"another state", with(good, types+`,"state":"away"`), 422, broken("state", "oneof", "must be one of on, off")},
		{"a secret of one's own", with(good, types+`,"secret":"whsec_AAAA"`), 400, badJSON("secret", "is not a field of this call")},
	})
	w.get("/v1/webhooks").wants(t, 200, `{"items":[]}`)
}

// A replay takes a position of the list of facts, and a test answers with what the receiver says.
func TestReplaysAndTestsOfWebhooks(t *testing.T) {
	t.Parallel()
	w := setup(t, func(o *handlers.Options) {
		o.TestWebhook = func(_ context.Context, w *record.Webhook) *api.WebhookAnswer {
			return &api.WebhookAnswer{Status: 299, TookMS: int64(len(w.Secrets))}
		}
	})
	w.do(put(hookS, `{"url":"https://shop.example.com/","types":["event.done"]}`))
	begin := w.get(hookS).member(t, "position")
	now := w.get("/v1/facts?after=now").member(t, "next")
	if begin != now {
		t.Errorf("begins at %s, not %s", begin, now)
	}
	w.post(hookS+"/replay", `{}`).wants(t, 204, "")
	if oldest := w.get(hookS).member(t, "position"); oldest != w.get("/v1/facts").member(t, "next") {
		t.Errorf("begins at %s", oldest)
	}
	for _, after := range []string{now, "now"} {
		w.post(hookS+"/replay", `{"after":"`+after+`"}`).wants(t, 204, "")
		if got := w.get(hookS).member(t, "position"); got != now {
			t.Errorf("after %s it begins at %s, not %s", after, got, now)
		}
	}
	w.post(hookS+"/replay", `{"after":"x"}`).wants(t, 422, broken("after", "cursor", "is not a position that a list gave as next"))
	w.post("/v1/webhooks/none/replay", `{}`).wants(t, 404, problem(api.CodeNotFound, "there is no webhook none"))
	w.post(hookS+"/test", "").wants(t, 200, `{"status":299,"took_ms":1}`)
	w.post("/v1/webhooks/none/test", "").wants(t, 404, problem(api.CodeNotFound, "there is no webhook none"))
}

func TestWebhooksArePaged(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for i := range 5 {
		w.do(put(fmt.Sprintf("/v1/webhooks/h%d", i), `{"url":"https://shop.example.com/","types":["event.done"]}`))
	}
	var ids []string
	for path := "/v1/webhooks?limit=2"; path != ""; {
		a := w.get(path)
		var page api.WebhookList
		storetest.Must(t, json.Unmarshal([]byte(a.body), &page))
		for _, one := range page.Items {
			ids = append(ids, one.ID)
		}
		if path = ""; page.Next != "" {
			path = "/v1/webhooks?limit=2&cursor=" + page.Next
		}
	}
	if !slices.Equal(ids, []string{"h0", "h1", "h2", "h3", "h4"}) {
		t.Errorf("got %v", ids)
	}
}

// H5: the metrics tell for how long a webhook fails.
func TestH5_FailingWebhooksAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "b"} {
		w.do(put("/v1/webhooks/"+id, `{"url":"https://shop.example.com/","types":["event.done"]}`))
	}
	if body := w.get("/metrics").body; !strings.Contains(body, "\nfanfare_webhooks_failing 0\n") || !strings.Contains(body, "\nfanfare_webhooks_failing_seconds 0\n") {
		t.Errorf("got %s", body)
	}
	hook, err := w.webhooks.Get(t.Context(), "b")
	storetest.Must(t, err)
	at, err := w.facts.Ends(t.Context())
	storetest.Must(t, err)
	ok, err := w.webhooks.Note(t.Context(), webhooks.Step{Series: hook.Series, Lane: 1, From: at[1], To: at[1], Answer: &api.WebhookAnswer{Status: 500}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	storetest.Eventually(t, 20*time.Second, "one fails", func() bool {
		body := w.get("/metrics").body
		return strings.Contains(body, "\nfanfare_webhooks_failing 1\n") && !strings.Contains(body, "\nfanfare_webhooks_failing_seconds 0\n")
	})
}
