package api

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"time"
)

// IdempotencyTTL is how long the answer to a POST with an Idempotency-Key is kept.
const IdempotencyTTL = 24 * time.Hour

// Idempotency makes a POST take effect only once. The zero value, without a Key, has no effect. The
// server sets the fields, so the validator skips them.
type Idempotency struct {
	// Scope says within what the key is unique: the API key's id and the route. For chat messages
	// it also has the chat and the sender, and for reservations the sale and the user.
	Scope string `validate:"-"`
	// Key is the caller's Idempotency-Key, unquoted; "" when none was sent.
	Key string `validate:"-"`
	// Body is the SHA-256 of the request body's canonical JSON. The same key with another body is
	// refused with CodeIdempotencyReused.
	Body [32]byte `validate:"-"`
}

// Digest is the SHA-256 of the key, its scope, and further names if the call has them.
func (i Idempotency) Digest(also ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(append([]string{i.Scope, i.Key}, also...), "\x00")))
}

// Name is a short form of Digest, 24 characters of A-Z a-z 0-9 - _. The clear
// text of scope and key must not be in the name of a Redis key.
func (i Idempotency) Name(also ...string) string {
	sum := i.Digest(also...)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// IdempotencyReused is the error for a known key with another body.
func IdempotencyReused() error {
	return Errorf(CodeIdempotencyReused, "this Idempotency-Key was used with another body")
}
