package api

// Idempotency asks that a POST has its effect once. Its zero value (no Key)
// asks for nothing.
type Idempotency struct {
	// Scope is what the key is unique within: the API key's id and the route
	// (chat messages add chat and sender, reservations sale and user).
	Scope string
	// Key is the caller's Idempotency-Key, unquoted; "" when none was sent.
	Key string
	// Body is the SHA-256 of the request body's canonical JSON: the same key
	// with another body is CodeIdempotencyReused.
	Body [32]byte
}
