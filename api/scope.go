package api

import "time"

// Scope is a right that an API key carries.
type Scope string

// The scopes there are. ScopeAdmin covers all, ScopeSales covers ScopeSalesBuy.
const (
	ScopePush     Scope = "push"
	ScopeContacts Scope = "contacts"
	ScopeChat     Scope = "chat"
	ScopeSales    Scope = "sales"
	ScopeSalesBuy Scope = "sales:buy"
	ScopeTokens   Scope = "tokens"
	ScopeOps      Scope = "ops"
	ScopeAdmin    Scope = "admin"
)

// Scopes lists every scope, in the order documents show them.
var Scopes = []Scope{ScopePush, ScopeContacts, ScopeChat, ScopeSales, ScopeSalesBuy, ScopeTokens, ScopeOps, ScopeAdmin}

// Covers tells whether having s allows what needs other.
func (s Scope) Covers(other Scope) bool {
	return s == ScopeAdmin || s == other || (s == ScopeSales && other == ScopeSalesBuy)
}

// Key is an API key as it may be shown: never the secret.
type Key struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Scopes    []Scope    `json:"scopes"`
	CreatedAt Time       `json:"created_at"`
	LastUsed  *Time      `json:"last_used_at,omitempty"`
	ExpiresAt *Time      `json:"expires_at,omitempty"` // nil: it never does
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
}

// Allows tells whether the key covers a scope.
func (k *Key) Allows(need Scope) bool {
	for _, s := range k.Scopes {
		if s.Covers(need) {
			return true
		}
	}
	return false
}
