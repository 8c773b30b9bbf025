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
