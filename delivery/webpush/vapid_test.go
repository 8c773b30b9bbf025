package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// clock is a clock that a test moves.
type clock struct {
	base time.Time
	past atomic.Int64
}

func newClock() *clock                   { return &clock{base: time.Now()} }
func (c *clock) now() time.Time          { return c.base.Add(time.Duration(c.past.Load())) }
func (c *clock) advance(d time.Duration) { c.past.Add(int64(d)) }
func (c *clock) options(o *Options)      { o.Now = c.now }

// W13: the token for an origin is valid for 12 h, kept, and renewed when it is 6 h old. Another origin has
// another one. The stand-in verifies each.
func TestW13_TheTokenIsKeptAndRenewed(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, webpushtest.Options{Now: c.now}, c.options)
	tokens := map[string]bool{}
	send := func(want int) {
		t.Helper()
		w.mustDeliver(w.note())
		r := w.last()
		if tokens[r.Token] = true; len(tokens) != want {
			t.Errorf("%d tokens, want %d", len(tokens), want)
		}
		if age := r.Expires.Sub(c.now()); age > 12*time.Hour || age < 6*time.Hour-time.Minute {
			t.Errorf("the token is valid for %v", age)
		}
	}
	send(1)
	c.advance(6*time.Hour - time.Minute)
	send(1)
	c.advance(time.Minute)
	send(2)
	c.advance(5 * time.Hour)
	send(2)
	w.browser = w.MustSubscribe(t, "updates.push.services.mozilla.com")
	send(3)
}

// W13: tokens are kept for the 1,000 origins that were signed for last.
func TestW13_AThousandOriginsHaveTokens(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, webpushtest.Options{}, c.options)
	key := w.sender.app(topic).vapid
	first := map[string]*vapidToken{}
	for i := range maxTokens + 10 {
		origin := fmt.Sprintf("https://h%d.example", i)
		token, err := key.token(origin)
		storetest.Must(t, err)
		first[origin] = token
		c.advance(time.Millisecond)
	}
	if len(key.tokens) != 1000 {
		t.Errorf("%d tokens", len(key.tokens))
	}
	for i, kept := range map[int]bool{0: false, 9: false, 10: true, maxTokens + 9: true} {
		if origin := fmt.Sprintf("https://h%d.example", i); (key.tokens[origin] == first[origin]) != kept {
			t.Errorf("%s is kept: %v", origin, !kept)
		}
	}
}

// W4: the key that is made can be read again, and its public half is what browsers take.
func TestW4_AMadeKeyWorks(t *testing.T) {
	t.Parallel()
	private, public, err := NewKey()
	storetest.Must(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	storetest.Must(t, os.WriteFile(file, private, 0o600))
	key, err := readKey(file)
	storetest.Must(t, err)
	point := mustDecode(t, public)
	if checkPublic(public, key) != nil || len(point) != 65 || point[0] != 4 {
		t.Errorf("the public key %s has %d bytes", public, len(point))
	}
	if _, other, err := NewKey(); err != nil || other == public || checkPublic(other, key) == nil {
		t.Errorf("another key is the same: %v", err)
	}
	if !strings.HasPrefix(string(private), "-----BEGIN PRIVATE KEY-----\n") {
		t.Errorf("not PKCS #8: %s", private)
	}
}

// W4: keys of other libraries move in: their 43 characters of base64url, and the forms of PEM that openssl writes.
func TestW4_KeysOfOtherLibraries(t *testing.T) {
	t.Parallel()
	private, public, err := NewKey()
	storetest.Must(t, err)
	block, _ := pem.Decode(private)
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	storetest.Must(t, err)
	key := parsed.(*ecdsa.PrivateKey)
	raw, err := key.Bytes()
	storetest.Must(t, err)
	sec1, err := x509.MarshalECPrivateKey(key)
	storetest.Must(t, err)
	ec := string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1}))
	params := string(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}}))
	text := base64.RawURLEncoding.EncodeToString(raw)
	for name, content := range map[string]string{
		"base64url": text, "with a line feed": text + "\n", "with padding": text + "=\r\n", "EC PRIVATE KEY": ec, "with EC PARAMETERS": params + ec, "PKCS #8": string(private),
	} {
		file := filepath.Join(t.TempDir(), "key")
		storetest.Must(t, os.WriteFile(file, []byte(content), 0o600))
		if got, err := readKey(file); err != nil || checkPublic(public, got) != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	storetest.Must(t, err)
	other, err := x509.MarshalECPrivateKey(p384)
	storetest.Must(t, err)
	for name, content := range map[string]string{
		"empty": "", "42 characters": text[:42], "44 characters": text + "A", "zero": base64.RawURLEncoding.EncodeToString(make([]byte, 32)), "parameters alone": params,
		"another curve": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: other})), "a damaged key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: sec1[1:]})),
	} {
		file := filepath.Join(t.TempDir(), "key")
		storetest.Must(t, os.WriteFile(file, []byte(content), 0o600))
		if _, err := readKey(file); err == nil || !strings.Contains(err.Error(), file) || len(content) > 4 && strings.Contains(err.Error(), content) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
