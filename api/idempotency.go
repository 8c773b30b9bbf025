package api

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Idempotency asks that a POST has its effect once. Its zero value (no Key)
// asks for nothing. The server sets the fields, so the validator skips them.
type Idempotency struct {
	// Scope is what the key is unique within: the API key's id and the route
	// (chat messages add chat and sender, reservations sale and user).
	Scope string `validate:"-"`
	// Key is the caller's Idempotency-Key, unquoted; "" when none was sent.
	Key string `validate:"-"`
	// Body is the SHA-256 of the request body's canonical JSON: the same key
	// with another body is CodeIdempotencyReused.
	Body [32]byte `validate:"-"`
}

// Digest is the SHA-256 of everything within which the key is unique: its scope, and further
// names if the call has them.
func (i Idempotency) Digest(also ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(append([]string{i.Scope, i.Key}, also...), "\x00")))
}

// Name is a short form of Digest, 24 characters of A-Z a-z 0-9 - _. Neither scope nor key may
// appear in the name of a Redis key, or in the clear.
func (i Idempotency) Name(also ...string) string {
	sum := i.Digest(also...)
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// IdempotencyReused is the refusal of another body under a known key.
func IdempotencyReused() error {
	return Errorf(CodeIdempotencyReused, "this Idempotency-Key was used with another body")
}
