package web

import (
	"net/http"
	"strings"

	"fanfare/api"
)

// authorize lets a request pass whose API key covers the route's scope, or whose user
// token opens it, within the rate of key or user. A server on which no key was ever
// made is open: localOnly has seen to it that only this machine is served.
func (s *Server) authorize(rt *Route, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		if err := s.identify(r, info, rt); err != nil {
			challenge(w.Header(), err, info, rt)
			fail(w, r, err)
			return
		}
		if err := s.spend(info, w.Header()); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// started refuses as long as the process is starting: nobody's key is known before.
func (s *Server) started(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.starting(); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// identify finds who calls, and whether he may: by a user token, by a ticket or by an
// API key.
func (s *Server) identify(r *http.Request, info *requestInfo, rt *Route) error {
	secret, ok := bearer(r.Header)
	if ok && s.users.isToken(secret) {
		return s.identifyUser(r, info, rt, func() (*api.User, error) { return s.userOfToken(r, info, secret) })
	}
	if ticket := s.ticketOf(r, rt); ticket != "" {
		return s.identifyUser(r, info, rt, func() (*api.User, error) { return s.users.Take(r.Context(), ticket) })
	}
	if !s.hasKeys() {
		return nil
	}
	return s.identifyKey(r, info, rt.Scope, secret, ok)
}

// spend takes one request from the quota of who calls.
func (s *Server) spend(info *requestInfo, h http.Header) error {
	if info.user != nil {
		return s.userRates.take(info.user.ID, info.started, h)
	}
	return s.rates.take(info.keyID(), info.started, h)
}

// identifyKey finds the request's key and whether it covers the scope.
func (s *Server) identifyKey(r *http.Request, info *requestInfo, need api.Scope, secret string, ok bool) error {
	if !ok {
		return api.Errorf(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>")
	}
	key, err := s.authenticate(secret)
	if api.CodeOf(err) == api.CodeUnauthorized {
		return s.wrong.count(addressOf(r), info.started, err)
	}
	if err != nil {
		return err
	}
	info.key = key
	if !key.Allows(need) {
		return api.Errorf(api.CodeForbidden, "this API key lacks the scope %s", need).With("scope", need)
	}
	return nil
}

// bearer is the key that a request carries, false unless it has exactly one.
func bearer(h http.Header) (string, bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimSpace(secret)
	return secret, strings.EqualFold(scheme, "Bearer") && secret != ""
}

// challenge tells a client what kind of credentials would do (RFC 6750).
func challenge(h http.Header, err error, info *requestInfo, rt *Route) {
	need := string(rt.Scope)
	switch code := api.CodeOf(err); {
	case info.byUser && code == api.CodeUnauthorized: // fail says so, wherever it was found out
	case info.byUser && code == api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
	case code == api.CodeUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare"`)
	case code == api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare", error="insufficient_scope", scope="`+need+`"`)
	}
}
