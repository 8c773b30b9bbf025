package storetest

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"testing"

	"fanfare/api"
)

// Subscription is a browser's subscription at this endpoint, with keys of its own.
func Subscription(t testing.TB, endpoint string) api.Subscription {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	Must(t, err)
	auth := make([]byte, 16)
	_, _ = rand.Read(auth) // never fails
	encode := base64.RawURLEncoding.EncodeToString
	return api.Subscription{Endpoint: endpoint, Keys: api.SubscriptionKeys{P256dh: encode(key.PublicKey().Bytes()), Auth: encode(auth)}}
}
