package api

// MaxKeyName is the size of an API key's name in bytes.
const MaxKeyName = 255

// Key is an API key without its secret, so that it can be shown. Its last use is noted up to 30 s
// late. The times are nil if it was never used, does not expire or was not revoked.
type Key struct {
	ID        string  `json:"id"`
	Name      string  `json:"name"`
	Scopes    []Scope `json:"scopes"`
	CreatedAt Time    `json:"created_at" swaggertype:"string" format:"date-time"`
	LastUsed  *Time   `json:"last_used_at,omitempty" swaggertype:"string" format:"date-time"`
	ExpiresAt *Time   `json:"expires_at,omitempty" swaggertype:"string" format:"date-time"`
	RevokedAt *Time   `json:"revoked_at,omitempty" swaggertype:"string" format:"date-time"`
}

// Allows reports whether the key covers a scope.
func (k *Key) Allows(need Scope) bool {
	for _, s := range k.Scopes {
		if s.Covers(need) {
			return true
		}
	}
	return false
}

// KeyList is the answer of GET /v1/keys, oldest first.
type KeyList struct {
	Items []Key  `json:"items"`
	Next  string `json:"next,omitempty"`
}

// KeyRequest is the body of POST /v1/keys. Blanks around the name are removed. ExpiresAt is in the
// future; nil: the key does not expire.
type KeyRequest struct {
	Name      string  `json:"name" validate:"required,maxbytes=255,printable" maxLength:"255" example:"dashboard"`
	Scopes    []Scope `json:"scopes" validate:"required,min=1,unique,dive,oneof=push push:all contacts chat sales sales:buy jobs jobs:work locks values values:read tokens users:erase ops:read ops admin" example:"ops:read"`
	ExpiresAt *Time   `json:"expires_at,omitempty" swaggertype:"string" format:"date-time"`
}

// NewKey is an API key that was just made. Its secret is shown only here.
type NewKey struct {
	Key
	Secret string `json:"key"`
}
