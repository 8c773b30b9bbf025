package web

import (
	"context"
	"net/http"
	"strings"

	"fanfare/api"
)

// authorize lets a request pass whose API key covers the scope, within the
// key's rate. A server on which no key was ever made is open: localOnly has
// seen to it that only this machine is served.
func (s *Server) authorize(need api.Scope, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		if err := s.identifyKey(r, info, need); err != nil {
			challenge(w.Header(), err, need)
			fail(w, r, err)
			return
		}
		if err := s.rates.take(info.keyID(), info.started, w.Header()); err != nil {
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

// identifyKey finds the request's key and whether it covers the scope.
func (s *Server) identifyKey(r *http.Request, info *requestInfo, need api.Scope) error {
	if !s.hasKeys() {
		return nil
	}
	secret, ok := bearer(r.Header)
	if !ok {
		return keyNeeded()
	}
	key, err := s.authenticate(secret)
	if api.CodeOf(err) == api.CodeUnauthorized {
		return s.wrong.count(addressOf(r), info.started, err)
	}
	if err != nil {
		return err
	}
	info.key, info.secret = key, secret
	if !key.Allows(need) {
		return api.Errorf(api.CodeForbidden, "this API key lacks the scope %s", need).With("scope", need)
	}
	return nil
}

func keyNeeded() error {
	return api.Errorf(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>")
}

// StillAllowed is for calls that take long: unauthorized when the key that let the request
// in was revoked since, or when it came without one and the first key was made since.
func (s *Server) StillAllowed(ctx context.Context) error {
	info := infoOf(ctx)
	if info.key == nil {
		if s.hasKeys() {
			return keyNeeded()
		}
		return nil
	}
	if _, err := s.authenticate(info.secret); api.CodeOf(err) == api.CodeUnauthorized {
		return err
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
func challenge(h http.Header, err error, need api.Scope) {
	switch api.CodeOf(err) {
	case api.CodeUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare"`)
	case api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare", error="insufficient_scope", scope="`+string(need)+`"`)
	}
}
