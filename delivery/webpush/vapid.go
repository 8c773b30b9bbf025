package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v4"
)

const (
	// tokenLife is how long a token is valid; push services take at most 24 h (RFC 8292, 2).
	tokenLife = 12 * time.Hour
	// renewAfter is the age at which a token is replaced.
	renewAfter = tokenLife / 2
	// maxTokens is how many origins a key has tokens for.
	maxTokens = 1000
	keyBlock  = "PRIVATE KEY" // PEM with PKCS #8
)

// NewKey makes a key for VAPID: the private key as PEM with PKCS #8, and the public one as browsers and
// the apps file take it.
func NewKey() (private []byte, public string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, "", fmt.Errorf("encode the key: %w", err)
	}
	public, err = publicOf(key)
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), public, err
}

// publicOf is the public key as browsers take it: base64url of the uncompressed point.
func publicOf(key *ecdsa.PrivateKey) (string, error) {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "", fmt.Errorf("encode the public key: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(point), nil
}

// readKey reads a private key: PEM with PKCS #8 or SEC 1, or its 32 bytes in base64url, as other libraries write
// it. No error shows what the file contains.
func readKey(file string) (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	parsed, err := parseKey(raw)
	if err != nil {
		return nil, errors.New(file + " has neither a private key in PEM, such as `fanfare vapid create` writes, nor one of 43 characters of base64url")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New(file + " has no key on P-256, which ES256 needs")
	}
	return key, nil
}

// parseKey reads the first private key of PEM, or base64url.
func parseKey(raw []byte) (any, error) {
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		switch block.Type {
		case keyBlock:
			return x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY": // RFC 5915; openssl writes EC PARAMETERS before it
			return x509.ParseECPrivateKey(block.Bytes)
		}
	}
	scalar, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.TrimSpace(string(raw)), "="))
	if err != nil {
		return nil, err
	}
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar)
}

// vapidKey is a key with which requests say who sends them (RFC 8292), and its tokens.
type vapidKey struct {
	key             *ecdsa.PrivateKey
	public, subject string
	now             func() time.Time

	mu     sync.Mutex
	tokens map[string]*vapidToken // by origin
}

// vapidToken is a signed token. It never changes.
type vapidToken struct {
	header string // the whole value of Authorization
	signed time.Time
}

func newVAPIDKey(c *appConfig, now func() time.Time) *vapidKey {
	return &vapidKey{key: c.key, public: c.public, subject: c.subject, now: now, tokens: map[string]*vapidToken{}}
}

// token returns the token for an origin, such as https://fcm.googleapis.com. The tokens are kept for the
// origins that were signed for last.
func (k *vapidKey) token(origin string) (*vapidToken, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now().Round(0) // wall time: push services judge exp by it
	t := k.tokens[origin]
	if t != nil && !now.Before(t.signed) && now.Sub(t.signed) < renewAfter {
		return t, nil
	}
	signed, err := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"aud": origin, "exp": now.Add(tokenLife).Unix(), "sub": k.subject,
	}).SignedString(k.key)
	if err != nil {
		return nil, fmt.Errorf("sign VAPID: %w", err)
	}
	if t == nil && len(k.tokens) == maxTokens {
		k.forgetOldest()
	}
	t = &vapidToken{header: "vapid t=" + signed + ", k=" + k.public, signed: now}
	k.tokens[origin] = t
	return t, nil
}

// forgetOldest makes room for a token.
func (k *vapidKey) forgetOldest() {
	oldest := ""
	for origin, t := range k.tokens {
		if oldest == "" || t.signed.Before(k.tokens[oldest].signed) {
			oldest = origin
		}
	}
	delete(k.tokens, oldest)
}
