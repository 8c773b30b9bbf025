package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"

	"fanfare/api"
)

const (
	saltSize = 16
	authSize = 16
	tagSize  = 16
	pointLen = 65 // bytes of an uncompressed point on P-256
	// recordSize is the size of the only record, and what push services have to take (RFC 8030, 7.2).
	recordSize = 4096
	headerSize = saltSize + 4 + 1 + pointLen
	// delimiter ends the text of the last record (RFC 8188, 2).
	delimiter = 2
	// maxPlain is the size of the largest payload: 3,993 bytes.
	maxPlain = recordSize - headerSize - tagSize - 1
	// padTo is the step of the sizes of what is sent, which says little about the length of the text.
	padTo = 256
)

// recipient is a browser: where its notifications go, and the keys that they are encrypted with.
type recipient struct {
	host, path string
	key        *ecdh.PublicKey
	auth       []byte
}

// recipientOf reads a target, see api.Subscription. Its errors show nothing of it.
func recipientOf(target string) (*recipient, error) {
	s, ok := api.ParseTarget(target)
	if !ok {
		return nil, errors.New("the target is no subscription")
	}
	r := &recipient{}
	if r.host, r.path, ok = api.ParseEndpoint(s.Endpoint); !ok {
		return nil, errors.New("the target has no endpoint")
	}
	point, err := base64.RawURLEncoding.DecodeString(s.Keys.P256dh)
	if err == nil {
		r.key, err = ecdh.P256().NewPublicKey(point)
	}
	if err != nil {
		return nil, errors.New("the target's p256dh is no point on P-256")
	}
	if r.auth, err = base64.RawURLEncoding.DecodeString(s.Keys.Auth); err != nil || len(r.auth) != authSize {
		return nil, fmt.Errorf("the target's auth has not %d bytes", authSize)
	}
	return r, nil
}

// encrypt makes the body that only the recipient can read (RFC 8291): one record, with a new key pair and a
// new salt.
func encrypt(payload []byte, to *recipient) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	salt := make([]byte, saltSize)
	if _, err := rand.Read(salt); err != nil {
		return nil, fmt.Errorf("make a salt: %w", err)
	}
	return seal(padded(payload), to, key, salt)
}

// padded adds the delimiter and the padding, up to the next step of padTo.
func padded(payload []byte) []byte {
	size := min((len(payload)+padTo)/padTo*padTo, maxPlain+1)
	text := append(make([]byte, 0, size), payload...)
	return append(text, delimiter)[:size]
}

// seal encrypts the text of the only record with this key pair and salt (RFC 8291, 3.4; RFC 8188, 2).
func seal(text []byte, to *recipient, key *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	shared, err := key.ECDH(to.key)
	if err != nil {
		return nil, fmt.Errorf("agree on a secret: %w", err)
	}
	own := key.PublicKey().Bytes()
	secret, err := hkdf.Key(sha256.New, shared, to.auth, "WebPush: info\x00"+string(to.key.Bytes())+string(own), sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the secret: %w", err)
	}
	content, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, fmt.Errorf("derive the key: %w", err)
	}
	nonce, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, fmt.Errorf("derive the nonce: %w", err)
	}
	block, err := aes.NewCipher(content)
	if err != nil {
		return nil, fmt.Errorf("use the key: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use the key: %w", err)
	}
	body := append(make([]byte, 0, headerSize+len(text)+tagSize), salt...)
	body = append(binary.BigEndian.AppendUint32(body, recordSize), pointLen)
	return gcm.Seal(append(body, own...), nonce, text, nil), nil
}
