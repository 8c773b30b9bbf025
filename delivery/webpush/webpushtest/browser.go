package webpushtest

import (
	"bytes"
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
	"net/http"

	"fanfare/api"
)

const (
	saltSize = 16
	pointLen = 65
	tagSize  = 16
	maxBody  = 4096
)

// Browser is a subscription together with its private key, as a browser has it.
type Browser struct {
	api.Subscription
	key  *ecdh.PrivateKey
	auth []byte
	// ended is the status that its push service answers once the subscription has ended; 0: it has not.
	ended int
	seen  map[string]bool // salts and public keys
}

// Token is the token of the browser's device.
func (b *Browser) Token() string { return api.TokenOfEndpoint(b.Endpoint) }

// Subscribe makes a subscription at a host of a push service, such as fcm.googleapis.com.
func (s *Server) Subscribe(host string) (*Browser, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	auth := make([]byte, 16)
	if _, err := rand.Read(auth); err != nil {
		return nil, fmt.Errorf("make auth: %w", err)
	}
	b := &Browser{key: key, auth: auth, seen: map[string]bool{}}
	path := "/push/" + rand.Text()
	b.Endpoint = "https://" + host + path
	b.Keys = api.SubscriptionKeys{P256dh: encode(key.PublicKey().Bytes()), Auth: encode(auth)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.browsers[host+path] = b
	return b, nil
}

// Unsubscribe ends a subscription: its push service answers 410.
func (s *Server) Unsubscribe(b *Browser) { s.end(http.StatusGone, b) }

// Expire lets subscriptions expire: their push service does not know them any more and answers 404 (RFC 8030, 7.3).
func (s *Server) Expire(list ...*Browser) { s.end(http.StatusNotFound, list...) }

func (s *Server) end(status int, list ...*Browser) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range list {
		b.ended = status
	}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// open decrypts a body (RFC 8188, 2; RFC 8291, 3.4), and returns the text and its padding. A sender that
// uses a salt or a key pair twice is refused.
func (b *Browser) open(body []byte) (text []byte, padding int, err error) {
	if len(body) < saltSize+5+pointLen+tagSize+1 {
		return nil, 0, errors.New("the body is too short")
	}
	salt, record, sender := body[:saltSize], int(binary.BigEndian.Uint32(body[saltSize:])), body[saltSize+5:saltSize+5+pointLen]
	sealed := body[saltSize+5+pointLen:]
	switch {
	case body[saltSize+4] != pointLen:
		return nil, 0, fmt.Errorf("the key id has %d bytes", body[saltSize+4])
	case record < 18 || len(sealed) >= record:
		return nil, 0, fmt.Errorf("%d bytes are more than one record of %d", len(sealed), record)
	case b.seen[string(salt)] || b.seen[string(sender)]:
		return nil, 0, errors.New("the salt or the key was used before")
	}
	b.seen[string(salt)], b.seen[string(sender)] = true, true
	gcm, nonce, err := b.cipherOf(salt, sender)
	if err != nil {
		return nil, 0, err
	}
	padded, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("decrypt: %w", err)
	}
	text = bytes.TrimRight(padded, "\x00")
	if len(text) == 0 || text[len(text)-1] != 2 {
		return nil, 0, errors.New("the last record has not its delimiter")
	}
	return text[:len(text)-1], len(padded) - len(text), nil
}

// cipherOf derives the key and the nonce of a message.
func (b *Browser) cipherOf(salt, sender []byte) (cipher.AEAD, []byte, error) {
	public, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key id: %w", err)
	}
	shared, err := b.key.ECDH(public)
	if err != nil {
		return nil, nil, fmt.Errorf("agree on a secret: %w", err)
	}
	derive := func(secret, salt []byte, info string, size int) []byte {
		if err != nil {
			return nil
		}
		var key []byte
		key, err = hkdf.Key(sha256.New, secret, salt, info, size)
		return key
	}
	secret := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	key := derive(secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce := derive(secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, nil, fmt.Errorf("derive the key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fmt.Errorf("use the key: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, nonce, err
}
