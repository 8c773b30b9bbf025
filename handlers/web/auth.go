package web

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"time"

	"fanfare/api"
)

// authorize lets a request pass if its API key covers the route's scope or the route takes its user
// token, within the rate limit of the key or user. On a server on which no key was ever made every
// request passes: localOnly has checked that it comes from this machine.
func (s *Server) authorize(rt *Route, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		info := infoOf(r.Context())
		if err := s.identify(r, info, rt); err != nil {
			challenge(w.Header(), err, info, rt)
			fail(w, r, err)
			return
		}
		info.subject = subjectOf(r, info, rt)
		if err := s.spend(info, rt, w.Header()); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// subjectOf is the user whose limits a call counts against: the user who calls, or the one
// in the path if an API key makes a call that users can make. Calls that only backends can make count
// against no user.
func subjectOf(r *http.Request, info *requestInfo, rt *Route) string {
	switch {
	case info.user != nil:
		return info.user.ID
	case rt.User != "":
		return pathParam(r, "user")
	}
	return ""
}

// started refuses calls while the process is starting, because it has not read the keys yet.
func (s *Server) started(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.o.Starting(); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	}
}

// identify finds the caller by a user token, a ticket or an API key, and checks that the route
// allows the call.
func (s *Server) identify(r *http.Request, info *requestInfo, rt *Route) error {
	secret, ok := bearer(r.Header)
	if ok && isToken(secret) {
		return s.identifyUser(info, rt, func() (*api.User, error) { return s.userOfToken(r, info, secret) })
	}
	if ticket := s.ticketOf(r, rt); ticket != "" {
		return s.identifyUser(info, rt, func() (*api.User, error) { return s.userOfTicket(r.Context(), info, ticket) })
	}
	if !s.o.HasKeys() {
		// Again: the first look may have been while the process was starting.
		if s.foreign(r, rt.forPages()) {
			return errForeign()
		}
		return s.localOnly(r)
	}
	return s.identifyKey(r, info, rt.Scope, secret, ok)
}

// spend takes one request from the quota of the calling key or user. A user's message also takes
// from the quota of messages.
func (s *Server) spend(info *requestInfo, rt *Route, h http.Header) error {
	if info.user == nil {
		return s.rates.take(info.keyID(), 1, info.started, h)
	}
	if err := s.userRates.take(info.user.ID, 1, info.started, h); err != nil || !rt.plan.message {
		return err
	}
	return s.messageRates.take(info.user.ID, 1, info.started, h)
}

// spendMore takes more requests from the quota of a calling user, for a call that does the work of several. A full
// quota is enough for any call.
func (s *Server) spendMore(info *requestInfo, n int, h http.Header) error {
	if n = min(n, s.userRates.burst-1); n <= 0 || info.user == nil {
		return nil
	}
	err := s.userRates.take(info.user.ID, n, time.Now(), h)
	var refused *api.Error
	if errors.As(err, &refused) {
		refused.RetryAfter += time.Duration(float64(time.Second) / float64(s.userRates.perSecond)) // the next try itself takes one
	}
	return err
}

// recordBytes is what the record of an Idempotency-Key counts among the bytes of a user's messages. It has some
// 250 bytes and stays for a day, while chats bound what messages take.
const recordBytes = 4096

// spendBytes takes the bytes of a user's message from the user's quota. The headers go on telling of
// the quota of messages unless this one refuses.
func (s *Server) spendBytes(info *requestInfo, n int, h http.Header) error {
	quota := http.Header{}
	err := s.messageBytes.take(info.user.ID, n, time.Now(), quota) // the body may have taken long
	if err != nil {
		maps.Copy(h, quota)
	}
	return err
}

// Allows reports whether the caller also has this scope, in addition to the scope of the route. A
// server without keys allows everything to every caller that it accepts.
func Allows(ctx context.Context, need api.Scope) bool {
	info := infoOf(ctx)
	return info.user == nil && (info.key == nil || info.key.Allows(need))
}

// identifyKey finds the request's key and checks that it covers the scope.
func (s *Server) identifyKey(r *http.Request, info *requestInfo, need api.Scope, secret string, ok bool) error {
	if !ok {
		return s.identifyActing(info, need)
	}
	key, err := s.o.Authenticate(secret)
	if api.CodeOf(err) == api.CodeUnauthorized {
		if wait := s.wrong.count(prefixOf(s.o.Proxies.caller(r)), info.started); wait > 0 {
			e := api.Errorf(api.CodeRateLimited, "too many wrong API keys from this address")
			e.RetryAfter = wait
			return e
		}
	}
	if err != nil {
		return err
	}
	info.secret = secret
	return info.acts(key, need)
}

// acts notes the request's key and checks that it covers the scope.
func (i *requestInfo) acts(key *api.Key, need api.Scope) error {
	i.key = key
	if need != AnyKey && !key.Allows(need) {
		return api.Errorf(api.CodeForbidden, "this API key lacks the scope %s", need).With("scope", need)
	}
	return nil
}

type actingKey struct{}

// AsKey lets a request that the process itself makes act for an API key, with the key's rights and
// limits. The caller has made sure that whoever causes the request has that key.
func AsKey(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, actingKey{}, id)
}

// identifyActing finds the key for which the process itself makes the request, see AsKey.
func (s *Server) identifyActing(info *requestInfo, need api.Scope) error {
	id, ok := info.Context.Value(actingKey{}).(string)
	if !ok || s.o.Find == nil {
		return keyNeeded()
	}
	key, err := s.o.Find(id)
	if err != nil {
		return err
	}
	return info.acts(key, need)
}

