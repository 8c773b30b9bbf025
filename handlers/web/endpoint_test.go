package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// conditional is a request with a header in addition to path and query.
type conditional struct {
	Name    string `path:"name" validate:"identifier"`
	Depth   int64  `query:"depth" default:"3" validate:"max=9"`
	IfMatch string `header:"If-Match" validate:"required"`
}

func TestBind(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	var got *conditional
	method := func(_ context.Context, in *conditional) (*Reply[conditional], error) {
		got = in
		return OK(in).At("/here"), nil
	}
	h := s.Handler([]Route{{Method: http.MethodGet, Pattern: "/things/{name}", Scope: Open, Endpoint: Handle(method)}})
	send := func(path string, header http.Header) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.Header = header
		h.ServeHTTP(w, r)
		return w
	}
	w := send("/things/a%40b", http.Header{"If-Match": {`"7"`}})
	if want := (conditional{Name: "a@b", Depth: 3, IfMatch: `"7"`}); got == nil || *got != want || w.Header().Get("Location") != "/here" {
		t.Errorf("%+v, %d %v", got, w.Code, w.Header())
	}
	send("/things/a@b", http.Header{"If-Match": {`"7", "8"`, `"9"`}})
	if want := `"7", "8", "9"`; got.IfMatch != want {
		t.Errorf("a list in two lines: %s, want %s", got.IfMatch, want)
	}
	w = send("/things/a@b?depth=10", http.Header{})
	for _, field := range []string{`"field":"depth"`, `"field":"If-Match"`} {
		if w.Code != 422 || !strings.Contains(w.Body.String(), field) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}

// If fanfare itself serves TLS, browsers are told to come back over TLS.
func TestStrictTransport(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{"https://localhost/": "max-age=31536000", "http://localhost/": ""} {
		w := httptest.NewRecorder()
		New(Options{}).Handler(nil).ServeHTTP(w, httptest.NewRequest("GET", url, nil))
		if got := w.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
