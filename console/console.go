package console

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"fanfare/api"
)

// Mode says what the console may do.
type Mode string

// The modes.
const (
	On   Mode = "on"
	Read Mode = "read" // it shows everything and changes nothing
	Off  Mode = "off"
)

// UnmarshalText reads a mode.
func (m *Mode) UnmarshalText(text []byte) error {
	switch mode := Mode(text); mode {
	case On, Read, Off:
		*m = mode
		return nil
	}
	return fmt.Errorf("is none of on, read, off")
}

// Options are the parts that the console uses. All are needed unless they say otherwise.
type Options struct {
	// Routes serves the JSON routes. As lets a request to them act for an API key, by its id.
	Routes http.Handler
	As     func(ctx context.Context, key string) context.Context

	// HasKeys reports whether an API key was ever made; until then everybody who reaches the server may
	// use the console. FindKey finds a valid key by its id, and KeyID is the id of a whole key.
	HasKeys func() bool
	FindKey func(id string) (*api.Key, error)
	KeyID   func(secret string) string
	// Sessions keeps the sessions of visitors.
	Sessions Sessions

	// Mode is what the console may do; default On.
	Mode Mode
	// PublicURL is where browsers find the server, if a proxy ends TLS or changes the Host header;
	// default: where the request went.
	PublicURL *url.URL
	// HidePayloads leaves out what dead letters and jobs contain.
	HidePayloads bool
	// Starting returns an error as long as the process cannot answer yet. Default: it has started.
	Starting func() error
	// Logger gets a line when somebody logs in or out. Default: discarded.
	Logger *slog.Logger
}

// Sessions keeps the sessions of visitors. Its errors are those of package api: a session that has ended is
// api.CodeUnauthorized.
type Sessions interface {
	// Open begins a session of an API key and returns its secret id.
	Open(ctx context.Context, apiKey string) (id string, err error)
	// Use returns the API key of a session, and lets the session last longer if extend is set.
	Use(ctx context.Context, id string, extend bool) (apiKey string, err error)
	// Close ends a session.
	Close(ctx context.Context, id string) error
}

// policy is the Content-Security-Policy of all answers.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// maxForm is the size of a form in bytes.
const maxForm = 64 << 10

type console struct {
	o         Options
	views     views
	protected http.Handler
}

// New makes the handler of all paths that begin with /console. It starts nothing and needs no closing.
func New(o Options) http.Handler {
	if o.Starting == nil {
		o.Starting = func() error { return nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	c := &console{o: o, views: mustViews()}
	protection := http.NewCrossOriginProtection()
	if o.PublicURL != nil {
		_ = protection.AddTrustedOrigin(o.PublicURL.Scheme + "://" + o.PublicURL.Host) // the URL was checked
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.visit(w, r).fail(refuse(api.CodeForbidden, "the form was sent by a page of another site"))
	}))
	c.protected = protection.Handler(c.mux())
	return c
}

// ServeHTTP answers a request.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a form of ours would have the origin null
	if c.secure(r) {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	c.protected.ServeHTTP(w, r)
}

// secure reports whether the visitor's browser came over TLS.
func (c *console) secure(r *http.Request) bool {
	if c.o.PublicURL != nil {
		return c.o.PublicURL.Scheme == "https"
	}
	return r.TLS != nil
}

// mux finds the page of a request.
func (c *console) mux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, _ *http.Request) { redirect(w, "console/") })
	for name, media := range map[string]string{"style.css": "text/css; charset=utf-8", "script.js": "text/javascript; charset=utf-8"} {
		mux.Handle("GET /console/"+name, mustFile(name, media))
	}
	mux.HandleFunc("POST /console/login", func(w http.ResponseWriter, r *http.Request) { c.visit(w, r).login() })
	mux.HandleFunc("POST /console/logout", func(w http.ResponseWriter, r *http.Request) { c.visit(w, r).logout() })
	for _, p := range pages() {
		mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) { c.visit(w, r).show(p) })
	}
	mux.HandleFunc("/console/", func(w http.ResponseWriter, r *http.Request) {
		c.visit(w, r).show(page{serve: func(*visit) error { return refuse(api.CodeNotFound, "there is no such page") }})
	})
	return mux
}

// redirect sends the browser to a page with GET. http.Redirect would make the path absolute.
func redirect(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}
