package handlers_test

import (
	"context"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"fanfare/api"
	"fanfare/console"
	"fanfare/handlers"
	"fanfare/store/apikeys"
	"fanfare/store/record"
	"fanfare/store/storetest"
	"fanfare/store/webhooks"
)

// webhookSecret is the form of a secret.
var webhookSecret = regexp.MustCompile(`whsec_[A-Za-z0-9+/]{43}=`)

// tryingWebhooks answers to tests as a receiver that says 299.
func tryingWebhooks(o *handlers.Options) {
	o.TestWebhook = func(context.Context, *record.Webhook) *api.WebhookAnswer {
		return &api.WebhookAnswer{Status: 299, TookMS: 12}
	}
}

// mustHear notes an answer of a webhook's receiver, which takes nothing.
func (w *world) mustHear(id string, a api.WebhookAnswer) {
	w.t.Helper()
	hook, err := w.webhooks.Get(w.t.Context(), id)
	storetest.Must(w.t, err)
	at, err := w.facts.Ends(w.t.Context())
	storetest.Must(w.t, err)
	ok, err := w.webhooks.Note(w.t.Context(), webhooks.Step{Series: hook.Series, Lane: 1, From: at[1], To: at[1], Answer: &a})
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
}

// The list has what is known of all webhooks, and the page of one has its position, too. Secrets are nowhere.
func TestN23_Webhooks(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.page("/console/webhooks").shows(t, 200, "There is no webhook", `aria-current="page">Webhooks</a>`)
	for _, id := range []string{"gone", "off", "shop"} {
		w.do(put("/v1/webhooks/"+id, `{"url":"https://`+id+`.example.com/h","types":["event.done","dead_letter.created"],"max":7}`))
	}
	w.do(put("/v1/webhooks/off", `{"url":"https://off.example.com/h","types":["event.done"],"state":"off"}`))
	w.post("/v1/webhooks/shop/secrets", "")
	w.mustHear("shop", api.WebhookAnswer{Error: "connection refused", TookMS: 7})
	gone, err := w.webhooks.Get(t.Context(), "gone")
	storetest.Must(t, err)
	storetest.Must(t, w.webhooks.End(t.Context(), gone))
	position := w.get("/v1/webhooks/shop").member(t, "position")
	secrets, err := w.webhooks.Get(t.Context(), "shop")
	storetest.Must(t, err)

	reader, ops := w.login(w.mustKey(api.ScopeOpsRead)), w.login(w.mustKey(api.ScopeOps))
	list := w.page("/console/webhooks", ops).shows(t, 200, `data-refresh="3"`, `href="./webhooks/shop">shop</a>`, "https://shop.example.com/h", "event.done, dead_letter.created",
		`<span class="state on">on</span>`, `<span class="state off">off</span> by its receiver, with 410`, "connection refused after 7 ms, ", "nothing was sent yet", "Make a webhook")
	one := w.page("/console/webhooks/shop", ops).shows(t, 200, `data-refresh="3"`, "at most 7", "<dt>Lag</dt><dd>none</dd>", "connection refused after 7 ms, ", "<dt>Failing since</dt>",
		"An older secret signs until", "<code>"+position+"</code>", `action="./../webhooks/shop/test"`, `href="./../webhooks/shop/replay"`, `href="./../webhooks/shop/off"`, `href="./../webhooks/shop/secret"`, `href="./../webhooks/shop/delete"`,
		`href="./../dead-letters?kind=task&reason=webhook"`)
	one.hides(t, "webhooks/shop/on\"")
	w.page("/console/webhooks/off", ops).shows(t, 200, `href="./../webhooks/off/on"`).hides(t, `webhooks/off/off"`, "Failing since")
	for _, secret := range secrets.Secrets {
		list.hides(t, secret)
		one.hides(t, secret)
	}
	w.page("/console/webhooks/none", ops).shows(t, 404, "there is no webhook none")
	w.page("/console/webhooks/shop/eat", ops).shows(t, 404)
	w.form("/console/webhooks/shop/eat", nil, ops).shows(t, 404)

	w.page("/console/", ops).shows(t, 200, ">Webhooks</a>")
	w.page("/console/", reader).shows(t, 200).hides(t, "Webhooks")
	for _, path := range []string{"webhooks", "webhooks/shop", "webhooks/shop/delete"} {
		w.page("/console/"+path, reader).shows(t, 403, "lacks the scope ops").hides(t, "example.com")
	}
	for _, path := range []string{"webhooks", "webhooks/shop/test", "webhooks/shop/delete"} {
		w.form("/console/"+path, url.Values{"id": {"x"}, "url": {"https://x.example.com/"}, "type": {"event.done"}, "version": {"1"}}, reader).shows(t, 403, "lacks the scope ops")
	}
}

