package handlers_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"fanfare/api"
	"fanfare/handlers"
	"fanfare/store/storetest"
	"fanfare/store/usertokens"
)

// tokenWorld is a server with a chat that bob is in. Bob's token is signed with a key in the keys file.
type tokenWorld struct {
	*world
	tokens *usertokens.Store
	file   string
	admin  string
	token  string // of bob, signed by the key backend of the file
	sign   func(claims string) (header string)
	reads  *readsOf
}

func setupTokens(t testing.TB) *tokenWorld {
	t.Helper()
	db := storetest.Open(t, "")
	w := &tokenWorld{file: filepath.Join(t.TempDir(), "keys.json"), reads: &readsOf{key: "ff:{chats:bob}:index"}}
	db.Client().AddHook(w.reads)
	public, private, err := ed25519.GenerateKey(nil)
	storetest.Must(t, err)
	storetest.Must(t, os.WriteFile(w.file, jwks(t, "backend", public), 0o600))
	w.world = setupOn(t, db, func(o *handlers.Options) {
		o.Tokens, err = usertokens.New(o.Record, db, usertokens.Options{KeysFile: w.file, KeyEnded: o.Keys.Ended})
		storetest.Must(t, err)
		storetest.Must(t, o.Tokens.Load(t.Context()))
		w.tokens = o.Tokens
	})
	w.admin = "Authorization: Bearer " + w.mustKey(api.ScopeAdmin)
	w.workChats()
	w.post("/v1/chats", `{"id":"team","creator":"alice","members":["bob"]}`, w.admin)
	w.sign = func(claims string) string { return signed(t, private, "backend", claims) }
	w.token = w.sign(`{"sub":"bob","aud":"fanfare","iat":%d,"exp":%d,"scope":"chat"}`)
	return w
}

// mustRead replaces the keys file.
func (w *tokenWorld) mustRead(kid string, public ed25519.PublicKey) {
	w.t.Helper()
	storetest.Must(w.t, os.WriteFile(w.file, jwks(w.t, kid, public), 0o600))
	storetest.Must(w.t, w.tokens.Reload())
}

// poll waits for a message of bob. It waits once poll has returned.
func (w *tokenWorld) poll(header string) <-chan answer {
	w.t.Helper()
	before := w.reads.n.Load()
	got := make(chan answer, 1)
	go func() {
		a, _ := w.try(get("/v1/users/bob/messages/pending?wait_ms=30000").with(header))
		got <- a
	}()
	last, since := before, time.Now()
	storetest.Eventually(w.t, soon, "the poll to wait", func() bool {
		if n := w.reads.n.Load(); n != last {
			last, since = n, time.Now()
		}
		return last > before && time.Since(since) > time.Second // it reads once more after it began to wait
	})
	return got
}

// wantsAllEnded checks that end ends all that is open with a token of bob, though no message comes.
func (w *tokenWorld) wantsAllEnded(token string, end func()) {
	w.t.Helper()
	stream, poll, ticket := w.follow("bob", "", token), w.poll(token), w.mustTicket("bob", token)
	end()
	ended := time.Now()
	w.do(get("/v1/users/bob/messages/pending?ticket="+ticket)).wants(w.t, 401, problem(api.CodeUnauthorized, "*"))
	w.do(get("/v1/users/bob/chats").with(token)).wants(w.t, 401, problem(api.CodeUnauthorized, "the user token is not valid"))
	select {
	case a := <-poll:
		a.wants(w.t, 401, problem(api.CodeUnauthorized, "the user token is not valid any more"))
	case <-time.After(10 * time.Second):
		w.t.Error("the long poll goes on")
	}
	stream.wantsBye("revoked", ended)
}

// U1, U5: a token ends with its key, and all that is open ends with the token.
func TestU1_AllEndsWithTheKeyOfATokensSignature(t *testing.T) {
	t.Parallel()
	for name, kid := range map[string]string{"Removed": "other", "ReplacedUnderTheSameKid": "backend"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupTokens(t)
			w.wantsAllEnded(w.token, func() { w.mustRead(kid, newPublic(t)) })
		})
	}
}

func TestU5_AllEndsWithARevocation(t *testing.T) {
	t.Parallel()
	w := setupTokens(t)
	w.wantsAllEnded(w.token, func() { w.post("/v1/users/bob/tokens/revoke", "", w.admin).wants(t, 204, "") })
}

// U9: a token that fanfare made ends with the API key that asked for it. Others go on, though they name
// that key.
func TestU9_AllEndsWithTheAPIKeyThatMadeTheToken(t *testing.T) {
	t.Parallel()
	made := func(w *tokenWorld, secret string) string {
		a := w.post("/v1/users/bob/tokens", `{"scopes":["chat"]}`, "Authorization: Bearer "+secret).wants(t, 201, `{"token":"*","expires_at":"*"}`)
		return "Authorization: Bearer " + a.member(t, "token")
	}
	idOf := func(w *tokenWorld, secret string) string { return strings.Split(secret, "_")[1] }
	for name, end := range map[string]func(w *tokenWorld, id string){
		"Revoked": func(w *tokenWorld, id string) {
			w.do(call{method: "DELETE", path: "/v1/keys/" + id}.with(w.admin)).wants(t, 204, "")
		},
		"RevokedBySQL": func(w *tokenWorld, id string) { storetest.Must(t, w.record.RevokeKey(t.Context(), id)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setupTokens(t)
			secret, other := w.mustKey(api.ScopeTokens), w.mustKey(api.ScopeTokens)
			others := []string{made(w, other), made(w, strings.TrimPrefix(w.admin, "Authorization: Bearer ")), w.token,
				w.sign(`{"sub":"bob","aud":"fanfare","iat":%d,"exp":%d,"scope":"chat","azp":"` + idOf(w, secret) + `"}`),
				w.sign(`{"sub":"bob","aud":"fanfare","iat":%d,"exp":%d,"scope":"chat","azp":{"a":1}}`)}
			w.wantsAllEnded(made(w, secret), func() {
				end(w, idOf(w, secret))
				storetest.Must(t, w.keys.Load(t.Context()))
			})
			for i, token := range others {
				w.do(get("/v1/users/bob/chats").with(token)).wants(t, 200, `{"items":[{"id":"team","unread":0,"last_id":0,"acked":0}]}`)
				if i == 0 {
					w.mustTicket("bob", token)
				}
			}
		})
	}
}

// newPublic is the public half of a new key.
func newPublic(t testing.TB) ed25519.PublicKey {
	t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	storetest.Must(t, err)
	return public
}

// jwks is a key set of one key.
func jwks(t testing.TB, kid string, public ed25519.PublicKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: kid}}})
	storetest.Must(t, err)
	return text
}

// signed is a token, as a header, of claims in which %d stands for now and for an hour later.
func signed(t testing.TB, private ed25519.PrivateKey, kid, claims string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: kid}}, nil)
	storetest.Must(t, err)
	now := time.Now().Unix()
	jws, err := signer.Sign(fmt.Appendf(nil, claims, now, now+3600))
	storetest.Must(t, err)
	text, err := jws.CompactSerialize()
	storetest.Must(t, err)
	return "Authorization: Bearer " + text
}
