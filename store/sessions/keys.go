package sessions

import (
	"crypto/sha256"
	"encoding/base64"
	"time"
)

const (
	// idle is how long a session lasts without being used.
	idle = time.Hour
	// life is how long a session lasts at most.
	life = 12 * time.Hour
)

// keyOf is the key of a session.
func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "ff:{session:" + base64.RawURLEncoding.EncodeToString(sum[:]) + "}:of"
}
