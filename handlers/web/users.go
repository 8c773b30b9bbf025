package web

import (
	"context"
	"net/http"
	"reflect"
	"strings"

	"fanfare/api"
)

// AnyUser opens a route to every user token, whatever its scopes.
const AnyUser api.UserScope = "*"

// Users says whom user tokens and tickets stand for. Its zero value knows none: tokens
// are wrong API keys then.
type Users struct {
	// Recall finds the user of a token that Verify has taken before, nil of any
	// other. It must be quick. A token that has ended is api.CodeUnauthorized.
	Recall func(token string) (*api.User, error)
	// Verify checks a token. One that is not good is api.CodeUnauthorized; genuine
	// tells whether it was signed by a key that counts.
	Verify func(token string) (u *api.User, genuine bool, err error)
	// Take uses a ticket up and finds its user.
	Take func(ctx context.Context, ticket string) (*api.User, error)
	// Ended says why what a user calls with no longer stands, "" as long as it does.
	Ended func(*api.User) api.ByeReason
}

// UserOf is the user who calls, nil when an API key does, or nobody on an open server.
func UserOf(ctx context.Context) *api.User { return infoOf(ctx).user }

// isToken tells a user token from an API key, which has no dots.
func (u *Users) isToken(secret string) bool {
	return strings.IndexByte(secret, '.') >= 0 && u.Verify != nil
}

// ticketOf is the ticket in a request's query, "" without one. Nothing else says who
// calls then: what has an Authorization header has no ticket.
func (s *Server) ticketOf(r *http.Request, rt *Route) string {
	if !rt.tickets || r.URL.RawQuery == "" || r.Method != http.MethodGet || s.users.Take == nil || r.Header["Authorization"] != nil {
		return ""
	}
	return r.URL.Query().Get("ticket")
}

// identifyUser lets a user's request pass if the route is his.
func (s *Server) identifyUser(r *http.Request, info *requestInfo, rt *Route, find func() (*api.User, error)) error {
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

// userOfToken finds the user of a token. What is not remembered has to be verified,
// which an address gets only as long as it has not sent too many that nobody signed.
func (s *Server) userOfToken(r *http.Request, info *requestInfo, token string) (*api.User, error) {
	if u, err := s.users.Recall(token); u != nil || err != nil {
		return u, err
	}
	from := addressOf(r)
	if err := s.wrongTokens.refuse(from, info.started); err != nil {
		return nil, err
	}
	u, genuine, err := s.users.Verify(token)
	if err != nil && !genuine {
		return nil, s.wrongTokens.count(from, info.started, err)
	}
	return u, err
}

// Standing is an error once what the caller's user came with no longer stands: a long
// poll asks before it answers.
func (s *Server) Standing(ctx context.Context) error {
	if u := infoOf(ctx).user; u != nil && s.users.Ended(u) != "" {
		return api.Errorf(api.CodeUnauthorized, "the user token is not valid any more")
	}
	return nil
}

// addSubject plans the fields that say who acts: the parameters named user, and in the
// body what its tag names.
func (p *plan) addSubject(f reflect.StructField) {
	if f.Tag.Get("path") == "user" || f.Tag.Get("query") == "user" {
		p.subject = append(p.subject, f.Index)
	}
	if f.Name != "Body" || f.Type.Kind() != reflect.Struct {
		return
	}
	for _, member := range reflect.VisibleFields(f.Type) {
		if member.Tag.Get("subject") != "" {
			p.subject = append(p.subject, append(f.Index[:len(f.Index):len(f.Index)], member.Index...))
		}
	}
}

// fillSubject holds a user's request to himself: who acts must be he, or be left out.
func (p *plan) fillSubject(in reflect.Value, u *api.User) error {
	for _, index := range p.subject {
		switch field := in.FieldByIndex(index); field.String() {
		case "":
			field.SetString(u.ID)
		case u.ID:
		default:
			return api.Errorf(api.CodeForbidden, "a user token opens only what is its own user's")
		}
	}
	return nil
}
