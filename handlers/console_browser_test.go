package handlers_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/apps"
	"fanfare/store/queue"
	"fanfare/store/storetest"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// audit lists the faults of a page for people who use a keyboard, a screen reader, a narrow window
// or weak eyes, by the rules of WCAG 2.2 AA that a program can check.
const audit = `(() => {
  const bad = [], all = s => [...document.querySelectorAll(s)];
  const is = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + " " + (e.textContent || "").trim().slice(0, 40);
  const one = (s, n) => { if (all(s).length !== n) bad.push(s + ": " + all(s).length); };
  one("html[lang]", 1); one("main", 1); one("h1", 1); one("a.skip[href='#main']", 1);
  if (!document.title) bad.push("no title");
  for (const e of all("nav, [role=region]")) if (!e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby"))) bad.push("no name: " + is(e));
  for (const e of all("input:not([type=hidden]), select")) if (!e.labels.length && !e.getAttribute("aria-label")) bad.push("no label: " + e.outerHTML);
  for (const e of all("a, button")) if (!(e.getAttribute("aria-label") || e.textContent).trim()) bad.push("no text: " + e.outerHTML);
  for (const e of all("svg")) if (e.getAttribute("role") !== "img" || !e.getAttribute("aria-label")) bad.push("no text: svg");
  for (const e of all("th")) if (!e.scope) bad.push("no scope: " + is(e));
  for (const e of all("[onclick], [style], style, script:not([src])")) bad.push("inline: " + is(e));
  const ids = all("[id]").map(e => e.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) bad.push("twice: #" + id);
  let last = 0;
  for (const e of all("h1, h2, h3")) { const level = +e.tagName[1]; if (level > last + 1) bad.push("a level is left out: " + is(e)); last = level; }
  if (document.documentElement.scrollWidth > innerWidth) bad.push("wider than the window: " + document.documentElement.scrollWidth);
  const rgb = text => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = c => { const f = v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
  for (const e of all("body *")) {
    const text = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()), box = e.getBoundingClientRect();
    if (!text || !box.width || e.closest("svg") || e.closest("details:not([open])") && !e.closest("summary")) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(ground(e)), contrast = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (contrast < 4.5) bad.push("contrast " + contrast.toFixed(2) + ": " + is(e));
  }
  if (window.hostile || all("main img, main iframe").length) bad.push("hostile text became markup");
  return bad;
})()`

// mainHas waits until the page's content has a text. The page may be another one at any moment.
func (b *browser) mainHas(t *testing.T, text string) {
	t.Helper()
	storetest.Eventually(t, 2*time.Minute, "the page shows "+text, func() bool {
		seen, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.querySelector("main")?.innerText || ""`))
		return err == nil && strings.Contains(seen, text)
	})
}

// narrow sets the width of the window.
func (b *browser) narrow(t *testing.T, width int64) {
	t.Helper()
	b.wants(t, "resize", chromedp.Do(b.ctx, tell(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1})))
}

// audited fails for each fault of the page.
func (b *browser) audited(t *testing.T, where string) {
	t.Helper()
	faults, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](audit))
	b.wants(t, "audit "+where, err)
	for _, fault := range faults {
		t.Errorf("%s: %s", where, fault)
	}
}

// Every page keeps the policy, with hostile texts on it, light and dark, wide and narrow, and can be used
// by everybody.
func TestN5_PagesInABrowser(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	w, pages, plain := setupHostile(t)
	b := mustBrowser(t, w.url)
	bothAudited := func(where string) {
		for _, scheme := range []string{"light", "dark"} {
			b.prefers(t, scheme)
			b.audited(t, scheme+" "+where)
		}
	}
	for i, path := range pages[:plain] {
		b.narrow(t, []int64{1280, 400}[i%2])
		b.open(t, w.url+"/console/"+path, "main")
		bothAudited(path)
		if path == "dead-letters" || path == "" {
			b.narrow(t, 400)
			bothAudited("narrow " + path)
		}
	}
	// These differ from the others in a text of their address. N6 reads all of them, and here each text and each kind of page
	// is shown.
	for i := plain; i < len(pages); i += 5 {
		b.narrow(t, []int64{1280, 400}[i%2])
		b.open(t, w.url+"/console/"+pages[i], "main")
		b.audited(t, pages[i])
	}
	for _, complaint := range b.complaints() {
		if !strings.Contains(complaint, "status of 4") { // pages that say what is wrong with the request
			t.Error(complaint)
		}
	}
	key := w.mustKey(api.ScopeAdmin)
	b.open(t, w.url+"/console/keys", "main")
	bothAudited("login")
	w.login(key)
}

// Without its script the console is the same, and with it figures follow by themselves. An operator logs
// in, sees a sale sell out, revokes the key, and is out.
func TestN8_AnOperator(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	w := setupConsole(t)
	w.workSales()
	w.put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":2}]`, `"hold_ms":0`))
	admin := w.mustKey(api.ScopeAdmin)
	bearer := "Authorization: Bearer " + admin
	b := mustBrowser(t, w.url)
	b.open(t, w.url+"/console/sales/spring", "main")
	b.login(t, admin)
	b.mainHas(t, "Sale spring")
	buy := w.do(call{method: "POST", path: "/v1/sales/spring/reservations", body: `{"user":"u","lines":[{"sku":"shoe","quantity":2}]}`, headers: []string{bearer}})
	if buy.status != 201 {
		t.Fatalf("%d %s", buy.status, buy.body)
	}
	b.mainHas(t, "sold_out") // without a click
	b.open(t, w.url+"/console/keys", "main")
	b.click(t, "td a.button")
	b.click(t, "main button.danger")
	b.mainHas(t, "API key with the scope")
	for _, complaint := range b.complaints() {
		if !strings.Contains(complaint, "status of 401") {
			t.Error(complaint)
		}
	}
	if a := w.form("/console/login", url.Values{"key": {admin}}); a.status != 401 {
		t.Errorf("the key still logs in: %d", a.status)
	}
}

