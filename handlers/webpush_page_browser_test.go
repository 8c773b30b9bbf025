package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers/web"
	"fanfare/openapi"
	"fanfare/store/storetest"

	permissions "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// shownPushes are the notifications that the page's service worker shows, as JSON.
const shownPushes = `navigator.serviceWorker.ready.then((r) => r.getNotifications()).then((list) => JSON.stringify(list.map(
	(n) => ({title: n.title, body: n.body, tag: n.tag, icon: n.icon, requireInteraction: n.requireInteraction, data: n.data}))))`

// countShown counts in the worker how many notifications are shown completely. Before that nobody asks for
// them: Chromium forgets a notification that it is asked for at the wrong moment. It also notes the numbers that are set.
const countShown = `(async () => {
	const show = registration.showNotification.bind(registration)
	self.done = 0
	self.numbers = []
	navigator.setAppBadge = async (n) => { self.numbers.push(n) }
	registration.showNotification = async (...all) => { await show(...all); self.done++ }
	return ''
})()`

// clickPush lets the worker handle a click on its only notification, and tells which page it opens and how
// many notifications are left. Without a user's click no worker may open a window, so that it only notes it.
const clickPush = `(async () => {
	let opened = 'nothing', done
	clients.openWindow = async (url) => { opened = url }
	const [notification] = await registration.getNotifications()
	const event = new NotificationEvent('notificationclick', { notification })
	event.waitUntil = (promise) => { done = promise } // an event that a script makes has none
	self.dispatchEvent(event)
	await done
	return opened + ' ' + (await registration.getNotifications()).length
})()`

// evaluate runs a script whose result is a promise of a text.
func evaluate(ctx context.Context, expression string) (string, error) {
	return chromedp.Run(ctx, chromedp.Evaluate[string](expression, chromedp.EvalAwaitPromise))
}

// mustGet waits for the next value.
func mustGet[T any](t *testing.T, from chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(soon):
		t.Fatal("nothing has come")
	}
	return v
}