// A webhook is made in the console, which shows its secret once. One that is there is not replaced, and what is refused stays in the form.
func TestN23_MakeAWebhook(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	key := w.mustKey(api.ScopeOps)
	cookie := w.login(key)
	form := url.Values{"id": {" shop "}, "url": {"https://shop.example.com/h"}, "type": {"event.done"}, "max": {"7"}}
	change := func(field, value string) url.Values {
		out := url.Values{}
		for name, values := range form {
			out[name] = values
		}
		out.Set(field, value)
		return out
	}
	for field, wrong := range map[string]struct{ value, says string }{
		"id": {"", "type an id"}, "url": {"ftp://x", "must be a URL with https"}, "type": {"event.gone", "is not one of"}, "max": {"many", "must be a whole number"},
	} {
		w.form("/console/webhooks", change(field, wrong.value), cookie).shows(t, 422, wrong.says, `value="`+change(field, wrong.value).Get("url")+`"`).hides(t, "data-refresh")
	}
	w.form("/console/webhooks", change("max", "0"), cookie).shows(t, 422, "must be at least 1", `value="event.done" checked`)

	made := w.form("/console/webhooks", form, cookie).shows(t, 200, "the only time", "Nothing is missing from", `href="./webhooks/shop"`)
	secret := webhookSecret.FindString(html.UnescapeString(made.body))
	hook, err := w.webhooks.Get(t.Context(), "shop")
	if err != nil || hook.Secrets[0] != secret || hook.Max != 7 || !slices.Equal(hook.Types, []string{"event.done"}) {
		t.Errorf("%+v %v of %s", hook, err, made.body)
	}
	w.form("/console/webhooks", change("url", "https://other.example.com/"), cookie).shows(t, 409, "there is a webhook shop already", "other.example.com").hides(t, secret)
	if hook, err = w.webhooks.Get(t.Context(), "shop"); err != nil || hook.URL != "https://shop.example.com/h" {
		t.Errorf("%+v %v", hook, err)
	}

	asked := w.page("/console/webhooks/shop/secret", cookie).shows(t, 200, "Make another secret?", `action="./../../webhooks/shop/secret"`)
	asked.hides(t, "whsec_")
	second := w.form("/console/webhooks/shop/secret", seenVersion(t, asked), cookie).shows(t, 200, "the only time", "The secret before it signs as well until")
	if hook, err = w.webhooks.Get(t.Context(), "shop"); err != nil || !slices.Equal(hook.Secrets, []string{webhookSecret.FindString(html.UnescapeString(second.body)), secret}) {
		t.Errorf("%+v %v", hook, err)
	}
	id := apikeys.IDOf(key)
	if got, want := w.changes()[1:], []string{"webhooks.put shop " + id, "webhooks.secret shop " + id}; !slices.Equal(got, want) { // the first is the login
		t.Errorf("changes %q, want %q", got, want)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("the log has the secret")
	}
}

