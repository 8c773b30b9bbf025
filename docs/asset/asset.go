// Package asset serves files that are part of the program: compressed to clients that take it, and not again to
// clients that have them.
package asset

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Policy is a Content-Security-Policy for pages whose scripts, styles and pictures are files of this server, and which
// call only this server. Pictures may also be in data URLs.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Serve serves a file, compressed if the client accepts gzip. If the client has the file already, it answers 304. The
// file is compressed once, when a client asks for it.
func Serve(body []byte, contentType string) http.Handler {
	zipped := sync.OnceValue(func() []byte { return compressed(body) })
	tag := fmt.Sprintf("%x", sha256.Sum256(body))[:16]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", contentType)
		h.Set("Cache-Control", "no-cache")
		h.Set("Vary", "Accept-Encoding")
		h.Set("ETag", `"`+tag+`"`)
		whole := body
		if takesGzip(r) {
			h.Set("Content-Encoding", "gzip")
			h.Set("ETag", `"`+tag+`-gzip"`)
			whole = zipped()
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(whole))
	})
}

// WithPolicy sets the Policy for a page.
func WithPolicy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", Policy)
		next.ServeHTTP(w, r)
	})
}

func compressed(body []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(body) // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// takesGzip reports whether a request accepts gzip (RFC 9110, 12.5.3).
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name = strings.ToLower(strings.TrimSpace(name)); name == "gzip" || name == "*" {
			q, ok := strings.CutPrefix(strings.ReplaceAll(weight, " ", ""), "q=")
			return !ok || strings.Trim(q, "0.") != ""
		}
	}
	return false
}
