package handlers_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"fanfare/store/storetest"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// press presses a key that has a name, such as ArrowDown.
func (b *browser) press(t *testing.T, key string, code int64) {
	t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		p := input.DispatchKeyEventParams{Type: kind, Key: key, Code: key, WindowsVirtualKeyCode: code}
		b.wants(t, "press "+key, chromedp.Do(b.ctx, tell(input.DispatchKeyEvent, p)))
	}
}

// becomes waits until an expression of the page has a value.
func (b *browser) becomes(t *testing.T, expression, want string) {
	t.Helper()
	var got string
	storetest.Eventually(t, time.Minute, expression+" becomes "+want, func() bool {
		var err error
		got, err = evaluate(b.ctx, "String("+expression+")")
		return err == nil && got == want
	})
}

// The pages of the documents in a browser: colours, search, tabs, and phones. Nothing is loaded from elsewhere, and the
// browser complains of nothing.
func TestDocumentsInABrowser(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	w := setup(t)
	b := mustBrowser(t, w.url)
	b.prefers(t, "light")
	b.open(t, w.url+"/docs/operations", "main h1")
	t.Run("Colours", func(t *testing.T) { b.colourSchemes(t) })
	t.Run("Search", func(t *testing.T) { b.searchDocuments(t, w.url) })
	t.Run("Tabs", func(t *testing.T) { b.switchTabs(t, w.url) })
	t.Run("Phone", func(t *testing.T) { b.fitsPhones(t, w) })
	b.wantsSilence(t)
}

// In a browser that keeps nothing for pages everything works, and a choice holds for its page.
func TestDocumentsWithoutStorage(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	w := setup(t)
	b := mustBrowser(t, w.url)
	b.wants(t, "block the storage", chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		if _, err := cdp.Call(ctx, target, page.Enable, page.EnableParams{}); err != nil {
			return err
		}
		blocked := `Object.defineProperty(window, "localStorage", {get() { throw new DOMException("blocked", "SecurityError") }})`
		_, err := cdp.Call(ctx, target, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: blocked})
		return err
	})))
	b.open(t, w.url+"/docs/jobs", ".tabs")
	b.becomes(t, `(() => { try { return localStorage } catch (e) { return e.name } })()`, "SecurityError")
	b.click(t, "#ui-theme")
	b.becomes(t, `document.getElementById("ui-theme").textContent + document.documentElement.dataset.theme`, "Lightlight")
	b.on(t, ".tabs", `e.querySelectorAll("input")[1].click()`)
	b.becomes(t, `[...document.querySelectorAll(".tabs > input:checked")].map((i) => i.value === document.querySelectorAll(".tabs > input")[1].value).includes(true)`, "true")
	b.write(t, "#ui-search", "conflict keys")
	b.becomes(t, `document.querySelector("#ui-results li a")?.href`, w.url+"/docs/jobs#conflict-keys")
	b.wantsSilence(t)
}

// colourSchemes checks the colours of the system, and those that the reader chooses instead, for all pages.
func (b *browser) colourSchemes(t *testing.T) {
	t.Helper()
	check := func(what string, fits func(background float64) bool) {
		t.Helper()
		picture := b.picture(t)
		for _, selector := range []string{"main h1", "main p", "main p code", "#ui-menu li a", "#ui-menu h2", ".contents li a", "header .api", "#ui-theme"} {
			background, contrast := b.colours(t, picture, selector)
			if contrast < 4.5 || !fits(background) { // WCAG 2.2 requires this for text (1.4.3)
				t.Errorf("%s: %s has the contrast %.1f on the luminance %.2f", what, selector, contrast, background)
			}
		}
	}
	light, dark := func(l float64) bool { return l > 0.7 }, func(l float64) bool { return l < 0.1 }
	check("light", light)
	b.prefers(t, "dark")
	check("dark", dark)
	b.click(t, "#ui-theme")
	b.becomes(t, `document.getElementById("ui-theme").textContent`, "Light")
	check("light though the system is dark", light)
	b.click(t, ".near [rel=next]")
	b.becomes(t, "document.readyState + document.querySelector('main h1')?.textContent", "completeRunbook") // a picture of less is white
	check("the choice holds for the next page", light)
	b.prefers(t, "light")
	b.click(t, "#ui-theme")
	b.becomes(t, `document.getElementById("ui-theme").textContent`, "Dark")
	check("dark though the system is light", dark)
	b.click(t, "#ui-theme")
	b.becomes(t, `document.getElementById("ui-theme").textContent`, "Auto")
	check("light again", light)
}

