package handlers_test

import (
	"context"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/console"
	"fanfare/handlers"
	"fanfare/store/apikeys"
	"fanfare/store/apps"
	"fanfare/store/storetest"
)

// hostile are texts that try to become markup, a script, an attribute or a part of an address.
var hostile = []string{
	`<script>window.hostile=1</script>`, `"><img src=x onerror=window.hostile=1>`, `' onmouseover='window.hostile=1`, `</title></textarea><svg onload=window.hostile=1>`,
	`javascript:window.hostile=1`, `{{.}}`, "\u202e\u0000&lt;b&gt;",
}

// Dead letters are shown in groups and one by one, and some of them are retried or deleted after a
// confirmation that names their number.
func TestN1_DeadLetters(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	mustDieAs(t, w.notifications, "photo.shared", "shop/production", "BadTopic")
	mustDieAs(t, w.notifications, "photo.shared", "shop/production", "BadTopic")
	mustDie(t, w.jobs, 3)
	ids := deadIDs(w.get("/v1/dead-letters"))
	cookie := w.login(w.mustKey(api.ScopeOps))
	const group = "dead-letters?app=shop%2Fproduction&kind=notification&reason=BadTopic&type=photo.shared"
	all := w.page("/console/dead-letters", cookie).shows(t, 200, "Groups", group, `"n": 0`, "it would not")
	some := w.page("/console/"+group, cookie).shows(t, 200, "BadTopic")
	for _, id := range ids {
		if name := `value="` + id + `"`; !strings.Contains(all.body, name) || strings.Contains(some.body, name) != strings.HasPrefix(id, "notifications.") {
			t.Errorf("%s is on the wrong page", id)
		}
	}
	w.page("/console/dead-letters?kind=none", cookie).shows(t, 422, "kind")
	w.page("/console/dead-letters/ask?action=retry", cookie).shows(t, 422, "at least one")
	w.page("/console/dead-letters/ask?action=eat&id=a", cookie).shows(t, 404)
	w.page("/console/dead-letters/ask?action=delete&id="+ids[0]+"&id="+ids[1], cookie).shows(t, 200, "Delete 2 dead letters?", ids[0], ids[1])
	if left := deadIDs(w.page("/v1/dead-letters", w.bearer(api.ScopeOps))); len(left) != 5 {
		t.Errorf("asking changed something: %q", left)
	}
	change := func(action string, ids ...string) answer {
		return w.form("/console/dead-letters", url.Values{"once": {action + ids[0]}, "action": {action}, "id": ids}, cookie)
	}
	change("delete", ids[0], ids[1]).shows(t, 200, "2 deleted.")
	change("retry", ids[1], ids[2]).shows(t, 200, "1 queued again. 1 were gone already.")
	if left := deadIDs(w.page("/v1/dead-letters", w.bearer(api.ScopeOps))); !slices.Equal(left, ids[3:]) {
		t.Errorf("left %q of %q", left, ids)
	}
	w.page("/console/dead-letters", w.login(w.mustKey(api.ScopeOpsRead))).shows(t, 200).hides(t, "checkbox", "Retry the")
	if first := w.page("/console/dead-letters?kind=task", cookie); strings.Contains(first.body, "Groups") {
		t.Error("a filtered list has groups")
	}
}

// hidden are the fields of a page's form that the visitor does not see.
func (a answer) hidden() url.Values {
	fields := url.Values{}
	for _, found := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		fields.Add(found[1], html.UnescapeString(found[2]))
	}
	return fields
}

