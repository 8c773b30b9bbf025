package webpush

import (
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
