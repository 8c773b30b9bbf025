package api

import (
	"slices"
	"time"
)

// The limits of the access by users.
const (
	MaxTokenTTL   = 24 * time.Hour   // from iat to exp of a user token
	MaxTokenAhead = time.Minute      // how far iat and nbf may lie ahead: clocks differ
	MaxToken      = 8 << 10          // bytes of a user token
	TicketTTL     = 60 * time.Second // how long a ticket can be used
	TokenAudience = "fanfare"        // must be in aud of a user token
	defaultTTL    = time.Hour        // of POST /v1/users/{user}/tokens
)

// UserScope is a right that a user token gives, for its own user only.
type UserScope string

// The scopes of user tokens.
const (
	UserScopeChat     UserScope = "chat"
	UserScopeContacts UserScope = "contacts"
	UserScopeDevices  UserScope = "devices"
	UserScopeBuy      UserScope = "buy"
)

// UserScopes lists the scopes in the order in which documents show them.
var UserScopes = []UserScope{UserScopeChat, UserScopeContacts, UserScopeDevices, UserScopeBuy}

// User is the user who calls with a user token, or with a ticket made with one. It must not be
// changed.
type User struct {
	ID     string
	Scopes []UserScope
	// IssuedAt and ExpiresAt are whole seconds.
	IssuedAt, ExpiresAt time.Time
	// KeyID names the key that signed the token, and KeyPrint tells it from another key of that name.
	KeyID, KeyPrint string
	// MadeBy is the id of the API key that asked fanfare for the token; "": signed by a backend.
	MadeBy string
}

// Allows reports whether the user's token has a scope.
func (u *User) Allows(need UserScope) bool { return slices.Contains(u.Scopes, need) }

// TokenRequest is the body of POST /v1/users/{user}/tokens.
type TokenRequest struct {
	Scopes []UserScope `json:"scopes" validate:"required,min=1,max=4,unique,dive,oneof=chat contacts devices buy" enums:"chat,contacts,devices,buy" example:"chat,devices"`
	// TTLSeconds is how long the token is valid; an hour if it is left out.
	TTLSeconds *int64 `json:"ttl_seconds,omitempty" validate:"omitempty,min=1,max=86400" minimum:"1" maximum:"86400" example:"3600"`
}

// TTL is how long the token is to be valid.
func (r *TokenRequest) TTL() time.Duration {
	if r.TTLSeconds == nil {
		return defaultTTL
	}
	return time.Duration(*r.TTLSeconds) * time.Second
}

// Token is the answer of POST /v1/users/{user}/tokens. The token is shown only in this answer.
type Token struct {
	Token     string `json:"token"`
	ExpiresAt Time   `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// Ticket is the answer of POST /v1/users/{user}/tickets: it opens one stream or long
// poll, within TicketTTL.
type Ticket struct {
	Ticket    string `json:"ticket"`
	ExpiresAt Time   `json:"expires_at" swaggertype:"string" format:"date-time"`
}

// Bye is the data of a stream's last event, when the key, token or ticket that opened it
// is no longer valid.
type Bye struct {
	Reason ByeReason `json:"reason" example:"expired"`
}

// ByeReason says why a user's stream ends.
type ByeReason string

// The reasons: the token's exp has come, or the token was revoked (also: the key
// that signed it is no longer trusted).
const (
	ByeExpired ByeReason = "expired"
	ByeRevoked ByeReason = "revoked"
)