// All letters that fit are retried or deleted after a confirmation that names their number. If there are
// more by then, the number is asked again, and the operation has a page.
func TestN1_AllDeadLetters(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	for range 3 {
		mustDieAs(t, w.notifications, "photo.shared", "shop/production", "BadTopic")
	}
	mustDieAs(t, w.notifications, "photo.shared", "shop/fcm", "BadTopic")
	mustDie(t, w.jobs, 2)
	w.mustWorkLetters()
	key := w.mustKey(api.ScopeOps)
	cookie, bearer := w.login(key), "Authorization: Bearer "+key
	left := func() int { return len(deadIDs(w.page("/v1/dead-letters", bearer))) }
	// begun follows a form that was sent to the page of the operation.
	begun := func(a answer, action string, matched int) {
		t.Helper()
		id, found := strings.CutPrefix(a.header.Get("Location"), "../operations/")
		if a.status != 303 || !found {
			t.Fatalf("%d to %q: %s", a.status, a.header.Get("Location"), a.body)
		}
		line := regexp.MustCompile(`"msg":"change","action":"dead_letters.` + action + `","target":"` + id + `","key":"` + apikeys.IDOf(key) + `"`)
		if n := len(line.FindAllString(w.log.String(), -1)); n != 1 {
			t.Errorf("%d lines of the log have the change", n)
		}
		storetest.Eventually(t, time.Minute, "the operation is done", func() bool {
			return strings.Contains(w.page("/console/operations/"+id, cookie).body, `<span class="state done">`)
		})
		w.page("/console/operations/"+id, cookie).shows(t, 200, "dead_letters."+action, fmt.Sprintf("<dt>Letters</dt><dd>%d</dd>", matched), "<dt>Left</dt><dd>0</dd>").hides(t, "data-refresh", "could not be retried")
	}

	const of, ask = "?app=shop&kind=notification&reason=BadTopic", "/console/dead-letters/all"
	w.page("/console/dead-letters"+of, cookie).shows(t, 200, "Retry all that fit", `<input type="hidden" name="app" value="shop">`)
	w.page("/console/dead-letters", cookie).shows(t, 200, "Delete all</button>")
	for query, title := range map[string]string{
		of + "&action=retry": "Retry 4 dead letters?", "?app=shop/fcm&action=delete": "Delete 1 dead letter?", "?action=delete": "Delete 6 dead letters?",
		"?kind=task&action=retry": "Retry 2 dead letters?", "?type=photo.shared&action=retry": "Retry 4 dead letters?", "?app=sho&action=retry": "Retry 0 dead letters?",
	} {
		a := w.page(ask+query, cookie).shows(t, 200, title)
		if form := strings.Contains(a.body, `method="post" action="./../dead-letters/all"`); form == strings.Contains(title, " 0 ") {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	w.page(ask+"?action=eat", cookie).shows(t, 404)
	w.page(ask+of+"&action=retry", w.login(w.mustKey(api.ScopeOpsRead))).shows(t, 200, "Retry 4").hides(t, `method="post" action="./../dead-letters/all"`)
	form := w.page(ask+of+"&action=delete", cookie).hidden()
	for field, value := range map[string]string{"before": "", "expect": "many", "action": "eat"} {
		wrong := maps.Clone(form)
		wrong.Set(field, value)
		if a := w.form(ask, wrong, cookie); a.status < 400 || a.status >= 500 {
			t.Errorf("%s %q: %d %s", field, value, a.status, a.body)
		}
	}
	w.form(ask, form, w.login(w.mustKey(api.ScopeOpsRead))).shows(t, 403, "lacks the scope ops")

	t.Run("one that dies after the question is left", func(t *testing.T) {
		mustDieAs(t, w.notifications, "photo.shared", "shop/production", "BadTopic")
		first := w.form(ask, form, cookie)
		if again := w.form(ask, form, cookie); again.header.Get("Location") != first.header.Get("Location") {
			t.Errorf("sent twice, it begins %v", again.header)
		}
		begun(first, "delete", 4)
		if n := left(); n != 3 {
			t.Errorf("%d are left", n)
		}
	})
	t.Run("more than the visitor agreed to", func(t *testing.T) {
		form := w.page(ask+"?kind=task&action=delete", cookie).hidden()
		form.Set("expect", "1")
		again := w.form(ask, form, cookie).shows(t, 409, "Nothing was done", "now they are 2", "Delete 2 dead letters?")
		if n := left(); n != 3 {
			t.Errorf("%d are left", n)
		}
		form = again.hidden()
		begun(w.form(ask, form, cookie), "delete", 2)
	})
	t.Run("all", func(t *testing.T) {
		begun(w.form(ask, w.page(ask+"?action=retry", cookie).hidden(), cookie), "retry", 1)
		if s, err := w.notifications.Stats(t.Context()); err != nil || s.Depth != 1 || left() != 0 {
			t.Errorf("%d are queued, %d are left, %v", s.Depth, left(), err)
		}
		w.page(ask+"?action=delete", cookie).shows(t, 200, "Delete 0 dead letters?")
		w.page("/console/dead-letters", cookie).shows(t, 200).hides(t, "Delete all")
	})
	w.page("/console/operations/unknown", cookie).shows(t, 404)
}

// bearer is the header with a new key.
func (w *world) bearer(scopes ...api.Scope) string {
	w.t.Helper()
	return "Authorization: Bearer " + w.mustKey(scopes...)
}

// With FANFARE_CONSOLE_PAYLOADS=off no page has what a dead letter or a job contains.
func TestN4_HiddenPayloads(t *testing.T) {
	t.Parallel()
	w := setupConsole(t, func(o *console.Options) { o.HidePayloads = true })
	mustDie(t, w.jobs, 1)
	w.page("/console/dead-letters").shows(t, 200, "Payloads are hidden").hides(t, "&#34;n&#34;")
	w.page("/console/jobs/"+w.enqueue(t, `{"type":"mail","payload":"secret"}`)).shows(t, 200, "mail", "Payloads are hidden").hides(t, "secret")
}

// Events are listed and found, and their reports are for keys that may read them.
func TestN1_Events(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	first := w.post("/v1/events", anEvent).member(t, "id")
	second := w.post("/v1/events", strings.Replace(anEvent, "photo.shared", "other", 1)).member(t, "id")
	cookie := w.login(w.mustKey(api.ScopeOpsRead, api.ScopePush))
	w.page("/console/events", cookie).shows(t, 200, first, second, "queued", `href="./events/`+first)
	w.page("/console/events?type=other", cookie).shows(t, 200, second).hides(t, first)
	w.page("/console/events?state=done", cookie).shows(t, 200, "No such event").hides(t, first)
	w.page("/console/events?state=gone", cookie).shows(t, 422, "state")
	w.page("/console/events/"+first, cookie).shows(t, 200, "photo.shared", "Recipients", `data-refresh="3"`)
	w.page("/console/events/unknown", cookie).shows(t, 404)
	if a := w.page("/console/events/"+first+"/why?user=bob", cookie); a.status != 303 || a.header.Get("Location") != "./users/bob" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	w.page("/console/events/"+first+"/users/bob", cookie).shows(t, 200, "photo.shared", "Not yet: the event is queued.", "The event is not over", "Opted out", "false")
	w.page("/console/events/unknown/users/bob", cookie).shows(t, 404)
	if a := w.page("/console/find-event?id=+"+first, cookie); a.status != 303 || a.header.Get("Location") != "./events/"+first {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	w.page("/console/events", reader).shows(t, 200, first).hides(t, `href="./events/`, ">Users</a>", ">Sales</a>")
	w.page("/console/events/"+first, reader).shows(t, 403, "lacks the scope push")
	w.page("/console/events/"+first+"/users/bob", reader).shows(t, 403, "scope push")
}

// An event is cancelled from its page, after a question. One that is over has no button.
func TestN1_CancelAnEvent(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	id, other := w.post("/v1/events", anEvent).member(t, "id"), w.post("/v1/events", anEvent).member(t, "id")
	cookie, path := w.login(w.mustKey(api.ScopeOpsRead, api.ScopePush)), "/console/events/"
	w.page(path+id, cookie).shows(t, 200, `href="./../events/`+id+`/cancel"`, "queued")
	w.page(path+id+"/cancel", cookie).shows(t, 200, "Cancel this event?", id, "photo.shared", `method="post" action="./../../events/`+id+`/cancel"`)
	w.page(path+id, cookie).shows(t, 200, "queued") // a question changes nothing
	for range 2 {                                   // as when the form is sent twice
		if a := w.form(path+id+"/cancel", nil, cookie); a.status != 303 || a.header.Get("Location") != "../"+id+"?done=cancelled" {
			t.Errorf("%d to %q", a.status, a.header.Get("Location"))
		}
	}
	w.page(path+id+"?done=cancelled", cookie).shows(t, 200, "The event is cancelled", `class="state cancelled"`).hides(t, "/cancel\"")
	w.page(path[:len(path)-1]+"?state=cancelled", cookie).shows(t, 200, id)
	w.page(path+"unknown/cancel", cookie).shows(t, 404)
	w.form(path+"unknown/cancel", nil, cookie).shows(t, 404)
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	w.form(path+other+"/cancel", nil, reader).shows(t, 403, "lacks the scope push")
	changes := slices.DeleteFunc(w.changes(), func(line string) bool { return strings.HasPrefix(line, "console.login ") })
	if len(changes) != 1 || !regexp.MustCompile(`^events\.cancel `+id+` [a-z0-9]+$`).MatchString(changes[0]) {
		t.Errorf("N4: changes %q", changes)
	}
}

// A user's page has the settings and the devices, and sends a test notification to one of them.
func TestN1_Users(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
	w.put("/v1/users/bob/opt-outs/spam", "")
	w.put("/v1/users/bob/mutes/album:42", "")
	w.put("/v1/users/bob/badge", `{"count":4711}`)
	cookie := w.login(w.mustKey(api.ScopeOpsRead, api.ScopePush))
	if a := w.page("/console/users?user=a:b@c", cookie); a.status != 303 || a.header.Get("Location") != "./users/a:b@c" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	w.page("/console/users", cookie).shows(t, 200, "User")
	w.page("/console/users/bob", cookie).shows(t, 200, token, "com.example.app", "active", "spam", "album:42", "Send a test", "<p>4711, since <time")
	w.page("/console/users/nobody", cookie).shows(t, 200, "no device")
	w.page("/console/users/a%20b", cookie).shows(t, 422, "user")
	w.page("/console/users/bob", w.login(w.mustKey(api.ScopeOpsRead))).shows(t, 403, "lacks the scope push").hides(t, token)
	test := func() string {
		a := w.form("/console/users/bob/devices/"+token+"/test", url.Values{"once": {"a"}}, cookie)
		if a.status != 303 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a.header.Get("Location")
	}
	to := test()
	if again := test(); again != to {
		t.Errorf("sent twice, it leads to %q and %q", to, again)
	}
	at, err := url.Parse("http://h/console/users/bob/devices/x/test")
	storetest.Must(t, err)
	report, err := at.Parse(to)
	storetest.Must(t, err)
	w.page(report.RequestURI(), cookie).shows(t, 200, "fanfare.test", "was accepted")
	w.form("/console/users/eve/devices/"+token+"/test", url.Values{}, cookie).shows(t, 404)
}

// The form of an event shows what devices would get, sends it once, and keeps what was written if it is refused.
func TestN1_AnEventFromTheConsole(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	admin := w.mustKey(api.ScopeAdmin)
	cookie, auth := w.login(admin), "Authorization: Bearer "+admin
	if a := w.do(put("/v1/event-types/photo.shared", `{"title":"New photo","body":"in {{.data.album}}"}`).with(auth)); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.page("/console/event-types", cookie).shows(t, 200, `href="./send?type=photo.shared"`)
	w.page("/console/events", cookie).shows(t, 200, `href="./send"`)
	w.page("/console/users/bob", cookie).shows(t, 200, `href="./../send?user=bob"`)
	w.page("/console/send?type=photo.shared&user=bob", cookie).shows(t, 200, `value="photo.shared"`, `value="bob"`)
	form := func(do, data, once string) url.Values {
		return url.Values{"type": {"photo.shared"}, "user": {"bob"}, "title": {""}, "body": {""}, "data": {data}, "do": {do}, "once": {once}}
	}
	w.form("/console/send", form("show", `{"album":"Sum<mer"}`, "a"), cookie).shows(t, 200, "What devices would get", "in Sum", "of 4\u202f096 bytes").hides(t, "Sum<mer")
	w.form("/console/send", form("send", `{"album":1}`, "b"), cookie).shows(t, 422, "data must be a JSON object", `value="photo.shared"`, `{"album":1}`)
	w.form("/console/send", form("send", "", "c"), cookie).shows(t, 422, "data.album", `value="bob"`)
	w.form("/console/send", url.Values{"type": {"x"}, "user": {"a b"}, "title": {"t"}, "do": {"send"}}, cookie).shows(t, 422, "audience.users")
	first := w.form("/console/send", form("send", `{"album":"Summer"}`, "d"), cookie)
	again := w.form("/console/send", form("send", `{"album":"Summer"}`, "d"), cookie)
	to := first.header.Get("Location")
	if first.status != 303 || again.header.Get("Location") != to {
		t.Fatalf("%d to %q, then %d to %q", first.status, to, again.status, again.header.Get("Location"))
	}
	w.page("/console/"+to, cookie).shows(t, 200, "The event was accepted", "photo.shared")
	id := strings.TrimSuffix(strings.TrimPrefix(to, "events/"), "?done=sent")
	if line := `"msg":"change","action":"events.send","target":"` + id + `","key":"` + apikeys.IDOf(admin) + `"`; !strings.Contains(w.log.String(), line) {
		t.Errorf("no line %s in %s", line, w.log.String())
	}
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	w.page("/console/events", reader).shows(t, 200).hides(t, "./send")
	w.form("/console/send", form("send", `{"album":"Summer"}`, "e"), reader).shows(t, 403, "lacks the scope push")
}

// The page of a chat shows who has read how far, and no text.
func TestN1_Chats(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"],"message":"a secret"}`).member(t, "epoch")
	w.post("/v1/chats/team/messages", `{"sender":"alice","text":"another secret"}`).member(t, "id")
	w.post("/v1/users/bob/messages/ack", `{"acks":{"team":1}}`).wants(t, 200, `{"acked":{"team":1}}`)
	cookie := w.login(w.mustKey(api.ScopeOpsRead, api.ScopeChat, api.ScopePush))
	if a := w.page("/console/chats?chat=team", cookie); a.status != 303 || a.header.Get("Location") != "./chats/team" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
	w.page("/console/chats", cookie).shows(t, 200, "<h1>Chats</h1>", ">Chat</label>")
	page := w.page("/console/chats/team", cookie).shows(t, 200, "<dt>Members</dt><dd>2</dd>", "<dt>Last message</dt><dd>2</dd>",
		`users/bob">bob</a></th><td class="n">1</td><td class="n">1</td>`)
	page.hides(t, "secret")
	w.page("/console/users/bob", cookie).shows(t, 200, `chats/team">team</a></th><td class="n">1</td>`).hides(t, "Nothing is on record")
	w.page("/console/chats/nobody", cookie).shows(t, 404)
	reader := w.login(w.mustKey(api.ScopeOpsRead, api.ScopePush))
	w.page("/console/chats/team", reader).shows(t, 403, "lacks the scope chat")
	w.page("/console/users/bob", reader).shows(t, 200).hides(t, "team", "Chats")
	w.page("/console/users/nobody", cookie).shows(t, 200, "Nothing is on record")
}

// A sale's stock is a chart and a table, and is changed only if nobody else changed the sale meanwhile.
// Event types show the texts that decide what phones show, and topics tell a misspelt one by its members.
func TestN1_EventTypesAndTopics(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	admin := w.mustKey(api.ScopeAdmin)
	cookie := w.login(admin)
	auth := "Authorization: Bearer " + admin
	w.page("/console/event-types", cookie).shows(t, 200, "There is no event type")
	w.page("/console/topics", cookie).shows(t, 200, "No topic has a member")
	photo := put("/v1/event-types/photo.shared", `{"title":"New <b>photo</b>","body":"{{.actor}} shared","topic":"com.example.app","localized":{"de":{"title":"Neues Foto"}}}`)
	if a := w.do(photo.with(auth)); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	w.do(put("/v1/users/bob/topics/nwes", "").with(auth)).wants(t, 204, "")
	w.do(put("/v1/topics/news", `{"open":true}`).with(auth)).wants(t, 204, "")
	types := w.page("/console/event-types", cookie).shows(t, 200, `href="./events?type=photo.shared"`, "New <b>photo</b>", "{{.actor}} shared", "<td>de </td>", "<td>alert</td>", "com.example.app")
	types.hides(t, "New <b>photo</b>")
	w.page("/console/topics", cookie).shows(t, 200, `>news</th><td>yes</td><td class="n">0<`, `>nwes</th><td>no</td><td class="n">1<`)
	reader := w.login(w.mustKey(api.ScopeOpsRead))
	w.page("/console/topics", reader).shows(t, 200, ">nwes<").hides(t, "event-types")
	w.page("/console/event-types", reader).shows(t, 403, "lacks the scope push")
	w.page("/console/users/nobody", cookie).shows(t, 200, "Nothing is on record about a user of this name")
	w.do(put("/v1/users/bob/opt-outs/news", "").with(auth)).wants(t, 204, "")
	w.page("/console/users/bob", cookie).shows(t, 200).hides(t, "Nothing is on record")
}

func TestN1_Sales(t *testing.T) {
	t.Parallel()
	w := setupConsole(t)
	w.workSales()
	w.put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":4},{"sku":"hat","stock":0}]`, `"hold_ms":60000`)).member(t, "id")
	held := w.post("/v1/sales/spring/reservations", `{"user":"u","lines":[{"sku":"shoe","quantity":1}]}`).member(t, "id")
	w.post("/v1/sales/spring/reservations/"+held+"/confirm", "")
	w.post("/v1/sales/spring/reservations", `{"user":"u","lines":[{"sku":"shoe","quantity":2}]}`)
	cookie := w.login(w.mustKey(api.ScopeOpsRead, api.ScopeSales))
	w.page("/console/sales", cookie).shows(t, 200, `href="./sales/spring"`, "open")
	w.page("/console/sales?state=ended", cookie).shows(t, 200, "No such sale").hides(t, "spring")
	page := w.page("/console/sales/spring", cookie).shows(t, 200,
		`<rect class="fill-1" x="0" y="22" width="225" height="14"/><rect class="fill-2" x="225" y="22" width="450" height="14"/><rect class="fill-3" x="675" y="22" width="225" height="14"/>`,
		`<th scope="row">shoe</th><td class="n">4</td><td class="n">1</td><td class="n">2</td><td class="n">1</td>`)
	add := func(once string) answer {
		return w.form("/console/sales/spring/stock", url.Values{"once": {once}, "sku": {"hat"}, "delta": {" 5"}, "version": seenVersion(t, page)["version"]}, cookie)
	}
	if a := add("a"); a.status != 303 || a.header.Get("Location") != "../spring?done=stock" {
		t.Errorf("%d %q %s", a.status, a.header.Get("Location"), a.body)
	}
	add("b").shows(t, 412, "The version has changed")
	w.form("/console/sales/spring/stock", url.Values{"sku": {"hat"}, "delta": {"5"}}, cookie).shows(t, 422, "no version")
	w.form("/console/sales/spring/stock", url.Values{"sku": {"hat"}, "delta": {"many"}, "version": {"2"}}, cookie).shows(t, 422, "whole number")
	fields := seenVersion(t, w.page("/console/sales/spring", cookie))
	fields["sku"], fields["delta"] = []string{"hat"}, []string{"-9"}
	w.form("/console/sales/spring/stock", fields, cookie).shows(t, 409)
	w.page("/console/sales/spring?done=stock", cookie).shows(t, 200, `<th scope="row">hat</th><td class="n">5</td>`, "The stock was changed")
	w.page("/console/sales/none", cookie).shows(t, 404)
	w.page("/console/sales/spring", w.login(w.mustKey(api.ScopeOpsRead))).shows(t, 403, "lacks the scope sales")
}

// setupHostile opens an open server on which every text that somebody outside can set is hostile. The
// first pages have such texts from elsewhere alone, the others also in their address.
func setupHostile(t *testing.T) (w *world, pages []string, plain int) {
	t.Helper()
	at := api.AtMillis(1767366245000)
	var paused []api.App
	for _, text := range hostile {
		paused = append(paused, api.App{App: text, Topic: text, Platform: "fcm", State: api.AppPaused, Reason: text, Since: &at, Waiting: 12345})
	}
	db := storetest.Open(t, "embedded")
	w = setupOn(t, db, withConsole(db), func(o *handlers.Options) {
		o.Apps = func(context.Context) ([]api.App, error) { return paused, nil }
		for _, text := range hostile {
			o.About.Settings = append(o.About.Settings, api.Setting{Name: "FANFARE_X", Value: text})
		}
		o.Ready = func(context.Context) api.Readiness {
			r := api.Readiness{Ready: true, Notes: hostile}
			for _, text := range hostile {
				r.Dependencies = append(r.Dependencies, api.Dependency{Name: text, State: "degraded", Detail: text})
			}
			return r
		}
	})
	w.workSales()
	for _, text := range hostile {
		mustDieAs(t, w.notifications, text, text, text)
		storetest.Must(t, func() error { _, err := apps.New(db, apps.Options{}).PauseApp(t.Context(), text, text); return err }())
	}
	w.put("/v1/users/bob/devices/"+token, `{"platform":"apns","topic":"com.example.app","environment":"sandbox"}`)
	w.put("/v1/users/bob/opt-outs/spam", "")
	w.put("/v1/users/bob/mutes/album:42", "")
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`).member(t, "epoch")
	w.put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":4},{"sku":"hat","stock":0}]`, `"hold_ms":60000`))
	w.do(put("/v1/webhooks/shop", `{"url":"https://shop.example.com/?\"><img>","types":["event.done"]}`))
	w.mustHear("shop", api.WebhookAnswer{Error: strings.Join(hostile, " ")})
	event := w.post("/v1/events", anEvent).member(t, "id")
	running, dead := w.hostileJobs(t)
	failed := w.mustFail(hostile...)
	pages = []string{"", "history", "history?minutes=60", "events", "events/" + event, "events/" + failed, "events/" + failed + "/failed", "events?failed=true", "operations", "events/" + event + "/users/bob", "events/" + event + "/cancel", "users", "users/bob", "chats", "chats/team", "send", "jobs", "queues/q", "queues/q/pause", "jobs/" + running, "jobs/" + running + "/cancel", "jobs/" + dead, "dead-letters", "dead-letters/all?action=retry", "webhooks", "webhooks/shop", "webhooks/shop/replay", "webhooks/shop/delete", "sales", "sales/spring", "apps", "servers", "keys", "about", "nowhere", "events/unknown"}
	plain = len(pages)
	for _, text := range hostile {
		q := url.QueryEscape(text)
		pages = append(pages, "dead-letters?reason="+q+"&app="+q, "events?type="+q, "users/"+url.PathEscape(text), "dead-letters/ask?action=retry&id="+q, "dead-letters/all?action=delete&reason="+q+"&app="+q, "keys?cursor="+q, "?done="+q,
			"send?type="+q+"&user="+q, "chats/"+url.PathEscape(text),
			"queues/"+url.PathEscape(text), "jobs/"+url.PathEscape(text), "webhooks/"+url.PathEscape(text), "webhooks/"+url.PathEscape(text)+"/off", "dead-letters?kind=job&queue="+q)
	}
	return w, pages, plain
}

// tag is a tag of HTML.
var tag = regexp.MustCompile(`<[a-zA-Z/!][^>]*>`)

// No text that somebody outside can set becomes markup, on any page.
func TestN6_NamesStayText(t *testing.T) {
	t.Parallel()
	w, pages, _ := setupHostile(t)
	for _, path := range pages {
		a := w.page("/console/" + path)
		if a.status >= 500 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %d", path, a.status)
		}
		for _, found := range tag.FindAllString(a.body, -1) {
			name := strings.ToLower(strings.Trim(strings.Fields(found)[0], "</>"))
			if name == "img" || name == "b" || regexp.MustCompile(`(?i)\son[a-z]+\s*=`).MatchString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(found, `""`)) ||
				regexp.MustCompile(`(?i)(href|action|src)="\s*javascript:`).MatchString(found) ||
				name == "script" && !strings.Contains(found, "/script") && !strings.Contains(found, `script.js" defer>`) {
				t.Errorf("%s has the tag %s", path, found)
			}
		}
	}
	if a := w.form("/console/keys", url.Values{"name": {hostile[0]}, "scope": {hostile[0]}, "expires": {hostile[1]}}); strings.Contains(a.body, "<script>") || a.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.status, a.body)
	}
	made := w.form("/console/keys", url.Values{"name": {hostile[1]}, "scope": {"admin"}})
	if strings.Contains(made.body, "<img") || made.status != 200 {
		t.Errorf("%d %s", made.status, made.body)
	}
	w.page("/console/keys", w.login(regexp.MustCompile(`ff_[a-z0-9]+_[a-z0-9]+`).FindString(made.body))).shows(t, 200, hostile[1]).hides(t, "<img")
}
