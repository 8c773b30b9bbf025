package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/docs/session"
	"fanfare/handlers"
	"fanfare/store/storetest"

	"github.com/chromedp/chromedp"
)

// examplePage serves the example page beside the example of its backend, to bob, who is logged in
// once he has opened the page. The backend calls fanfare itself; base is where the page calls it.
func examplePage(w *world, key, base string) http.Handler {
	page := storetest.RepositoryFile(w.t, "docs/user-access.html")
	backend := session.Backend{Fanfare: w.url, Public: base, Key: key, User: loggedIn}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(out http.ResponseWriter, _ *http.Request) {
		http.SetCookie(out, &http.Cookie{Name: "user", Value: "bob", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = out.Write([]byte(page))
	})
	mux.HandleFunc("GET /favicon.ico", func(out http.ResponseWriter, _ *http.Request) { out.WriteHeader(http.StatusNoContent) })
	mux.Handle("POST /session", backend.Handler())
	return mux
}

// loggedIn is the user in the cookie.
func loggedIn(r *http.Request) string {
	cookie, err := r.Cookie("user")
	if err != nil {
		return ""
	}
	return cookie.Value
}

// The example's backend gives its page's user a token for that user alone. It refuses strangers and
// pages of other origins, and shows nobody its API key.
func TestTheExampleSession(t *testing.T) {
	t.Parallel()
	w, admin := setupUsers(t)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)
	key := w.mustKey(api.ScopeTokens)
	ask := func(b session.Backend, user, origin string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "https://app.example.com/session", nil)
		r.Header.Set("Origin", origin)
		if user != "" {
			r.AddCookie(&http.Cookie{Name: "user", Value: user})
		}
		out := httptest.NewRecorder()
		b.Handler().ServeHTTP(out, r)
		return out
	}
	const own = "https://app.example.com"
	good := session.Backend{Fanfare: w.url, Public: "https://fanfare.example.com", Key: key, User: loggedIn}

	answer := ask(good, "bob", own)
	var made struct{ Fanfare, User, Token, Ticket string }
	if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil || made.Fanfare != good.Public || made.User != "bob" || answer.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", answer.Code, answer.Header(), answer.Body)
	}
	token := "Authorization: Bearer " + made.Token
	for path, status := range map[string]int{"/v1/users/bob/chats": 200, "/v1/chats/team/messages": 200, "/v1/users/alice/chats": 403, "/v1/users/bob/devices": 403} {
		if a := w.do(get(path).with(token)); a.status != status {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	wait := "/v1/users/bob/messages/pending?ticket=" + made.Ticket
	if first, second := w.get(wait), w.get(wait); first.status != 200 || second.status != 401 {
		t.Errorf("the ticket opens %d, then %d", first.status, second.status)
	}

	away := good
	away.Key = "ff_wrong_0123456789abcdefghijklmnopqrstuvwxyz"
	for name, refused := range map[string]struct {
		answer *httptest.ResponseRecorder
		status int
	}{
		"nobody is logged in": {ask(good, "", own), 401},
		"another origin":      {ask(good, "bob", "https://evil.example"), 403},
		"a wrong key":         {ask(away, "bob", own), 502},
	} {
		if said := refused.answer.Body.String(); refused.answer.Code != refused.status || strings.Contains(said, "token") || strings.Contains(said, "ff_") {
			t.Errorf("%s: %d %s", name, refused.answer.Code, said)
		}
	}
}

// lines are the texts of all elements that a selector finds.
func (b *browser) lines(t *testing.T, selector string) []string {
	t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`[...document.querySelectorAll("`+selector+`")].map(e => e.textContent).join("\n")`))
	b.wants(t, "read "+selector, err)
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// shows waits until the elements of a selector have these texts, in this order.
func (b *browser) shows(t *testing.T, selector string, want ...string) {
	t.Helper()
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("%s shows %q; complaints: %q", selector, got, b.complaints())
		}
	}()
	storetest.Eventually(t, soon, fmt.Sprintf("%s to show %q", selector, want), func() bool {
		got = b.lines(t, selector)
		return slices.Equal(got, want)
	})
}

// streams counts how often the page has opened the stream of messages.
func (b *browser) streams() int {
	return strings.Count(strings.Join(b.complaints(), "\n"), "/messages/stream?ticket=")
}