// A webhook is tried at once, and changed after a question.
func TestN23_ChangeAWebhook(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, "embedded")
	w := setupOn(t, db, withConsole(db), tryingWebhooks)
	w.do(put("/v1/webhooks/shop", `{"url":"https://shop.example.com/h","types":["event.done"],"max":7}`))
	cookie, bearer := w.login(w.mustKey(api.ScopeOps)), w.bearer(api.ScopeOps)
	get := func(path string) answer { return w.page(path, bearer) }
	before := get("/v1/webhooks/shop")
	w.form("/console/webhooks/shop/test", nil, cookie).shows(t, 200, "The receiver answered", "299 after 12 ms", `href="./../../webhooks/shop"`)
	w.page("/console/webhooks/shop/test", cookie).shows(t, 404)

	for _, change := range []string{"off", "on"} {
		asked := w.page("/console/webhooks/shop/"+change, cookie).shows(t, 200, "Turn this webhook "+change+"?", `method="post" action="./../../webhooks/shop/`+change+`"`)
		if get("/v1/webhooks/shop").member(t, "state") == change {
			t.Errorf("the question turned it %s", change)
		}
		if a := w.form("/console/webhooks/shop/"+change, seenVersion(t, asked), cookie); a.status != 303 || a.header.Get("Location") != "../shop?done=webhook-"+change {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
		w.page("/console/webhooks/shop?done=webhook-"+change, cookie).shows(t, 200, "The webhook is "+change)
		after := get("/v1/webhooks/shop")
		if after.member(t, "state") != change || after.member(t, "url") != before.member(t, "url") || !strings.Contains(after.body, `"max":7`) {
			t.Errorf("%s makes %s of %s", change, after.body, before.body)
		}
	}

	position := before.member(t, "position")
	oldest := get("/v1/facts").member(t, "next")
	asked := w.page("/console/webhooks/shop/replay", cookie).shows(t, 200, "Send facts again?", `value="`+position+`"`)
	replay := func(from, after string) answer {
		return w.form("/console/webhooks/shop/replay", url.Values{"from": {from}, "after": {after}, "version": seenVersion(t, asked)["version"]}, cookie)
	}
	for _, row := range []struct{ from, after, want string }{{"oldest", "", oldest}, {"now", "", position}, {"oldest", position, oldest}, {"position", " " + position + " ", position}} {
		a := replay(row.from, row.after)
		if got := get("/v1/webhooks/shop").member(t, "position"); a.status != 303 || a.header.Get("Location") != "../shop?done=replayed" || got != row.want {
			t.Errorf("%d, from %s it goes on at %s, want %s", a.status, row.from, got, row.want)
		}
	}
	replay("position", "x").shows(t, 422, "is not a position")
	for _, from := range []string{"position", ""} {
		replay(from, " ").shows(t, 422, "type a position")
	}

	asked = w.page("/console/webhooks/shop/delete", cookie).shows(t, 200, "Delete this webhook?", "https://shop.example.com/h")
	if a := w.form("/console/webhooks/shop/delete", seenVersion(t, asked), cookie); a.status != 303 || a.header.Get("Location") != "../../webhooks?done=webhook-deleted" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	w.page("/console/webhooks?done=webhook-deleted", cookie).shows(t, 200, "The webhook is gone", "There is no webhook")
	for _, change := range []string{"off", "delete", "secret", "test", "replay"} {
		w.form("/console/webhooks/shop/"+change, url.Values{"from": {"oldest"}, "version": {"1"}}, cookie).shows(t, 404, "there is no webhook shop")
	}
}

// seenVersion are the fields of a form that a question about a webhook has.
func seenVersion(t testing.TB, question answer) url.Values {
	t.Helper()
	found := regexp.MustCompile(`name="version" value="([0-9]+)"`).FindStringSubmatch(question.body)
	if found == nil {
		t.Fatalf("the question has no version: %s", question.body)
	}
	return url.Values{"version": found[1:]}
}

// A webhook that was changed after an operator saw it is left as it is, and the page asks again about what is there now.
func TestN23_AWebhookThatWasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	cookie := w.login(w.mustKey(api.ScopeOps))
	bearer := w.bearer(api.ScopeOps)
	putHost := func(host string) {
		t.Helper()
		c := put("/v1/webhooks/shop", `{"url":"https://`+host+`.example.com/","types":["event.done"]}`)
		if a := w.do(c.with(bearer)); a.status >= 300 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	fields := func(question answer) url.Values {
		form := seenVersion(t, question)
		form.Set("from", "oldest")
		return form
	}
	for i, change := range []string{"off", "on", "replay", "secret", "delete"} {
		putHost(fmt.Sprint("first", i))
		question := "/console/webhooks/shop/" + change
		asked := w.page(question, cookie).shows(t, 200, `method="post"`)
		asked.hides(t, "Nothing was done")
		// One that was deleted and made again is another one, too, also with what it had before.
		for _, host := range []string{"other", "again", "again"} {
			if host == "again" {
				w.do(call{method: "DELETE", path: "/v1/webhooks/shop"}.with(bearer)).wants(t, 204, "")
			}
			putHost(host)
			before, logged := w.page("/v1/webhooks/shop", bearer), len(w.changes())
			again := w.form(question, fields(asked), cookie).shows(t, 412, "Nothing was done", "https://"+host+".example.com/", `action="./../../webhooks/shop/`+change+`"`)
			w.form(question, url.Values{"from": {"oldest"}}, cookie).shows(t, 422, "the form has no version")
			if after := w.page("/v1/webhooks/shop", bearer); after.body != before.body || len(w.changes()) != logged {
				t.Errorf("%s: %s became %s", change, before.body, after.body)
			}
			asked = again
		}
		if a := w.form(question, fields(asked), cookie); a.status >= 400 {
			t.Errorf("%s, asked again: %d %s", change, a.status, a.body)
		}
	}
}