func keyNeeded() error {
	return api.Errorf(api.CodeUnauthorized, "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one")
}

// StillAllowed is for calls that take long. It returns unauthorized if the key or user token of the
// request has ended in the meantime, if the request came without a key and the first key was made
// in the meantime, or if the request is about a user who was erased in the meantime.
func (s *Server) StillAllowed(ctx context.Context) error {
	info := infoOf(ctx)
	if info.user != nil {
		if s.o.Users.Ended(info.user) != "" {
			return api.Errorf(api.CodeUnauthorized, "the user token is not valid any more")
		}
		return nil
	}
	if info.subject != "" && s.o.Users.Erased(info.subject, info.started) {
		return api.Errorf(api.CodeUnauthorized, "the user was erased")
	}
	if info.key == nil {
		if s.o.HasKeys() {
			return keyNeeded()
		}
		return nil
	}
	_, err := s.keyAgain(info)
	if api.CodeOf(err) == api.CodeUnauthorized {
		return err
	}
	return nil
}

// keyAgain finds the request's key once more.
func (s *Server) keyAgain(info *requestInfo) (*api.Key, error) {
	if info.secret == "" { // see AsKey
		return s.o.Find(info.key.ID)
	}
	return s.o.Authenticate(info.secret)
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

// challenge tells a client which kind of credentials it can send (RFC 6750).
func challenge(h http.Header, err error, info *requestInfo, rt *Route) {
	need := string(rt.Scope)
	switch code := api.CodeOf(err); {
	case info.byUser && code == api.CodeUnauthorized: // fail sets the header, wherever the error was found
	case info.byUser && code == api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
	case code == api.CodeUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare"`)
	case code == api.CodeForbidden:
		h.Set("WWW-Authenticate", `Bearer realm="fanfare", error="insufficient_scope", scope="`+need+`"`)
	}
}

// AnyUser opens a route to every user token, with any scopes.
const AnyUser api.UserScope = "*"

// Users finds the users of tokens and tickets.
type Users struct {
	// Recall returns the user of a token that Verify has accepted before, nil for any other
	// token. It must be quick. A token that has ended is api.CodeUnauthorized.
	Recall func(token string) (*api.User, error)
	// Verify checks a token; a bad one is api.CodeUnauthorized. It calls admit before it
	// computes a signature. forged reports whether the computed signature differs.
	Verify func(token string, admit func() error) (u *api.User, forged bool, err error)
	// Take uses a ticket up and returns its user.
	Take func(ctx context.Context, ticket string) (*api.User, error)
	// Ended says why a user's token or ticket is no longer valid; "" while it is.
	Ended func(*api.User) api.ByeReason
	// Erased reports whether a user was erased since a time.
	Erased func(user string, since time.Time) bool
}

// UserOf is the calling user. It is nil for a call with an API key, and on a server without keys.
func UserOf(ctx context.Context) *api.User { return infoOf(ctx).user }

// KeyOf is the calling API key. It is nil for a call with a user token, and on a server without keys.
func KeyOf(ctx context.Context) *api.Key { return infoOf(ctx).key }

// isToken tells a user token from an API key, which has no dots.
func isToken(secret string) bool { return strings.IndexByte(secret, '.') >= 0 }

// ticketOf is the ticket in a request's query, "" without one. If a request has an Authorization
// header its ticket does not count, so that the caller is unambiguous.
func (s *Server) ticketOf(r *http.Request, rt *Route) string {
	if !rt.tickets || r.URL.RawQuery == "" || r.Method != http.MethodGet || r.Header["Authorization"] != nil {
		return ""
	}
	return r.URL.Query().Get("ticket")
}

// userOfTicket finds the user of a ticket. It asks Redis within the limits of ordinary requests,
// because the limits of streams can be applied only once the user is known.
func (s *Server) userOfTicket(ctx context.Context, info *requestInfo, ticket string) (*api.User, error) {
	if err := s.requests.enter(info, 1); err != nil {
		return nil, err
	}
	defer s.requests.leave(info, 1)
	ctx, cancel := context.WithDeadline(ctx, info.started.Add(s.o.RequestTimeout))
	defer cancel()
	return s.o.Users.Take(ctx, ticket)
}

// identifyUser lets a user's request pass if the route is open to that user.
func (s *Server) identifyUser(info *requestInfo, rt *Route, find func() (*api.User, error)) error {
	info.byUser = true
	u, err := find()
	if err != nil {
		return err
	}
	info.user = u
	switch {
	case rt.User == "":
		return api.Errorf(api.CodeForbidden, "a user token does not open this call")
	case rt.User != AnyUser && !u.Allows(rt.User):
		return api.Errorf(api.CodeForbidden, "this user token lacks the scope %s", rt.User).With("scope", rt.User)
	}
	return nil
}

// userOfToken finds the user of a token. A token that this process does not remember has to be
// verified. If its address has sent too many tokens with false signatures, it waits for its
// turn.
func (s *Server) userOfToken(r *http.Request, info *requestInfo, token string) (*api.User, error) {
	if u, err := s.o.Users.Recall(token); u != nil || err != nil {
		return u, err
	}
	from, leave := prefixOf(s.o.Proxies.caller(r)), func() {}
	u, forged, err := s.o.Users.Verify(token, func() error {
		out, err := s.wrongTokens.check(r.Context(), from, info.started)
		if err == nil {
			leave = out
		}
		return err
	})
	leave()
	if forged {
		s.wrongTokens.count(from, info.started)
	}
	return u, err
}
