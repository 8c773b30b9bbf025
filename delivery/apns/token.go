package apns

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"fanfare/delivery/h2"

	"github.com/golang-jwt/jwt/v4"
)

// Apple accepts a provider token for an hour, and a new one at most every 20 minutes.
const (
	tokenLife = 45 * time.Minute
	tokenRest = 20 * time.Minute
)

// providerToken is one signed token. It never changes.
type providerToken struct {
	bearer string // with "bearer " in front
	issued time.Time
}

// tokenSource makes the provider tokens of one key. A token is handed out only while it is valid for
// at least tokenRest, so that every connection can keep its first token for that long.
type tokenSource struct {
	key         *ecdsa.PrivateKey
	keyID, team string
	sum         [sha256.Size]byte // of the credentials
	now         func() time.Time

	mu      sync.Mutex
	current *providerToken
	frozen  time.Time // no new token before
	err     error     // of the last minting
}

// newTokenSource makes a token, so that a key that cannot sign is refused at once.
func newTokenSource(c *credentials, now func() time.Time) (*tokenSource, error) {
	s := &tokenSource{key: c.key, keyID: c.keyID, team: c.team, sum: c.sum, now: now}
	if _, err := s.sign(now()); err != nil {
		return nil, err
	}
	return s, nil
}

// sign makes a token. Apple reads iat in seconds, and requires alg, kid and iss, and nothing else.
func (s *tokenSource) sign(at time.Time) (*providerToken, error) {
	t := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"iss": s.team, "iat": at.Unix()})
	t.Header["kid"] = s.keyID
	signed, err := t.SignedString(s.key)
	if err != nil {
		return nil, fmt.Errorf("sign provider token: %w", err)
	}
	return &providerToken{bearer: "bearer " + signed, issued: at.Round(0)}, nil // wall time: APNs judges iat by it
}

// age is how old the token is by wall time. A token from the future, which a clock signed that was put back since,
// counts as too old.
func (t *providerToken) age(now time.Time) time.Duration {
	if age := now.Sub(t.issued); age >= 0 {
		return age
	}
	return tokenLife
}

// fresh is a token with at least tokenRest left of its tokenLife.
func (s *tokenSource) fresh() (*providerToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.current != nil && s.current.age(now) <= tokenLife-tokenRest {
		return s.current, nil
	}
	return s.mint(now)
}

// renew is called when APNs found old expired. It returns the newest token, and mints one if old
// is the newest and older than tokenRest.
func (s *tokenSource) renew(old *providerToken) (*providerToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if c := s.current; c != nil && (c != old || c.age(now) < tokenRest) {
		return c, nil
	}
	return s.mint(now)
}

// mint replaces the current token; mu is held. While frozen the old one stays.
func (s *tokenSource) mint(now time.Time) (*providerToken, error) {
	if s.current != nil && now.Before(s.frozen) {
		return s.current, nil
	}
	t, err := s.sign(now)
	s.err = err
	if err != nil {
		return nil, err
	}
	s.current = t
	return t, nil
}

// freeze forbids new tokens for tokenRest (TooManyProviderTokenUpdates).
func (s *tokenSource) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = s.now().Add(tokenRest)
}

// failure is the error of the last attempt to make a token.
func (s *tokenSource) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// connToken is the provider token in use on one connection.
type connToken struct {
	source *tokenSource

	mu      sync.Mutex
	current *providerToken
	changed time.Time // when current last changed on this connection
}

// newConnToken is the token that a new connection starts with.
func newConnToken(s *tokenSource) (*connToken, error) {
	t, err := s.fresh()
	if err != nil {
		return nil, err
	}
	return &connToken{source: s, current: t}, nil
}

// tokenOf is the token in use on a connection, nil with a certificate.
func tokenOf(c *h2.Conn) *connToken {
	t, _ := c.Value().(*connToken)
	return t
}

// bearer is the token to send on a connection, nil with a certificate. It
// changes when the present one is at the end of its life.
func bearer(c *h2.Conn) (*providerToken, error) {
	t := tokenOf(c)
	if t == nil {
		return nil, nil
	}
	present := t.load()
	if present.age(t.source.now()) < tokenLife {
		return present, nil
	}
	next, err := t.source.fresh()
	if err != nil {
		return nil, err
	}
	t.replace(c, present, next)
	return t.load(), nil
}

// load is the present token.
func (t *connToken) load() *providerToken {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// replace moves a connection from one token to the next, unless another request
// did. A connection whose token changed less than tokenRest ago is retired
// instead: the next connection starts with the new token.
func (t *connToken) replace(c *h2.Conn, old, next *providerToken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != old || next == old {
		return
	}
	now := t.source.now()
	if !t.changed.IsZero() && now.Sub(t.changed) < tokenRest {
		c.Retire()
		return
	}
	t.changed, t.current = now, next
}