// pushPage serves the example beside the calls that it makes, and tells what it calls.
func pushPage(t *testing.T, key, token string) (site string, calls chan string) {
	t.Helper()
	calls = make(chan string, 100)
	mux := http.NewServeMux()
	mux.Handle("/docs/", openapi.UI(http.HandlerFunc(web.NotFound)))
	mux.HandleFunc("GET /v1/webpush/shop/key", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"key":%q}`, key) })
	mux.HandleFunc("POST /v1/users/bob/devices", func(w http.ResponseWriter, r *http.Request) {
		var body any
		err := json.NewDecoder(r.Body).Decode(&body)
		text, _ := json.Marshal(body)
		calls <- fmt.Sprintf("POST %s %s %v", r.Header.Get("Authorization"), text, err)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"token":%q}`, token)
	})
	mux.HandleFunc("DELETE /v1/users/bob/devices/{token}", func(w http.ResponseWriter, r *http.Request) {
		calls <- "DELETE " + r.PathValue("token")
		w.WriteHeader(http.StatusNoContent)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL, calls
}

// W16: the example page subscribes and registers the browser. Its service worker shows what is pushed, with
// the next one in place of the one with the same tag, and opens the page of a notification that is clicked.
func TestW16_TheExamplePage(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	const (
		endpoint     = "https://fcm.googleapis.com/fcm/send/abc"
		key          = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
		subscription = `{"endpoint":"` + endpoint + `","expirationTime":null,"keys":{"auth":"BTBZMqHH6r4Tts7J_aSIgg","p256dh":"` + key + `"}}`
	)
	token := api.TokenOfEndpoint(endpoint)
	site, calls := pushPage(t, key, token)
	b := mustBrowser(t, site)
	registered := make(chan serviceworker.RegistrationID, 100)
	b.wants(t, "listen", chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*serviceworker.EventWorkerRegistrationUpdated); ok {
			for _, r := range e.Registrations {
				registered <- r.RegistrationID
			}
		}
	}))
	b.preparePush(t, subscription)
	b.open(t, site+"/docs/webpush/", "#user")
	for id, value := range map[string]string{"#user": "bob", "#topic": "shop", "#token": "a-token"} {
		b.write(t, id, value)
	}
	for n, replaces := range []string{"", `"replaces":"` + token + `",`} { // the second time it knows the first one
		b.click(t, "#subscribe")
		if got, want := mustGet(t, calls), `POST Bearer a-token {"locale":"en-US","platform":"webpush",`+replaces+`"subscription":`+subscription+`,"topic":"shop"} <nil>`; got != want {
			t.Errorf("%d: the page calls\n%s, want\n%s", n, got, want)
		}
		b.shows(t, "#state", "subscribed as "+token)
	}
	if asked, err := evaluate(b.ctx, `JSON.stringify(asked)`); err != nil || asked != `{"userVisibleOnly":true,"applicationServerKey":"`+key+`"}` {
		t.Errorf("subscribed with %s: %v", asked, err)
	}

	id, worker := mustGet(t, registered), b.worker(t, site+"/docs/webpush/")
	_, err := evaluate(worker, countShown)
	b.wants(t, "count", err)
	for n, row := range []struct{ pushed, shown string }{
		{`{"title":"Hello","body":"there","tag":"ev1","event_id":"ev1","type":"hello","data":{"album":"7"},"url":"/docs/#inbox","app_badge":7}`,
			`[{"title":"Hello","body":"there","tag":"ev1","icon":"","requireInteraction":false,"data":{"event_id":"ev1","type":"hello","data":{"album":"7"},"url":"/docs/#inbox"}}]`},
		{`{"title":"Again","tag":"ev1","event_id":"ev2","type":"hello","icon":"/docs/api/favicon-32x32.png","require_interaction":true,"url":"/docs/#inbox"}`,
			`[{"title":"Again","body":"","tag":"ev1","icon":"` + site + `/docs/api/favicon-32x32.png","requireInteraction":true,"data":{"event_id":"ev2","type":"hello","url":"/docs/#inbox"}}]`},
	} {
		_, err := chromedp.Call(b.ctx, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: site, RegistrationID: id, Data: row.pushed})
		b.wants(t, "push", err)
		storetest.Eventually(t, soon, "the worker has shown it", func() bool {
			done, err := evaluate(worker, "Promise.resolve(String(self.done))")
			return err == nil && done == fmt.Sprint(n+1)
		})
		b.wantsPush(t, row.shown)
	}
	if numbers, err := evaluate(worker, "Promise.resolve(String(self.numbers))"); err != nil || numbers != "7" { // B2
		t.Errorf("the numbers on the icon are %s: %v", numbers, err)
	}
	if opened, err := evaluate(worker, clickPush); err != nil || opened != site+"/docs/#inbox 0" {
		t.Errorf("a click opens %s: %v", opened, err)
	}

	b.click(t, "#unsubscribe")
	b.shows(t, "#state", "not subscribed")
	if got := mustGet(t, calls); got != "DELETE "+token {
		t.Errorf("the page calls %s", got)
	}
	b.wantsSilence(t)
}

// preparePush lets pages show notifications, and subscribe without a push service.
func (b *browser) preparePush(t *testing.T, subscription string) {
	t.Helper()
	_, err := chromedp.CallBrowser(b.ctx, permissions.SetPermission, permissions.SetPermissionParams{
		Permission: &permissions.PermissionDescriptor{Name: "notifications"}, Setting: permissions.PermissionSettingGranted, Origin: b.home,
	})
	b.wants(t, "allow notifications", err)
	_, err = chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `PushManager.prototype.subscribe = async (options) => { window.asked = options; return ` + subscription + ` }`,
	})
	b.wants(t, "stub subscribe", err)
	b.wants(t, "watch workers", chromedp.Do(b.ctx, tell(serviceworker.Enable, cdp.Empty{})))
}

// wantsPush waits until the page's service worker shows these notifications.
func (b *browser) wantsPush(t *testing.T, want string) {
	t.Helper()
	got := ""
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("shown: %s %v; complaints: %q", got, err, b.complaints())
		}
	}()
	storetest.Eventually(t, soon, "the notification is shown", func() bool {
		got, err = evaluate(b.ctx, shownPushes)
		return err == nil && got == want
	})
}

// worker is the service worker of a scope, to evaluate scripts in. It does not stop any more.
func (b *browser) worker(t *testing.T, scope string) context.Context {
	t.Helper()
	var id target.ID
	storetest.Eventually(t, soon, "the worker runs", func() bool {
		_, _ = chromedp.Call(b.ctx, serviceworker.StartWorker, serviceworker.StartWorkerParams{ScopeURL: scope}) // it stops without events
		all, err := chromedp.Targets(b.ctx)
		for _, one := range all {
			if err == nil && one.Type == "service_worker" {
				id = one.TargetID
			}
		}
		return id != ""
	})
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(id))
	t.Cleanup(cancel)
	return ctx
}
