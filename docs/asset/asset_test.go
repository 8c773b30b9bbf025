package asset

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A file goes compressed to clients that take it, and not again to clients that have it.
func TestCompression(t *testing.T) {
	t.Parallel()
	get := func(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	text := strings.Repeat("something that is said again and again\n", 1000)
	for path, h := range map[string]http.Handler{"/text": Serve([]byte(text), "text/plain"), "/page": WithPolicy(Serve([]byte(text), "text/html"))} {
		plain := get(h, path)
		if plain.Code != 200 || plain.Header().Get("Content-Encoding") != "" || plain.Body.Len() == 0 || plain.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d %v", path, plain.Code, plain.Header())
		}
		zipped := get(h, path, "Accept-Encoding", "br, gzip;q=0.5")
		reader, err := gzip.NewReader(zipped.Body)
		if err != nil || zipped.Header().Get("Content-Encoding") != "gzip" || zipped.Header().Get("Content-Type") != plain.Header().Get("Content-Type") {
			t.Fatalf("%s: %v %v", path, zipped.Header(), err)
		}
		if whole, err := io.ReadAll(reader); err != nil || string(whole) != plain.Body.String() {
			t.Errorf("%s: unpacked it is another: %v", path, err)
		}
		for _, refused := range []string{"identity", "gzip;q=0", "gzip; q=0.0", "br", "xgzip"} {
			if got := get(h, path, "Accept-Encoding", refused); got.Header().Get("Content-Encoding") != "" || got.Body.String() != plain.Body.String() {
				t.Errorf("%s with %s: %v", path, refused, got.Header())
			}
		}
		tag := zipped.Header().Get("ETag")
		if tag == "" || tag == plain.Header().Get("ETag") {
			t.Errorf("%s: both forms have the ETag %s", path, tag)
		}
		if again := get(h, path, "Accept-Encoding", "gzip", "If-None-Match", tag); again.Code != 304 || again.Body.Len() != 0 {
			t.Errorf("%s again: %d", path, again.Code)
		}
	}
	if zipped := get(Serve([]byte(text), "text/plain"), "/", "Accept-Encoding", "gzip").Body.Len(); zipped > len(text)/5 {
		t.Errorf("the text is still %d bytes of %d", zipped, len(text))
	}
}
