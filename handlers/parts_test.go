package handlers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/api"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"order and space":     {`{"a":1,"b":[1,2]}`, "{ \"b\" : [1, 2],\n\"a\":1 }", true},
		"spelling of strings": {`{"a":"\u00fc\/"}`, `{"a":"ü/"}`, true},
		"spelling of numbers": {`{"a":1.50}`, `{"a":15e-1}`, true},
		"order in a list":     {`{"a":[1,2]}`, `{"a":[2,1]}`, false},
		"null and absent":     {`{"a":null}`, `{}`, false},
		"beyond 2^53":         {`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		"a string and number": {`{"a":"1"}`, `{"a":1}`, false},
		"no body and none":    {``, ``, true},
		"no body and {}":      {``, `{}`, false},
	} {
		if same := string(canonical([]byte(c.a))) == string(canonical([]byte(c.b))); same != c.same {
			t.Errorf("%s: %s and %s: same is %v", name, c.a, c.b, same)
		}
	}
	t.Run("leaves the body alone", func(t *testing.T) {
		t.Parallel()
		body := []byte(`{"b":1,"a":2}`)
		canonical(body)
		if string(body) != `{"b":1,"a":2}` {
			t.Errorf("%s", body)
		}
	})
}

func TestJSONPath(t *testing.T) {
	t.Parallel()
	of := reflect.TypeFor[api.EventBatchRequest]()
	for pointer, want := range map[string]string{
		"":                              "",
		"/events":                       "events",
		"/events/3/audience/users/0":    "events[3].audience.users[0]",
		"/events/3/data/0":              "events[3].data.0",
		"/events/0/data/a~1b":           "events[0].data.a/b",
		"/events/0/alert/title":         "events[0].alert.title",
		"/events/0/nobody/knows/1":      "events[0].nobody.knows.1",
		"/" + strings.Repeat("x", 5000): strings.Repeat("x", 100) + "...",
		"/a\nb\x00":                     `a\nb\x00`,
	} {
		if got := jsonPath(of, jsontext.Pointer(pointer)); got != want {
			t.Errorf("%s: %s, want %s", shorten(pointer), got, want)
		}
	}
}

// FuzzDecode holds the decoder to its word: a body is taken, or refused as
// invalid JSON with a sentence of bounded length.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"events":[{"type":1}]}`, `{"a":1,"a":2}`, `[`, "\xff", `{"events":[{"aps":{"x":[`, `null`, `"x"`, `{"events":[{"expires_at":"x"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		err := decode(body, new(api.EventBatchRequest))
		if err == nil {
			return
		}
		if api.CodeOf(err) != api.CodeInvalidJSON {
			t.Fatalf("%q: %v", body, err)
		}
		e := err.(*api.Error)
		if e.Detail == "" || strings.ContainsAny(e.Detail, "\n\x00") {
			t.Fatalf("%q: detail %q", body, e.Detail)
		}
	})
}

func TestPageOf(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d"}
	name := func(s *string) string { return *s }
	t.Run("a cursor stays right when its item goes", func(t *testing.T) {
		t.Parallel()
		_, next, err := pageOf(Page{Limit: 2}, names, name)
		if err != nil {
			t.Fatal(err)
		}
		items, next, err := pageOf(Page{Limit: 2, Cursor: next}, []string{"a", "c", "d"}, name)
		if fmt.Sprint(items) != "[c d]" || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
	t.Run("a full last page has no next", func(t *testing.T) {
		t.Parallel()
		items, next, err := pageOf(Page{Limit: 4}, names, name)
		if len(items) != 4 || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
	t.Run("past the end is empty", func(t *testing.T) {
		t.Parallel()
		items, next, err := pageOf(Page{Limit: 4, Cursor: sealCursor("z")}, names, name)
		if len(items) != 0 || items == nil || next != "" || err != nil {
			t.Errorf("%v %q %v", items, next, err)
		}
	})
}

func TestStrikes(t *testing.T) {
	t.Parallel()
	wrong := api.Errorf(api.CodeUnauthorized, "wrong")
	here, there := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	now := time.Now()
	t.Run("the window ends", func(t *testing.T) {
		t.Parallel()
		s := &strikes{}
		for range maxWrongKeys {
			if err := s.strike(here, now, wrong); api.CodeOf(err) != api.CodeUnauthorized {
				t.Fatal(err)
			}
		}
		if err := s.strike(here, now, wrong); api.CodeOf(err) != api.CodeRateLimited {
			t.Errorf("one too many: %v", err)
		}
		if err := s.strike(there, now, wrong); api.CodeOf(err) != api.CodeUnauthorized {
			t.Errorf("another address: %v", err)
		}
		if err := s.strike(here, now.Add(wrongKeysWindow), wrong); api.CodeOf(err) != api.CodeUnauthorized {
			t.Errorf("a minute later: %v", err)
		}
	})
	t.Run("many addresses take bounded memory", func(t *testing.T) {
		t.Parallel()
		s := &strikes{}
		for i := range 3 * maxStrikes {
			at := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			_ = s.strike(netip.PrefixFrom(at, 32), now, wrong)
			if len(s.since) > maxStrikes {
				t.Fatalf("%d addresses are remembered", len(s.since))
			}
		}
	})
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:5":                 "192.0.2.1/32",
		"[::ffff:192.0.2.1]:5":        "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:5":    "2001:db8:1:2::/64",
		"[fe80::1%eth0]:5":            "fe80::/64",
		"something that is no socket": "invalid Prefix",
	} {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {"9.9.9.9"}}}
		if got := addressOf(r).String(); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	r := newRoom(3, 4*api.MaxBody)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				if err := r.visit(t, 2*api.MaxBody); err != nil && api.CodeOf(err) != api.CodeOverloaded {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	if r.requests.Load() != 0 || r.ordinary.Load() != 0 || r.large.Load() != 0 {
		t.Errorf("%d requests, %d and %d bytes stay behind", r.requests.Load(), r.ordinary.Load(), r.large.Load())
	}
	t.Run("large bodies leave room for ordinary ones", func(t *testing.T) {
		r := newRoom(100, 8*api.MaxBody)
		r.mustGrow(t, 0, 3*api.MaxBody)
		if err := r.grow(3*api.MaxBody, 3*api.MaxBody+1); api.CodeOf(err) != api.CodeOverloaded {
			t.Errorf("a third large part: %v", err)
		}
		for range 5 {
			r.mustGrow(t, 0, api.MaxBody)
		}
		if err := r.grow(0, 1); api.CodeOf(err) != api.CodeOverloaded {
			t.Errorf("a seventh ordinary body: %v", err)
		}
		r.shrink(3 * api.MaxBody)
		r.mustGrow(t, 0, 2*api.MaxBody-1)
	})
}

func (l *room) mustGrow(t *testing.T, from, to int64) {
	t.Helper()
	if err := l.grow(from, to); err != nil {
		t.Fatalf("from %d to %d: %v", from, to, err)
	}
}

// visit stays in the room for a moment, with a body of size bytes.
func (l *room) visit(t *testing.T, size int64) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	if n := l.requests.Load(); n < 1 {
		t.Errorf("%d inside while one is", n)
	}
	if err := l.grow(0, 1); err != nil {
		return err
	}
	if err := l.grow(1, size); err != nil {
		l.shrink(1)
		return err
	}
	l.shrink(size)
	return nil
}

func TestTakeRefills(t *testing.T) {
	t.Parallel()
	l := &rates{limit: RateLimit{Requests: 10, Window: time.Second}}
	now, h := time.Now(), http.Header{}
	for i := range 10 {
		if err := l.take("k", now, h); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	err := l.take("k", now, h)
	if api.CodeOf(err) != api.CodeRateLimited {
		t.Fatalf("request 11: %v", err)
	}
	if wait := err.(*api.Error).RetryAfter; wait < 90*time.Millisecond || wait > 110*time.Millisecond {
		t.Errorf("told to wait %v", wait)
	}
	if err := l.take("k", now.Add(101*time.Millisecond), h); err != nil {
		t.Errorf("after the wait: %v", err)
	}
}

func TestFactsDoNotShadow(t *testing.T) {
	t.Parallel()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	fail(w, r, api.Errorf(api.CodeSoldOut, "sold out").With("available", map[string]int{"a": 0}).With("status", "mine"))
	want := `{"type":"urn:fanfare:problem:sold_out","title":"Sold out","status":409,"detail":"sold out","code":"sold_out","request_id":"","available":{"a":0}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("%s", w.Body)
	}
}

