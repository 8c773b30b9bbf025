package apikeys

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

const prefix = "ff_"

// newSecret makes a key's id and its secret part, both lower-case base32 of
// random bytes: 128 and 160 bits.
func newSecret() (id, random string) {
	return randomText(16), randomText(20)
}

func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// split takes a presented secret apart; false when it does not have the form of fanfare's
// secrets.
func split(secret string) (id, random string, ok bool) {
	rest, ok := strings.CutPrefix(secret, prefix)
	if !ok || len(rest) > 128 {
		return "", "", false
	}
	id, random, ok = strings.Cut(rest, "_")
	return id, random, ok && id != "" && random != ""
}

// hash is the form in which the secret part is on record.
func hash(random string) string {
	sum := sha256.Sum256([]byte(random))
	return hex.EncodeToString(sum[:])
}

// plain reports whether text consists of a-z and 0-9.
func plain(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// IDOf returns the id of a key that is given by its id or as a whole secret.
func IDOf(key string) string {
	if id, _, ok := split(key); ok {
		return id
	}
	return key
}
