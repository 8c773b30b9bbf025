package e2e

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fanfare/store/storetest"
)

// backendKey is a key that a customer's backend signs user tokens with.
type backendKey struct {
	kid     string
	public  ed25519.PublicKey
	private ed25519.PrivateKey
}

func mustBackendKey(t testing.TB, kid string) backendKey {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	storetest.Must(t, err)
	return backendKey{kid, public, private}
}

// mustPublish writes the file of FANFARE_USER_KEYS_FILE.
func mustPublish(t testing.TB, file string, keys ...backendKey) {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, k := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: k.public, KeyID: k.kid})
	}
	text, err := json.Marshal(set)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(file, text, 0o600))
}

// mustToken signs a token for the user, as the value of a header.
func (k backendKey) mustToken(t testing.TB, user string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: k.private, KeyID: k.kid}}, nil)
	storetest.Must(t, err)
	payload, err := json.Marshal(map[string]any{
		"sub": user, "aud": "fanfare", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "scope": "chat",
	})
	storetest.Must(t, err)
	jws, err := signer.Sign(payload)
	storetest.Must(t, err)
	text, err := jws.CompactSerialize()
	storetest.Must(t, err)
	return "Bearer " + text
}

// status is the status with which a server answers a user's token.
func (p *program) status(token string) int {
	status, _, err := p.try("GET", "/v1/users/bob/chats", nil, "Authorization", token)
	if err != nil {
		p.t.Fatal(err)
	}
	return status
}

// Two servers share one Redis and one database. Tokens, tickets and revocations of one of them
// apply on the other, and the keys file is read again on SIGHUP.
func TestU1_UserTokensOnTwoServers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "keys.json")
	old, fresh := mustBackendKey(t, "old"), mustBackendKey(t, "new")
	mustPublish(t, file, old)
	vars := []string{"FANFARE_REDIS_URL=" + storetest.Redis(t).URL(), "FANFARE_DATABASE_URL=" + storetest.MySQL(t), "FANFARE_USER_KEYS_FILE=" + file}
	key := mustCreateKey(t, dir, "tokens,chat", vars...)
	servers := mustServeMany(t, 2, vars...)
	one, two := servers[0], servers[1]
	one.key, two.key = key, key

	var made, ticket map[string]string
	one.must(201, &made, "POST", "/v1/users/bob/tokens", map[string]any{"scopes": []string{"chat"}})
	own, signed := "Bearer "+made["token"], old.mustToken(t, "bob")
	for _, token := range []string{own, signed} {
		if status := two.status(token); status != 200 {
			t.Errorf("the other server answers %d", status)
		}
	}
	one.must(201, &ticket, "POST", "/v1/users/bob/tickets", nil, "Authorization", own)
	two.key = "" // only the ticket identifies the caller
	two.must(200, nil, "GET", "/v1/users/bob/messages/pending?wait_ms=1&ticket="+ticket["ticket"], nil)
	one.key = ""
	one.must(401, nil, "GET", "/v1/users/bob/messages/pending?wait_ms=1&ticket="+ticket["ticket"], nil)

	one.must(204, nil, "POST", "/v1/users/bob/tokens/revoke", nil, "Authorization", "Bearer "+key)
	for _, token := range []string{own, signed} {
		if status := one.status(token); status != 401 {
			t.Errorf("the server that revoked answers %d", status)
		}
		storetest.Eventually(t, 10*time.Second, "the other server to follow", func() bool { return two.status(token) == 401 })
	}

	alice := func(k backendKey) int {
		status, _, err := two.try("GET", "/v1/users/alice/chats", nil, "Authorization", k.mustToken(t, "alice"))
		storetest.Must(t, err)
		return status
	}
	storetest.Must(t, os.WriteFile(file, []byte("{"), 0o600))
	_ = two.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, 10*time.Second, "a word about the broken file", func() bool {
		return strings.Contains(two.stderr.String(), "FANFARE_USER_KEYS_FILE")
	})
	if status := alice(old); status != 200 {
		t.Errorf("after a broken file: %d", status)
	}
	mustPublish(t, file, fresh)
	_ = two.cmd.Process.Signal(syscall.SIGHUP)
	storetest.Eventually(t, 10*time.Second, "the new key to count and the old one to end", func() bool { return alice(fresh) == 200 && alice(old) == 401 })
}
