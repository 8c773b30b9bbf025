package usertokens

import (
	"crypto/sha256"
	"encoding/base64"
)

// ticketPrefix begins the keys of tickets.
const ticketPrefix = "ff:{ticket:"

// ticketKey is the key of a ticket that waits to be taken.
func ticketKey(ticket string) string {
	sum := sha256.Sum256([]byte(ticket))
	return ticketPrefix + base64.RawURLEncoding.EncodeToString(sum[:18]) + "}:of"
}