// conditional is what a later noun will take: a header beside path and query.
type conditional struct {
	Name    string `path:"name" validate:"identifier"`
	Depth   int64  `query:"depth" default:"3" validate:"max=9"`
	IfMatch string `header:"If-Match" validate:"required"`
}

func TestBind(t *testing.T) {
	t.Parallel()
	s := newServer(Options{}.withDefaults())
	var got *conditional
	method := func(_ context.Context, in *conditional) (*reply[conditional], error) {
		got = in
		return ok(in).at("/here"), nil
	}
	mux := s.router([]route{{http.MethodGet, "/things/{name}", open, handle(method)}})
	send := func(path string, header http.Header) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
		r.Header = header
		mux.ServeHTTP(w, r)
		return w
	}
	w := send("/things/a%40b", http.Header{"If-Match": {`"7"`}})
	if want := (conditional{Name: "a@b", Depth: 3, IfMatch: `"7"`}); got == nil || *got != want || w.Header().Get("Location") != "/here" {
		t.Errorf("%+v, %d %v", got, w.Code, w.Header())
	}
	w = send("/things/a@b?depth=10", http.Header{"If-Match": {"a", "b"}})
	for _, field := range []string{`"field":"depth"`, `"field":"If-Match"`} {
		if w.Code != 422 || !strings.Contains(w.Body.String(), field) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// TestHalfAnAnswer panics after an answer has begun: the connection is cut, so
// that the caller does not take the half for the whole.
func TestHalfAnAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(Options{}.withDefaults())
	h := identify(s.observe(s.recoverPanics(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[`))
		panic("in the middle")
	}))))
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	res, err := server.Client().Get(server.URL)
	if err != nil {
		return // cut before the head was sent
	}
	defer res.Body.Close()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("half an answer reads like a whole one")
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		err    error
		want   slog.Level
	}{
		{200, nil, slog.LevelDebug},
		{404, api.Errorf(api.CodeNotFound, "x"), slog.LevelInfo},
		{500, api.Errorf(api.CodeInternal, "x"), slog.LevelError},
		{503, api.Errorf(api.CodeUnavailable, "x"), slog.LevelWarn},
		{503, api.Errorf(api.CodeOverloaded, "x"), slog.LevelDebug},
		{409, api.Errorf(api.CodeSoldOut, "x"), slog.LevelDebug},
		{409, api.Errorf(api.CodeConflict, "x"), slog.LevelInfo},
		{503, api.Errorf(api.CodeUnavailable, "x").Because(context.Canceled), slog.LevelInfo},
	} {
		if got := levelOf(c.status, c.err); got != c.want {
			t.Errorf("%d %v: %v, want %v", c.status, c.err, got, c.want)
		}
	}
}

// TestDeadlines says what a caller is told when time is up: a call that only
// reads did nothing, one that writes may have.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]api.Code{"GET": api.CodeUnavailable, "HEAD": api.CodeUnavailable, "PUT": api.CodeUnknownOutcome, "POST": api.CodeUnknownOutcome, "DELETE": api.CodeUnknownOutcome} {
		err := fmt.Errorf("read: %w", context.DeadlineExceeded)
		if got := asError(httptest.NewRequest(method, "/", nil), err).Code; got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
	if e := asError(httptest.NewRequest("GET", "/", nil), errors.New("secret")); e.Code != api.CodeInternal || strings.Contains(e.Detail, "secret") {
		t.Errorf("%+v", e)
	}
}

func BenchmarkAccept(b *testing.B) {
	s := newServer(Options{}.withDefaults())
	mux := s.router([]route{{http.MethodPost, "/v1/events", open, handle(func(_ context.Context, in *postEventRequest) (*reply[api.EventAccepted], error) {
		return accepted(&api.EventAccepted{ID: in.Body.Type}, false), nil
	})}})
	h := identify(s.observe(s.recoverPanics(harden(mux))))
	body := `{"type":"photo.shared","actor":"alice","object":"album:42","audience":{"users":["bob"]},"data":{"album":"Summer"}}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/events", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
