// Package openapi holds the OpenAPI document, which is generated from the handlers' comments and
// the types of package api, and a Swagger UI to try it out. Both are embedded; nothing is loaded
// from other servers.
//
//	go generate ./openapi    writes openapi.json anew
package openapi

import (
	"embed"
	"net/http"
	"strings"

	"fanfare/docs/asset"

	"github.com/swaggest/swgui/v5/static"
	"github.com/vearutop/statigz"
)

//go:generate go run ./gen

//go:embed openapi.json page
var files embed.FS

// Document serves openapi.json.
func Document() http.Handler { return serve("openapi.json", "application/json") }

// JSON is the document itself.
func JSON() []byte { return read("openapi.json") }

// UI serves Swagger UI below /docs/api/: the page, the start script, and the assets of the swgui
// module. Below /docs/webpush/ it serves an example of a page that subscribes to Web Push, with its service
// worker. Any other path goes to notFound.
func UI(notFound http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/docs/api/{$}", asset.WithPolicy(serve("page/index.html", "text/html; charset=utf-8")))
	mux.Handle("/docs/api/start.js", serve("page/start.js", "text/javascript; charset=utf-8"))
	mux.Handle("/docs/api/page.css", serve("page/page.css", "text/css; charset=utf-8"))
	mux.Handle("/docs/webpush/{$}", asset.WithPolicy(serve("page/webpush/index.html", "text/html; charset=utf-8")))
	for _, name := range []string{"page.js", "worker.js"} {
		mux.Handle("/docs/webpush/"+name, serve("page/webpush/"+name, "text/javascript; charset=utf-8"))
	}
	mux.Handle("/docs/webpush/page.css", serve("page/webpush/page.css", "text/css; charset=utf-8"))
	mux.Handle("/docs/api/", http.StripPrefix("/docs/api", assets(notFound)))
	mux.Handle("/", notFound)
	return mux
}

// assets serves the module's files, without directory listings.
func assets(notFound http.Handler) http.Handler {
	server := statigz.FileServer(static.FS, statigz.OnNotFound(notFound.ServeHTTP))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") || !server.Found(r) {
			notFound.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-cache")
		server.ServeHTTP(w, r)
	})
}

func serve(name, contentType string) http.Handler { return asset.Serve(read(name), contentType) }

// read returns an embedded file. A file can be missing only from a broken build, and then tests
// fail.
func read(name string) []byte {
	body, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	return body
}
