package console

import (
	"net/http"
	"strings"

	"fanfare/api"
)

// The cookies that hold the id of a session. A browser sends the first only over TLS and to the host
// that set it.
const (
	secureCookie = "__Host-fanfare"
	plainCookie  = "fanfare"
)

// refreshHeader marks requests of the script, which keep no session alive.
const refreshHeader = "X-Fanfare-Refresh"

// visit is a request of the console.
type visit struct {
	c   *console
	w   http.ResponseWriter
	r   *http.Request
	key *api.Key // of the session; nil without one, and on a server without keys
	in  bool     // the visitor may see data
}

func (c *console) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{c: c, w: w, r: r}
}

// show serves a page to a visitor who is logged in, and asks others to log in.
func (v *visit) show(p page) {
	if err := v.enter(); err != nil {
		v.fail(err)
		return
	}
	if v.r.Method == http.MethodPost {
		if v.c.o.Mode == Read {
			v.fail(refuse(api.CodeForbidden, "this console only shows (FANFARE_CONSOLE=read)"))
			return
		}
		if err := v.readForm(); err != nil {
			v.fail(err)
			return
		}
	}
	if err := p.serve(v); err != nil {
		v.fail(err)
	}
}

// enter finds the visitor's session and its key.
func (v *visit) enter() error {
	if err := v.c.o.Starting(); err != nil {
		return err
	}
	if !v.c.o.HasKeys() {
		v.in = true // the routes answer such visitors, too: the server listens on loopback alone
		return nil
	}
	id := v.session()
	if id == "" {
		return refuse(api.CodeUnauthorized, "")
	}
	apiKey, err := v.c.o.Sessions.Use(v.r.Context(), id, v.r.Header.Get(refreshHeader) == "")
	if err != nil {
		return err
	}
	if v.key, err = v.c.o.FindKey(apiKey); err != nil {
		return err
	}
	v.in = true
	return nil
}

// cookieName is the name of the session's cookie.
func (v *visit) cookieName() string {
	if v.c.secure(v.r) {
		return secureCookie
	}
	return plainCookie
}

// session is the id of the session that the browser sent, "" without one.
func (v *visit) session() string {
	cookies := v.r.CookiesNamed(v.cookieName())
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// setCookie gives the browser a session, or takes it away if id is "".
func (v *visit) setCookie(id string) {
	cookie := &http.Cookie{
		Name: v.cookieName(), Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.c.secure(v.r),
	}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(v.w, cookie)
}

func (v *visit) readForm() error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.r.ParseForm(); err != nil {
		return refuse(api.CodeInvalidRequest, "the form could not be read")
	}
	return nil
}

// login begins a session for a visitor who knows an API key with ops:read.
func (v *visit) login() {
	if err := v.readForm(); err != nil {
		v.fail(err)
		return
	}
	secret := strings.TrimSpace(v.r.PostForm.Get("key"))
	to := v.r.PostForm.Get("to")
	id, err := v.open(secret)
	switch {
	case err != nil:
		v.askLogin(asProblem(err), to)
	default:
		if id != "" {
			v.setCookie(id)
		}
		redirect(v.w, target(to))
	}
}

// open proves the key by a call with it, so that wrong keys count as everywhere, and opens a session.
func (v *visit) open(secret string) (id string, err error) {
	if !v.c.o.HasKeys() {
		return "", nil
	}
	if secret == "" {
		return "", refuse(api.CodeUnauthorized, "type an API key")
	}
	if err := v.ask(http.MethodGet, "/v1/servers", nil, nil, "Authorization: Bearer "+secret); err != nil {
		return "", err
	}
	key := v.c.o.KeyID(secret)
	if old := v.session(); old != "" {
		if err := v.c.o.Sessions.Close(v.r.Context(), old); err != nil {
			return "", err
		}
	}
	if id, err = v.c.o.Sessions.Open(v.r.Context(), key); err == nil {
		v.log("console.login", key, key)
	}
	return id, err
}

// target is where to go after a login: a page of the console, as a relative link from the login.
func target(to string) string {
	if strings.Contains(to, "..") || strings.ContainsAny(to, "\\\r\n\t") {
		to = ""
	}
	return "./" + to
}

// logout ends the session.
func (v *visit) logout() {
	if id := v.session(); id != "" {
		apiKey, err := v.c.o.Sessions.Use(v.r.Context(), id, false)
		if err == nil {
			err = v.c.o.Sessions.Close(v.r.Context(), id)
			v.log("console.logout", apiKey, apiKey)
		}
		if err != nil && api.CodeOf(err) != api.CodeUnauthorized {
			v.fail(err)
			return
		}
	}
	v.setCookie("")
	redirect(v.w, "./")
}

// log writes a line about what no route writes one about, in the form of all changes. key is the id of the visitor's key.
func (v *visit) log(action, target, key string) {
	v.c.o.Logger.InfoContext(v.r.Context(), "change", "action", action, "target", target, "key", key, "request_id", v.w.Header().Get("X-Request-Id"))
}

// keyID is the id of the session's key; "" on a server without keys.
func (v *visit) keyID() string {
	if v.key == nil {
		return ""
	}
	return v.key.ID
}

// may reports whether the visitor's key has a scope.
func (v *visit) may(need api.Scope) bool { return v.in && (v.key == nil || v.key.Allows(need)) }

// mayChange reports whether the visitor may also use forms that need the scope.
func (v *visit) mayChange(need api.Scope) bool { return v.may(need) && v.c.o.Mode != Read }
