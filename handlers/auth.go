package handlers

import (
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"fanfare/api"
)

// authorize lets a request pass whose API key covers the scope, within the
// key's rate. A server on which no key was ever made is open: guardOpen has
// seen to it that only this machine is served.
func (s *server) authorize(need api.Scope, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := exchangeOf(r.Context())
		if err := s.identifyKey(r, x, need); err != nil {
			challenge(w.Header(), err, need)
			fail(w, r, err)
			return
		}
		if err := s.rates.take(x.keyID(), time.Now(), w.Header()); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// identifyKey finds the request's key and whether it covers the scope.
func (s *server) identifyKey(r *http.Request, x *exchange, need api.Scope) error {
	if !s.keys.Any() {
		return nil
	}
	secret, ok := bearer(r.Header)
	if !ok {
		return api.Errorf(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>")
	}
	key, err := s.keys.Authenticate(secret)
	if api.CodeOf(err) == api.CodeUnauthorized {
		return s.wrong.strike(addressOf(r), time.Now(), err)
	}
	if err != nil {
		return err
	}
	x.key = key
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
func challenge(h http.Header, err error, need api.Scope) {
	switch api.CodeOf(err) {
	case api.CodeUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare"`)
	case api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare", error="insufficient_scope", scope="`+string(need)+`"`)
	}
}

// What an address may get wrong before it is told to wait.
const (
	maxWrongKeys    = 20
	wrongKeysWindow = time.Minute
	maxStrikes      = 10_000 // addresses remembered at once
)

// strikes counts wrong keys per address. A right key passes whatever its
// address has done: many callers may share one behind a proxy.
type strikes struct {
	mu    sync.Mutex
	since map[netip.Prefix]*strike
}

type strike struct {
	count int
	until time.Time
}

// strike counts one wrong key and returns err, or CodeRateLimited once the
// address has had its share.
func (s *strikes) strike(from netip.Prefix, now time.Time, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.since[from]
	if k == nil || !now.Before(k.until) {
		s.makeRoom(now)
		k = &strike{until: now.Add(wrongKeysWindow)}
		s.since[from] = k
	}
	if k.count++; k.count <= maxWrongKeys {
		return err
	}
	e := api.Errorf(api.CodeRateLimited, "too many wrong API keys from this address")
	e.RetryAfter = k.until.Sub(now)
	return e
}

// makeRoom keeps the map bounded: windows that are over go first, then all.
func (s *strikes) makeRoom(now time.Time) {
	if s.since == nil {
		s.since = make(map[netip.Prefix]*strike)
	}
	if len(s.since) < maxStrikes {
		return
	}
	for from, k := range s.since {
		if !now.Before(k.until) {
			delete(s.since, from)
		}
	}
	if len(s.since) >= maxStrikes {
		clear(s.since)
	}
}

// addressOf is who is at the other end of the connection, never what a header
// claims: one IPv4 address, or the /64 that one IPv6 host may roam in.
func addressOf(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits)
	return prefix
}