// Of several operators who make one webhook in the same moment one makes it, and the others are told that it is there.
func TestN23_OneOfSeveralOperatorsMakesAWebhook(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	cookie := w.login(w.mustKey(api.ScopeOps))
	answers := make([]answer, 6)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			answers[i] = w.form("/console/webhooks", url.Values{"id": {"shop"}, "url": {fmt.Sprintf("https://h%d.example.com/", i)}, "type": {"event.done"}}, cookie)
		})
	}
	all.Wait()
	hook, err := w.webhooks.Get(t.Context(), "shop")
	storetest.Must(t, err)
	made := 0
	for i, a := range answers {
		if a.status == 200 {
			made++
			a.shows(t, 200, "the only time")
			if hook.URL != fmt.Sprintf("https://h%d.example.com/", i) || webhookSecret.FindString(html.UnescapeString(a.body)) != hook.Secrets[0] {
				t.Errorf("%+v is on record after %s", hook, a.body)
			}
			continue
		}
		a.shows(t, 409, "there is a webhook shop already", fmt.Sprintf("https://h%d.example.com/", i)).hides(t, "whsec_")
	}
	if changes := w.changes(); made != 1 || len(changes) != 2 { // the first is the login
		t.Errorf("%d have made it: %q", made, changes)
	}
}

// A console that only shows has no buttons for webhooks.
func TestN23_ReadOnly(t *testing.T) {
	t.Parallel()
	w := setupConsole(t, func(o *console.Options) { o.Mode = console.Read })
	w.do(put("/v1/webhooks/shop", `{"url":"https://shop.example.com/h","types":["event.done"]}`))
	for _, path := range []string{"webhooks", "webhooks/shop", "webhooks/shop/replay", "webhooks/shop/secret", "webhooks/shop/delete"} {
		w.page("/console/"+path).shows(t, 200, "only shows").hides(t, `method="post"`, `class="button"`)
	}
	w.form("/console/webhooks/shop/delete", url.Values{}).shows(t, 403, "FANFARE_CONSOLE=read")
}

// An operator makes a webhook with Chromium, tries it, and deletes it, unless somebody has changed it meanwhile or it is there already.
func TestN23_AnOperatorMakesAWebhook(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	db := storetest.Open(t, "embedded")
	w := setupOn(t, db, withConsole(db), tryingWebhooks)
	b := mustBrowser(t, w.url)
	b.open(t, w.url+"/console/webhooks", "main")
	b.login(t, w.mustKey(api.ScopeOps))
	b.mainHas(t, "There is no webhook")
	b.write(t, "#id", "shop")
	b.write(t, "#url", "https://shop.example.com/h")
	b.click(t, `input[value="event.done"]`)
	b.click(t, "main button.main")
	b.mainHas(t, "whsec_")
	b.audited(t, "the secret")
	b.click(t, `main a[href$="webhooks/shop"]`)
	b.mainHas(t, "How far it has come")
	b.audited(t, "the webhook")
	w.mustHear("shop", api.WebhookAnswer{Status: 503})
	b.mainHas(t, "Failing since") // without a click
	b.click(t, `form[action$="test"] button`)
	b.mainHas(t, "299 after 12 ms")
	b.audited(t, "the test")
	b.click(t, `main a[href$="webhooks/shop"]`)
	b.mainHas(t, "How far it has come")
	b.click(t, `a[href$="shop/replay"]`)
	b.mainHas(t, "Send facts again?")
	b.audited(t, "the question")
	b.click(t, `input[value="oldest"]`)
	b.click(t, "main button.main")
	b.mainHas(t, "How far it has come")
	b.click(t, `a[href$="shop/delete"]`)
	b.mainHas(t, "Delete this webhook?")
	if a := w.do(put("/v1/webhooks/shop", `{"url":"https://other.example.com/h","types":["event.done"]}`).with(w.bearer(api.ScopeOps))); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	b.click(t, "main button.danger")
	b.mainHas(t, "Nothing was done")
	b.mainHas(t, "https://other.example.com/h")
	b.audited(t, "the question again")
	b.open(t, w.url+"/console/webhooks", "main")
	b.write(t, "#id", "shop")
	b.write(t, "#url", "https://third.example.com/h")
	b.click(t, `input[value="event.done"]`)
	b.click(t, "main button.main")
	b.mainHas(t, "there is a webhook shop already")
	b.audited(t, "the refusal")
	if hook, err := w.webhooks.Get(t.Context(), "shop"); err != nil || hook.URL != "https://other.example.com/h" {
		t.Errorf("%+v %v", hook, err)
	}
	b.open(t, w.url+"/console/webhooks/shop/delete", "main")
	b.click(t, "main button.danger")
	b.mainHas(t, "There is no webhook")
	for _, complaint := range b.complaints() {
		if refused := regexp.MustCompile(`status of (401|409|412)`); !refused.MatchString(complaint) { // the browser tells of each page that is a refusal
			t.Error(complaint)
		}
	}
}
