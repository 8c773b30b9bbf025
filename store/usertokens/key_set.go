package usertokens

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fanfare/store/record"
)

const (
	// ownPrefix begins the kid of fanfare's own keys; no other may.
	ownPrefix = "ff."

	maxKeysFile = 1 << 20 // bytes
	maxKeyID    = 128     // bytes of a kid
	minRSABits  = 2048
	maxRSABits  = 8192 // a larger one takes too long to verify with
	minHMACSize = 32   // bytes
)

// key verifies the signatures of one kid. The key, not the token, determines the algorithm.
type key struct {
	algorithm jose.SignatureAlgorithm
	value     any
	// keyPrint is the same for the same key only, and does not tell a secret one.
	keyPrint string
}

// newKey makes a key with its print: the thumbprint of a public key (RFC 7638), or a MAC with a
// secret key, which tells as little as any token that the key has signed.
func newKey(algorithm jose.SignatureAlgorithm, value any) (*key, error) {
	if secret, is := value.([]byte); is {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("thumbprint"))
		return &key{algorithm, value, base64.RawURLEncoding.EncodeToString(mac.Sum(nil))}, nil
	}
	sum, err := (&jose.JSONWebKey{Key: value}).Thumbprint(crypto.SHA256)
	return &key{algorithm, value, base64.RawURLEncoding.EncodeToString(sum)}, err
}

// keySet holds all keys by their kid. It is never changed once published.
type keySet map[string]*key

// algorithms are the algorithms that a key may have.
var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA, jose.RS256, jose.HS256}

// readKeys reads a JWKS file; "" is no file and has no keys. skipped is called for keys that are not for
// signatures.
func readKeys(name string, skipped func(kid, why string)) (keySet, error) {
	if name == "" {
		return keySet{}, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxKeysFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxKeysFile {
		return nil, fmt.Errorf("has more than %d bytes", maxKeysFile)
	}
	return parseKeys(text, skipped)
}

// parseKeys reads a JWKS. An error names the key and never shows its material.
func parseKeys(text []byte, skipped func(kid, why string)) (keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New(`is not a JSON Web Key Set: {"keys": [...]}`)
	}
	if len(set.Keys) == 0 {
		return nil, errors.New("has no keys")
	}
	out := make(keySet, len(set.Keys))
	for i, text := range set.Keys {
		var p purpose
		var one jose.JSONWebKey
		err := json.Unmarshal(text, &p)
		why := p.other()
		if err == nil && why == "" {
			err = json.Unmarshal(text, &one)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("keys[%d]: is not a key of a supported kind (EC P-256, OKP Ed25519, RSA, oct)", i)
		case p.Type != "oct" && p.Private != nil:
			return nil, fmt.Errorf("keys[%d]: is a private key; give the public one and keep this where tokens are signed", i)
		case why != "":
			skipped(p.KeyID, why)
			continue
		}
		k, err := usable(&one)
		if err != nil {
			return nil, fmt.Errorf("keys[%d]: %w", i, err)
		}
		if _, twice := out[one.KeyID]; twice {
			return nil, fmt.Errorf("keys[%d]: the kid %q is there twice", i, one.KeyID)
		}
		out[one.KeyID] = k
	}
	if len(out) == 0 {
		return nil, errors.New("has no key for signatures")
	}
	return out, nil
}

// purpose is what a JWK says about its use.
type purpose struct {
	KeyID      string          `json:"kid"`
	Type       string          `json:"kty"`
	Curve      string          `json:"crv"`
	Use        string          `json:"use"`
	Operations []string        `json:"key_ops"`
	Algorithm  string          `json:"alg"`
	Private    json.RawMessage `json:"d"`
}

// encryption has how the names of algorithms begin that encrypt (RFC 7518, 4.1 and 5.1).
var encryption = []string{"RSA", "ECDH", "PBES2", "A128", "A192", "A256", "dir"}