// login types a key into the form that a page shows.
func (b *browser) login(t *testing.T, key string) {
	t.Helper()
	b.write(t, "#key", key)
	b.click(t, "main button")
}

// An operator finds out from the overview why a user got nothing, has a paused app try, and retries 1,000
// dead letters, with links and buttons alone.
func TestN8_AnOperatorMends(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	db := storetest.Open(t, storetest.Redis(t).URL())
	at := api.AtMillis(1767366245000)
	w := setupOn(t, db, withConsole(db), func(o *handlers.Options) {
		o.Apps = func(ctx context.Context) ([]api.App, error) { // the app mends when it is asked to try
			app := api.App{App: "shop/fcm", Topic: "shop", Platform: "fcm", State: api.AppRunning}
			asked, err := apps.New(db, apps.Options{}).Asked(ctx)
			if asked[app.App] == "" {
				app.State, app.Reason, app.Since, app.Waiting = api.AppPaused, "SENDER_ID_MISMATCH", &at, 3
			}
			return []api.App{app}, err
		}
	})
	w.mustWorkLetters()
	w.put("/v1/users/bob/opt-outs/photo.shared", "")
	event := w.post("/v1/events", anEvent).member(t, "id")
	mustDieBy(t, w.notifications, 1000, "BadTopic", queue.ClassOf("photo.shared", "shop/fcm"))
	key := w.mustKey(api.ScopeOps, api.ScopePush)
	b := mustBrowser(t, w.url)
	b.open(t, w.url+"/console/", "main")
	b.login(t, key)

	b.mainHas(t, "Dependencies")
	b.click(t, `nav a[href$="events"]`)
	b.click(t, `td a[href$="`+event+`"]`)
	b.write(t, `input[name="user"]`, "bob")
	b.click(t, `form[action$="why"] button`)
	b.mainHas(t, "Opted out of the type\ntrue")

	b.click(t, "a.brand")
	b.mainHas(t, "SENDER_ID_MISMATCH")
	b.click(t, "form[action$=probe] button")
	b.mainHas(t, "running")

	b.click(t, `nav a[href$="dead-letters"]`)
	b.click(t, `td a[href*="reason=BadTopic"]`)
	b.click(t, `form[action$="all"] button[value="retry"]`)
	b.mainHas(t, "Retry 1\u202f000 dead letters?")
	b.click(t, "main button.main")
	b.mainHas(t, "done") // without a click
	b.mainHas(t, "Left\n0")
	for _, complaint := range b.complaints() {
		if !strings.Contains(complaint, "status of 401") {
			t.Error(complaint)
		}
	}
	if s, err := w.notifications.Stats(t.Context()); err != nil || s.Depth != 1000 || s.DeadLetters != 0 {
		t.Errorf("%d are queued, %d are dead, %v", s.Depth, s.DeadLetters, err)
	}
}

// While Redis is away an open page says so, and it comes back by itself.
func TestN8_RedisAwayAndBack(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	proxy, redis := storetest.ProxyTo(t, storetest.Redis(t).URL())
	db := storetest.Open(t, redis)
	w := setupOn(t, db, withConsole(db))
	admin := w.mustKey(api.ScopeAdmin)
	b := mustBrowser(t, w.url)
	b.open(t, w.url+"/console/", "main")
	b.login(t, admin)
	b.mainHas(t, "Dependencies")
	proxy.Cut()
	b.mainHas(t, "tries again by itself")
	proxy.Mend()
	b.mainHas(t, "Dependencies")
	for _, complaint := range b.complaints() {
		if !strings.Contains(complaint, "status of 401") && !strings.Contains(complaint, "status of 503") {
			t.Error(complaint)
		}
	}
}
