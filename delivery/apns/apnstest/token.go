package apnstest

import (
	"crypto/ecdsa"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

// tokenLife is how long APNs accepts a provider token.
const tokenLife = time.Hour

// tokenChecker checks provider tokens. A signature is verified once per token.
type tokenChecker struct {
	o   *Options
	key *ecdsa.PublicKey

	mu   sync.Mutex
	seen map[string]verdict
}

// verdict says whether a token is genuine, and when it was issued.
type verdict struct {
	ok     bool
	issued time.Time
}

// newTokenChecker makes a checker that knows one key, the key in KeyFile.
func newTokenChecker(o *Options, f *files) *tokenChecker {
	return &tokenChecker{o: o, key: &f.key.PublicKey, seen: make(map[string]verdict)}
}

// check returns Apple's reason against a bearer token, or "".
func (c *tokenChecker) check(bearer string) string {
	if bearer == "" {
		return "MissingProviderToken"
	}
	v := c.verdict(bearer)
	if !v.ok {
		return "InvalidProviderToken"
	}
	if age := c.o.Now().Sub(v.issued); age > tokenLife || age < -time.Minute {
		return "ExpiredProviderToken"
	}
	return ""
}

// verdict remembers tokens, because checking a signature costs more than all other work for a
// request. A flood of bad tokens empties the memory.
func (c *tokenChecker) verdict(bearer string) verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.seen[bearer]
	if !ok {
		v = c.verify(bearer)
		if len(c.seen) >= 1000 {
			clear(c.seen)
		}
		c.seen[bearer] = v
	}
	return v
}

// verify checks signature, key id and team; check compares iat with its clock.
func (c *tokenChecker) verify(bearer string) verdict {
	var claims struct {
		jwt.RegisteredClaims
	}
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"ES256"}), jwt.WithoutClaimsValidation())
	token, err := parser.ParseWithClaims(bearer, &claims, func(*jwt.Token) (any, error) { return c.key, nil })
	if err != nil || claims.IssuedAt == nil {
		return verdict{}
	}
	ok := token.Header["kid"] == c.o.KeyID && claims.Issuer == c.o.TeamID
	return verdict{ok: ok, issued: claims.IssuedAt.Time}
}