// searchDocuments asks questions, and opens an answer with the keyboard.
func (b *browser) searchDocuments(t *testing.T, site string) {
	t.Helper()
	const first = `document.querySelector("#ui-results li a")?.href`
	b.open(t, site+"/docs/spec/http", "#ui-search")
	for question, want := range map[string]string{
		"rotate a key":                  "/docs/operations#rotating-a-key",
		"conflict keys":                 "/docs/jobs#conflict-keys",
		"nginx":                         "/docs/proxies#nginx",
		"FANFARE_APPS_FILE":             "/docs/configuration#apns-1",
		"redis is away":                 "/docs/runbook#redis-is-away",
		"moving from another system":    "/docs/operations#moving-in-from-another-system",
		"backups":                       "/docs/operations#backups",
		"no access token for FCM":       "/docs/operations#fcm",
		"the first job makes the queue": "/docs/jobs#two-minutes",
		"flash sale":                    "/docs/spec/sale",
		"BadDeviceToken":                "/docs/spec/push#what-apns-answers-mean",
		"dead letters retry":            "/docs/runbook#dead-letters",
	} {
		b.on(t, "#ui-search", "e.select()")
		b.write(t, "#ui-search", question)
		b.becomes(t, first, site+want)
	}
	b.open(t, site+"/docs/spec/", "main h1")
	b.on(t, "body", `e.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true}))`)
	b.becomes(t, "document.activeElement.id", "ui-search")
	b.write(t, "#ui-search", "rotate a key")
	b.becomes(t, first, site+"/docs/operations#rotating-a-key")
	b.press(t, "ArrowDown", 40)
	b.press(t, "ArrowDown", 40)
	b.press(t, "ArrowUp", 38)
	b.becomes(t, "document.activeElement.href", site+"/docs/operations#rotating-a-key")
	b.press(t, "Escape", 27)
	b.becomes(t, `document.getElementById("ui-results").hidden + document.activeElement.id`, "trueui-search")
	b.on(t, "#ui-search", "e.form.requestSubmit()")
	b.becomes(t, "location.href", site+"/docs/operations#rotating-a-key")
	b.write(t, "#ui-search", "zzyzx")
	b.becomes(t, `document.querySelector("#ui-results p").textContent`, "0 sections")
}

// switchTabs switches the language of a page with the arrow keys, and finds it chosen on the next page.
func (b *browser) switchTabs(t *testing.T, site string) {
	t.Helper()
	const visible = `[...document.querySelectorAll(".tabs")].map((tabs) => [...tabs.querySelectorAll("code")].filter((code) => code.checkVisibility()).map((code) => code.dataset.language)).join()`
	b.open(t, site+"/docs/jobs", ".tabs")
	b.on(t, ".tabs", `e.querySelector("input").focus()`)
	before, err := evaluate(b.ctx, visible)
	storetest.Must(t, err)
	b.press(t, "ArrowRight", 39)
	b.becomes(t, visible+" !== "+fmt.Sprintf("%q", before), "true")
	after, err := evaluate(b.ctx, visible)
	storetest.Must(t, err)
	if strings.Count(before, ",") != strings.Count(after, ",") || after == "" {
		t.Errorf("before %s, after %s: each group shows one block", before, after)
	}
	b.open(t, site+"/docs/jobs", ".tabs")
	b.becomes(t, visible, after)
}

// fitsPhones opens every page 400 pixels wide: nothing but tables and code moves sideways, and people who use a
// keyboard, a screen reader or weak eyes find no faults.
func (b *browser) fitsPhones(t *testing.T, w *world) {
	t.Helper()
	b.narrow(t, 400)
	places := 0
	for line := range strings.Lines(w.get("/llms.txt").body) {
		_, rest, _ := strings.Cut(line, "](docs/")
		name, _, is := strings.Cut(rest, ".md)")
		if !is {
			continue
		}
		places++
		if name = strings.TrimSuffix(name, "README"); !strings.Contains(name, "/") && strings.ToUpper(name) == name {
			name = strings.ToLower(name)
		}
		b.open(t, w.url+"/docs/"+name, "main h1")
		wide, err := evaluate(b.ctx, `[...document.querySelectorAll("main > *, header > *")].filter((e) => e.getBoundingClientRect().right > 400).map((e) => e.tagName + e.textContent.slice(0, 40)).join()`)
		if err != nil || wide != "" {
			t.Errorf("%s is too wide for a phone: %s %v", name, wide, err)
		}
		faults, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](audit))
		storetest.Must(t, err)
		for _, fault := range faults {
			if fault != "hostile text became markup" { // the documents may have pictures
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	if places < 30 {
		t.Errorf("only %d pages were found", places)
	}
}
