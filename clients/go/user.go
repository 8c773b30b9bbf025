package fanfare

import (
	"context"
	"net/http"
	"time"
)

// UserToken lets an app or a page call fanfare for one user.
type UserToken struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Ticket opens one stream or long poll as ?ticket=, for pages whose EventSource can send no header.
type Ticket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Badge is the number on the icon of a user's app.
type Badge struct {
	Count   int64 `json:"count"`   // 0 to 99,999
	Version int64 `json:"version"` // rises with each change; 0: there is no badge
	// Since is when the badge began at 0. A later time than before says that the server had lost the badge.
	Since time.Time `json:"since"`
}

// GetBadge reads a user's badge.
func (c *Client) GetBadge(ctx context.Context, user string, s ...Setting) (badge Badge, err error) {
	err = c.Call(ctx, http.MethodGet, Path("v1", "users", user, "badge"), nil, &badge, s...)
	return badge, err
}

// SetBadge sets a user's badge. With show the user's iPhones show it at once, at most once a minute.
func (c *Client) SetBadge(ctx context.Context, user string, count int64, show bool, s ...Setting) (badge Badge, err error) {
	err = c.Call(ctx, http.MethodPut, Path("v1", "users", user, "badge"), map[string]any{"count": count, "clear": show}, &badge, s...)
	return badge, err
}

// AddBadge adds to a user's badge, which stays between 0 and 99,999.
func (c *Client) AddBadge(ctx context.Context, user string, delta int64, s ...Setting) (badge Badge, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "users", user, "badge"), map[string]any{"delta": delta}, &badge, s...)
	return badge, err
}

// CreateUserToken makes a token with scopes of chat, contacts, devices and buy. It ends after a time to live of at most
// 24 h; 0 is an hour. The key needs the scope tokens.
func (c *Client) CreateUserToken(ctx context.Context, user string, scopes []string, ttl time.Duration, s ...Setting) (made UserToken, err error) {
	body := map[string]any{"scopes": scopes}
	if ttl > 0 {
		body["ttl_seconds"] = int64((ttl + time.Second - 1) / time.Second)
	}
	err = c.Call(ctx, http.MethodPost, Path("v1", "users", user, "tokens"), body, &made, s...)
	return made, err
}

// RevokeUserTokens ends all tokens of a user that were made up to now.
func (c *Client) RevokeUserTokens(ctx context.Context, user string, s ...Setting) error {
	return c.Call(ctx, http.MethodPost, Path("v1", "users", user, "tokens", "revoke"), nil, nil, s...)
}

// CreateTicket makes a ticket. The client must have a token of this user.
func (c *Client) CreateTicket(ctx context.Context, user string, s ...Setting) (made Ticket, err error) {
	err = c.Call(ctx, http.MethodPost, Path("v1", "users", user, "tickets"), nil, &made, s...)
	return made, err
}
