// Package openapi holds the OpenAPI document, which is generated from the handlers' comments and
// the types of package api, and a Swagger UI to try it out. Both are embedded; nothing is loaded
// from other servers.
//
//	go generate ./openapi    writes openapi.json anew
package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

//go:generate go run ./gen

//go:embed openapi.json page
var files embed.FS

// policy lets the page run fanfare's script and that of Swagger UI, and call only this server.
// Swagger UI has its icons in data URLs.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Document serves openapi.json.
func Document() http.Handler { return serve("openapi.json", "application/json") }

// JSON is the document itself.
func JSON() []byte { return read("openapi.json") }

// UI serves Swagger UI below /docs/: the page, the start script, and the assets of the swgui
// module. Below /docs/webpush/ it serves an example of a page that subscribes to Web Push, with its service
// worker. Any other path goes to notFound.
func UI(notFound http.HandlerFunc) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/docs/{$}", withPolicy(serve("page/index.html", "text/html; charset=utf-8")))
	mux.Handle("/docs/start.js", serve("page/start.js", "text/javascript; charset=utf-8"))
	mux.Handle("/docs/page.css", serve("page/page.css", "text/css; charset=utf-8"))
	mux.Handle("/docs/webpush/{$}", withPolicy(serve("page/webpush/index.html", "text/html; charset=utf-8")))
	for _, name := range []string{"page.js", "worker.js"} {
		mux.Handle("/docs/webpush/"+name, serve("page/webpush/"+name, "text/javascript; charset=utf-8"))
	}
	mux.Handle("/docs/webpush/page.css", serve("page/webpush/page.css", "text/css; charset=utf-8"))
	mux.Handle("/docs/", http.StripPrefix("/docs", assets(notFound)))
	return mux
}

// assets serves the module's files, without directory listings.
func assets(notFound http.HandlerFunc) http.Handler {
	server := statigz.FileServer(static.FS, statigz.OnNotFound(notFound))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") || !server.Found(r) {
			notFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}

func withPolicy(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		next.ServeHTTP(w, r)
	})
}

// serve serves a file, compressed if the client accepts gzip. If the client has the file already,
// it answers 304.
func serve(name, contentType string) http.Handler {
	body := read(name)
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
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(whole))
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

// read returns an embedded file. A file can be missing only from a broken build, and then tests
// fail.
func read(name string) []byte {
	body, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	return body
}
