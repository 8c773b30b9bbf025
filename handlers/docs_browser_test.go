package handlers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/store/storetest"

	"fanfare/api"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// mustChromium finds the browser. If CI is set, a missing browser is a failure, because there the
// page has to be tested.
func mustChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("chromium is missing, and CI is set")
	}
	t.Skip("skipped: the page under /docs/ was not tried, since chromium is not installed (apt-get install chromium)")
	return ""
}

// browser is a page of a fresh browser, and all errors that the browser reported.
type browser struct {
	ctx  context.Context
	mu   sync.Mutex
	bad  []string
	home string
}

// mustBrowser starts a browser. One that crashes while it starts, as Chromium sometimes does on a busy machine, is
// started again.
func mustBrowser(t *testing.T, home string) *browser {
	t.Helper()
	for tries := 3; ; tries-- {
		b, err := startBrowser(t, home)
		if err == nil {
			return b
		}
		if tries == 1 {
			t.Fatal(err)
		}
		t.Logf("the browser did not start: %v", err)
	}
}

func startBrowser(t *testing.T, home string) (*browser, error) {
	t.Helper()
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(mustChromium(t)), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 3000)}
	for _, name := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
		"disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx, home: home}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		return nil, err
	}
	// Nothing here uses chromedp's copy of the page's elements, which costs more time than the page itself.
	return b, chromedp.Do(ctx, tell(network.Enable, network.EnableParams{}), tell(log.Enable, cdp.Empty{}), tell(runtime.Enable, cdp.Empty{}),
		tell(css.Disable, cdp.Empty{}), tell(dom.Disable, cdp.Empty{}))
}

// tell gives the browser a command.
func tell[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, params)
		return err
	})
}

// note records errors of the browser's console, and any request to another server.
func (b *browser) note(event any) {
	complaint := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError {
			complaint = fmt.Sprintf("console error: %+v", e.Args)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Source == log.EntrySourceSecurity {
			complaint = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.home) && !strings.HasPrefix(u, "data:") {
			complaint = "request to elsewhere: " + u
		}
	}
	if complaint != "" {
		b.mu.Lock()
		b.bad = append(b.bad, complaint)
		b.mu.Unlock()
	}
}

// on waits until a reader sees the first element of a selector, and evaluates an expression with the element e
// at that moment: a page that changes all the time does not come in between.
func (b *browser) on(t *testing.T, selector, expression string) (text string) {
	t.Helper()
	storetest.Eventually(t, 5*time.Minute, "the page shows "+selector, func() bool {
		got, err := chromedp.Run(b.ctx, chromedp.Evaluate[*string](`(() => {
			const e = document.querySelector(`+strconv.Quote(selector)+`)
			return e?.checkVisibility({visibilityProperty: true}) ? String(`+expression+`) : null
		})()`))
		if err != nil || got == nil { // the page may be another one at any moment
			return false
		}
		text = *got
		return true
	})
	return text
}

// click clicks on the element of a selector.
func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	b.on(t, selector, "e.click()")
}

// write enters a text into the field of a selector at once, as pasting does: after each key the page of the
// document draws all of itself anew.
func (b *browser) write(t *testing.T, selector, text string) {
	t.Helper()
	b.on(t, selector, "e.focus()")
	b.wants(t, "type into "+selector, chromedp.Do(b.ctx, tell(input.InsertText, input.InsertTextParams{Text: text})))
}

// text reads the text of the element of a selector.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	return strings.TrimSpace(b.on(t, selector, "e.textContent"))
}

// open goes to a page and waits until it shows the element of a selector.
func (b *browser) open(t *testing.T, url, selector string) {
	t.Helper()
	b.wants(t, "open "+url, chromedp.Do(b.ctx, chromedp.Navigate(url)))
	b.text(t, selector)
}

func (b *browser) wants(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v; complaints: %q", what, err, b.complaints())
	}
}

func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.bad...)
}

// execute opens an operation, executes it with the values that are filled in, and reads the status
// and the body that the page then shows.
func (b *browser) execute(t *testing.T, block string) (status, body string) {
	t.Helper()
	b.click(t, block+" .opblock-summary-control")
	b.click(t, block+" .try-out__btn")
	b.click(t, block+" .execute")
	live := block + " .live-responses-table tbody "
	return b.text(t, live+".response-col_status"), b.text(t, live+".response-col_description")
}

// The page is opened once for all that it has to do, because Chromium takes many seconds to show it.
func TestDocsInABrowser(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	w := setup(t)
	w.workChats()
	b := mustBrowser(t, w.url)
	b.prefers(t, "light")
	t.Run("bookmarks of when it was at /docs/ lead to it", func(t *testing.T) {
		b.open(t, w.url+"/docs/#/push/listDevices", "#operations-push-listDevices.is-open")
		b.becomes(t, "location.href", w.url+"/docs/api/#/push/listDevices")
		b.click(t, "#operations-push-listDevices .opblock-summary-control")
		b.on(t, "body", "scrollTo(0, 0)")
	})
	t.Run("it fits phones", func(t *testing.T) {
		b.narrow(t, 400)
		b.becomes(t, "document.documentElement.scrollWidth > innerWidth", "false")
		b.wants(t, "widen", chromedp.Do(b.ctx, tell(emulation.ClearDeviceMetricsOverride, cdp.Empty{})))
	})
	t.Run("it is readable in light and dark, as the reader prefers", func(t *testing.T) {
		b.execute(t, "#operations-push-listEventTypes")
		b.readable(t, func(background float64) bool { return background > 0.7 })
		b.prefers(t, "dark")
		b.readable(t, func(background float64) bool { return background < 0.1 })
	})
	t.Run("a stream ends with a note on how to continue, and the next call works", func(t *testing.T) {
		status, body := b.execute(t, "#operations-group_chat-streamMessages")
		if status != "200" || !strings.Contains(body, "The curl command above, with -N, shows what follows.") {
			t.Errorf("the page shows %s %s", status, body)
		}
	})
	t.Run("an open server answers without a key", func(t *testing.T) {
		status, body := b.execute(t, "#operations-operations-getHealth")
		if status != "200" || !strings.Contains(body, `"status": "ok"`) {
			t.Errorf("the page shows %s %s", status, body)
		}
	})
	t.Run("a key typed in is used, and the examples work as they are", func(t *testing.T) {
		b.authorize(t, w.mustKey(api.ScopePush))
		for block, want := range map[string]string{
			"#operations-push-putEventType": `"revision": 1`,
			"#operations-push-putDevice":    `"state": "active"`,
		} {
			if status, body := b.execute(t, block); status != "201" || !strings.Contains(body, want) {
				t.Errorf("%s: the page shows %s %s", block, status, body)
			}
		}
		if status, body := b.execute(t, "#operations-push-postEvent"); status != "202" {
			t.Errorf("posting the example event shows %s %s", status, body)
		}
	})
	b.wantsSilence(t)
}

// authorize types a key into the page's dialogue.
func (b *browser) authorize(t *testing.T, key string) {
	t.Helper()
	b.click(t, ".auth-wrapper .authorize")
	b.write(t, ".auth-container input", key)
	b.click(t, ".auth-btn-wrapper .authorize")
	b.click(t, ".auth-btn-wrapper .btn-done")
}

// wantsSilence fails if the browser reported any error.
func (b *browser) wantsSilence(t *testing.T) {
	t.Helper()
	for _, complaint := range b.complaints() {
		t.Error(complaint)
	}
}