func TestU7_APageOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	var page http.Handler
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	t.Cleanup(site.Close)
	w, admin := setupUsers(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{site.URL} })
	w.workChats()
	w.workSales()
	fanfare, err := url.Parse(w.url)
	storetest.Must(t, err)
	cable := storetest.NewProxy(t, fanfare.Host) // between the page and fanfare; the backend uses another connection
	page = examplePage(w, w.mustKey(api.ScopeTokens), "http://"+cable.Addr())
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"],"message":"hello"}`, admin)
	w.do(put("/v1/sales/spring", saleBody(`[{"sku":"shoe","stock":2}]`)).with(admin))
	say := func(text string) {
		w.post("/v1/chats/team/messages", `{"sender":"alice","text":"`+text+`"}`, admin).wants(t, 201, `{"id":"*","sent_at":"*"}`)
	}
	buy := func(user string) {
		w.post("/v1/sales/spring/reservations", `{"user":"`+user+`","lines":[{"sku":"shoe","quantity":1}]}`, admin)
	}

	b := mustBrowser(t, site.URL)
	b.open(t, site.URL+"/", "#state")
	b.shows(t, "#messages li", "alice: hello")
	b.shows(t, "#stock", "2 left")
	b.shows(t, "#state", "live")

	b.write(t, "#text", "hi there")
	b.click(t, "#send")
	b.shows(t, "#messages li", "alice: hello", "bob: hi there")
	buy("ann")
	b.shows(t, "#stock", "1 left")

	cable.Cut()
	b.shows(t, "#state", "away")
	say("one")
	say("two")
	buy("amy")
	cable.Mend()
	b.shows(t, "#messages li", "alice: hello", "bob: hi there", "alice: one", "alice: two")
	b.shows(t, "#stock", "sold out")
	b.shows(t, "#state", "live")

	before := b.streams()
	w.post("/v1/users/bob/tokens/revoke", "", admin).wants(t, 204, "")
	storetest.Eventually(t, soon, "the stream to be opened again with a new ticket", func() bool { return b.streams() > before })
	say("three")
	b.shows(t, "#messages li", "alice: hello", "bob: hi there", "alice: one", "alice: two", "alice: three")
	storetest.Eventually(t, soon, "what was shown to be acknowledged", func() bool {
		return strings.Contains(w.do(get("/v1/users/bob/chats").with(admin)).body, `"unread":0`)
	})
	b.open(t, site.URL+"/", "#state") // the history, of which this server keeps four messages, is there after a reload
	b.shows(t, "#messages li", "bob: hi there", "alice: one", "alice: two", "alice: three")
	say("four")
	b.shows(t, "#messages li", "bob: hi there", "alice: one", "alice: two", "alice: three", "alice: four")
	for _, complaint := range b.complaints() {
		if strings.HasPrefix(complaint, "exception") || strings.Contains(complaint, "CORS") {
			t.Error(complaint)
		}
	}
}

// Without its backend the page says what it needs, and asks less and less often.
func TestTheExamplePageWithoutItsBackend(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	var asked atomic.Int32
	files := http.FileServer(http.Dir(storetest.Root(t) + "/docs"))
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/session" {
			asked.Add(1)
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(site.Close)
	b := mustBrowser(t, site.URL)
	b.narrow(t, 400)
	began := time.Now()
	b.open(t, site.URL+"/user-access.html", "#state")
	b.shows(t, "#state", "away")
	if why := b.text(t, "#why"); !strings.Contains(why, "needs its backend") || !strings.Contains(why, "?fanfare=") {
		t.Errorf("the page says %q", why)
	}
	storetest.Eventually(t, soon, "it to ask again and again", func() bool { return asked.Load() >= 8 }) // of two streams, 2, 4, 6, 8
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("it asked 8 times within %v", took) // 250 + 500 + 1,000 ms at least
	}
	if width := b.on(t, "body", "String(document.documentElement.scrollWidth)"); width != "400" {
		t.Errorf("the page is %s wide", width)
	}
}

// A message whose answer is lost is sent only once, however often the user sends it again. No link
// can make a page in production call another server.
func TestTheExamplePageSendsOnceAndToItsOwnServer(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	var page http.Handler
	var lost, strange atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	t.Cleanup(site.Close)
	public := strings.Replace(site.URL, "127.0.0.1", "app.localhost", 1) // not a loopback name
	w, admin := setupUsers(t, func(o *handlers.Options) { o.Web.AllowedOrigins = []string{public} })
	w.workChats()
	var losing atomic.Bool
	front := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && losing.Load() {
			w.handler.ServeHTTP(httptest.NewRecorder(), r)
			lost.Add(1)
			panic(http.ErrAbortHandler)
		}
		w.handler.ServeHTTP(out, r)
	}))
	t.Cleanup(front.Close)
	stranger := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strange.Add(1) }))
	t.Cleanup(stranger.Close)
	page = examplePage(w, w.mustKey(api.ScopeTokens), front.URL)
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, admin)

	b := mustBrowser(t, site.URL)
	b.open(t, public+"/?user=bob&fanfare="+stranger.URL, "#state")
	b.shows(t, "#state", "live")
	losing.Store(true)
	b.write(t, "#text", "hi there")
	b.click(t, "#send")
	b.shows(t, "#sending", "not sent; try again")
	losing.Store(false)
	b.click(t, "#send")
	b.shows(t, "#sending")
	b.write(t, "#text", "bye")
	b.click(t, "#send")
	b.shows(t, "#messages li", "bob: hi there", "bob: bye")
	if strange.Load() > 0 || lost.Load() == 0 {
		t.Errorf("%d calls to a stranger's server, %d answers were lost", strange.Load(), lost.Load())
	}
}

