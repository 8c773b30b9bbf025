package site

import (
	"embed"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"fanfare/docs/asset"
)

// New returns the handler of all paths below /docs/, and of /llms.txt. The files are those of the repository, by their
// paths there. api makes the handler of /docs/api/, of /docs/webpush/, and of the assets that older versions had
// directly below /docs/; it gets the handler for paths that do not exist. Browsers get a page of the site for such a path,
// other clients what notFound answers. The pages are made at the first request.
func New(files fs.FS, api func(notFound http.Handler) http.Handler, notFound http.HandlerFunc) http.Handler {
	if files == nil {
		files = embed.FS{}
	}
	made := sync.OnceValues(func() (*pages, error) { return build(files, notFound) })
	with := func(serve func(*pages, http.ResponseWriter, *http.Request)) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s, err := made()
			if err != nil { // the build was given other files than the tests
				http.Error(w, "the documents are missing: "+err.Error(), http.StatusInternalServerError)
				return
			}
			serve(s, w, r)
		})
	}
	mux := http.NewServeMux()
	tools := api(with((*pages).notFound))
	for _, folder := range []string{"api", "webpush"} {
		mux.Handle("/docs/"+folder+"/", tools)
		mux.HandleFunc("/docs/"+folder, func(w http.ResponseWriter, r *http.Request) { redirect(w, r, folder+"/") })
	}
	mux.Handle("/llms.txt", with(func(s *pages, w http.ResponseWriter, r *http.Request) { s.llms.ServeHTTP(w, r) }))
	mux.Handle("/docs/", with((*pages).serve))
	return mux
}

// moved are the files that were at /docs/ before the API's page moved to /docs/api/. A page of Swagger UI is
// recognised by its script instead, because its path was that of the site.
var moved = map[string]string{
	"index.html": "", "start.js": "start.js", "page.css": "page.css", "oauth2-redirect.html": "oauth2-redirect.html",
	"favicon-16x16.png": "favicon-16x16.png", "favicon-32x32.png": "favicon-32x32.png",
	"swagger-ui.css": "swagger-ui.css", "swagger-ui.js": "swagger-ui.js", "swagger-ui-bundle.js": "swagger-ui-bundle.js",
	"swagger-ui-standalone-preset.js": "swagger-ui-standalone-preset.js",
}

// serve answers a request for a page, a picture or a file of the pages.
func (s *pages) serve(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/docs/")
	if h := s.served[name]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	if to, was := moved[name]; was {
		redirect(w, r, "api/"+to)
		return
	}
	for _, other := range []string{strings.TrimSuffix(name, "/"), name + "/", strings.TrimSuffix(name, ".html")} {
		if s.served[other] != nil && other != name {
			redirect(w, r, relative(name, other))
			return
		}
	}
	s.notFound(w, r)
}

// redirect leads to another path, given relative to the request's: http.Redirect would make it absolute, and a proxy
// may serve fanfare below a path of its own.
func redirect(w http.ResponseWriter, r *http.Request, to string) {
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusMovedPermanently)
}

// deepest is how many slashes the path of a page may have. A page for a deeper one would be long, because each of its
// links leads back.
const deepest = 8

// notFound answers a browser with a page that says so. Its links lead back from whatever depth it is shown at.
func (s *pages) notFound(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") || strings.Count(r.URL.Path, "/") > deepest {
		s.missing(w, r)
		return
	}
	body, err := s.draw(&page{
		Place: strings.TrimPrefix(r.URL.Path, "/docs/"), Title: "There is no such page",
		Body: "<h1>There is no such page</h1>\n<p>The menu lists all pages, and the search finds words in them.</p>",
	}, -1)
	if err != nil {
		s.missing(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", asset.Policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(body) // the client may be gone
}