// other says why a key is not for verifying signatures (RFC 7517, 4.2 to 4.4, and RFC 8037, 2); "": it is.
func (p *purpose) other() string {
	switch {
	case p.Use != "" && p.Use != "sig":
		return "its use is " + p.Use
	case p.Operations != nil && !slices.Contains(p.Operations, "verify"):
		return "its key_ops do not have verify"
	case slices.ContainsFunc(encryption, func(name string) bool { return strings.HasPrefix(p.Algorithm, name) }):
		return "its alg is " + p.Algorithm
	case p.Curve == "X25519" || p.Curve == "X448":
		return "its crv is " + p.Curve
	}
	return ""
}

// usable checks a key and finds its algorithm.
func usable(one *jose.JSONWebKey) (*key, error) {
	algorithm, err := algorithmOf(one.Key)
	switch {
	case err != nil:
		return nil, err
	case one.KeyID == "" || len(one.KeyID) > maxKeyID:
		return nil, fmt.Errorf("kid must have 1 to %d bytes", maxKeyID)
	case strings.HasPrefix(one.KeyID, ownPrefix):
		return nil, fmt.Errorf("a kid that begins with %q is fanfare's own", ownPrefix)
	case one.Algorithm != "" && one.Algorithm != string(algorithm):
		return nil, fmt.Errorf("alg is %q; a key of this kind signs with %s", one.Algorithm, algorithm)
	}
	return newKey(algorithm, one.Key)
}

// algorithmOf is the signature algorithm of a key, by the key's kind.
func algorithmOf(value any) (jose.SignatureAlgorithm, error) {
	switch k := value.(type) {
	case *ecdsa.PublicKey:
		if k.Curve != elliptic.P256() {
			return "", errors.New("an EC key must be on the curve P-256")
		}
		return jose.ES256, nil
	case ed25519.PublicKey:
		return jose.EdDSA, nil
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return "", fmt.Errorf("an RSA key must have %d to %d bits, not %d", minRSABits, maxRSABits, bits)
		}
		return jose.RS256, nil
	case []byte:
		if len(k) < minHMACSize {
			return "", fmt.Errorf("an oct key must have at least %d bytes, not %d", minHMACSize, len(k))
		}
		return jose.HS256, nil
	}
	return "", errors.New("is not a key of a supported kind (EC P-256, OKP Ed25519, RSA, oct)")
}

// newOwnKey makes a key of fanfare's own.
func newOwnKey() (record.TokenKey, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return record.TokenKey{}, err
	}
	return record.TokenKey{ID: hex.EncodeToString(public[:8]), Private: hex.EncodeToString(private.Seed())}, nil
}

// Rotate makes a new key of fanfare's own and returns its kid. Servers know it within 10 s and
// sign with it a minute later. Tokens of earlier keys stay valid until they expire. With
// endTokens they end with their keys, within 10 s.
func Rotate(ctx context.Context, rec *record.DB, endTokens bool) (kid string, err error) {
	k, err := newOwnKey()
	if err == nil {
		err = rec.RotateTokenKey(ctx, k, endTokens)
	}
	if err != nil {
		return "", fmt.Errorf("rotate the key of user tokens: %w", err)
	}
	return ownPrefix + k.ID, nil
}

// ownKey is one of fanfare's own keys, with the time from which it signs.
type ownKey struct {
	kid     string
	private ed25519.PrivateKey
	check   *key // verifies what private has signed
	from    time.Time
}

func parseOwnKey(k record.TokenKey) (ownKey, error) {
	seed, err := hex.DecodeString(k.Private)
	if err != nil || len(seed) != ed25519.SeedSize {
		return ownKey{}, fmt.Errorf("the row %s of token_keys is no Ed25519 key", k.ID)
	}
	private := ed25519.NewKeyFromSeed(seed)
	check, err := newKey(jose.EdDSA, private.Public())
	return ownKey{kid: ownPrefix + k.ID, private: private, check: check}, err
}