// The README's chat in a browser works: a server without keys, and the example page on any web
// server of this machine, without a backend.
func TestThePageOfTheTour(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	tour := regexp.MustCompile(`<http://127\.0\.0\.1:3000(/.*\?fanfare=)http://127\.0\.0\.1:8080(&user=bob)>`).
		FindStringSubmatch(storetest.RepositoryFile(t, "README.md"))
	if tour == nil {
		t.Fatal("the README names no page")
	}
	site := httptest.NewServer(http.FileServer(http.Dir(storetest.Root(t) + "/docs")))
	t.Cleanup(site.Close)
	w := setup(t)
	w.workChats()
	w.mustChat("team", "alice", "bob", "carol") // carol acknowledges nothing: what all have acknowledged is not kept
	w.post("/v1/chats/team/messages", `{"sender":"alice","text":"hello"}`).wants(t, 201, `{"id":1,"sent_at":"*"}`)
	b := mustBrowser(t, site.URL)
	b.open(t, site.URL+tour[1]+w.url+tour[2], "#state")
	b.shows(t, "#state", "live")
	b.shows(t, "#messages li", "alice: hello")
	b.write(t, "#text", "hi there")
	b.click(t, "#send")
	b.shows(t, "#messages li", "alice: hello", "bob: hi there")
	w.del("/v1/chats/team/messages/1").wants(t, 204, "")
	b.shows(t, "#messages li", "(removed)", "bob: hi there")
}

// The page of the guide works on a server without keys, as the guide says: it follows a chat and a sale, sends and
// reserves.
func TestThePageOfTheGuide(t *testing.T) {
	t.Parallel()
	storetest.SkipShort(t, "a browser")
	mustChromium(t)
	found := regexp.MustCompile("(?s)\n```html\n(.*?)```").FindStringSubmatch(storetest.RepositoryFile(t, "docs/start/web.md"))
	if found == nil {
		t.Fatal("docs/start/web.md has no page")
	}
	w := setup(t)
	w.workChats()
	w.mustChat("order-1042", "alice", "bob") // what the first steps of a backend leave
	w.post("/v1/chats/order-1042/messages", `{"sender":"alice","text":"Where is my order?"}`).wants(t, 201, `{"id":1,"sent_at":"*"}`)
	w.post("/v1/users/bob/messages/ack", `{"acks":{"order-1042":1}}`).wants(t, 200, `{"acked":{"order-1042":1}}`)
	w.post("/v1/chats/order-1042/messages", `{"sender":"bob","text":"It arrives on Friday"}`).wants(t, 201, `{"id":2,"sent_at":"*"}`)
	w.put("/v1/sales/sneakers", `{"items":[{"sku":"sneaker:42","stock":2}],"per_user_limit":1,"starts_at":"2026-01-01T00:00:00Z","ends_at":"2099-01-01T00:00:00Z"}`)
	page := strings.Replace(found[1], "http://127.0.0.1:8080", w.url, 1)
	site := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = out.Write([]byte(page))
	}))
	t.Cleanup(site.Close)
	b := mustBrowser(t, site.URL)
	b.open(t, site.URL+"/page.html", "#send")
	b.shows(t, "#messages li", "bob: It arrives on Friday")
	b.shows(t, "#stock", "2 left")
	b.write(t, "#text", "Thank you")
	b.click(t, "#send")
	b.shows(t, "#messages li", "bob: It arrives on Friday", "alice: Thank you")
	b.click(t, "#buy")
	b.shows(t, "#stock", "1 left")
	b.says(t, "#said", "yours until ")
	b.click(t, "#buy")
	b.says(t, "#said", "this user may have 0 more")
	for _, complaint := range b.complaints() {
		if strings.HasPrefix(complaint, "exception") || strings.Contains(complaint, "CORS") {
			t.Error(complaint)
		}
	}
}

// says waits until the text of an element has a part.
func (b *browser) says(t *testing.T, selector, part string) {
	t.Helper()
	storetest.Eventually(t, soon, selector+" says "+part, func() bool { return strings.Contains(strings.Join(b.lines(t, selector), " "), part) })
}
