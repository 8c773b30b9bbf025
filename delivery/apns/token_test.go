package apns

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fanfare/delivery/apns/apnstest"
	"fanfare/delivery/transport"
	"fanfare/store/storetest"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func mustSource(t testing.TB, now func() time.Time) *tokenSource {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newTokenSource(&credentials{key: key, keyID: "K", team: "T"}, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustFresh(t testing.TB, s *tokenSource) *providerToken {
	t.Helper()
	p, err := s.fresh()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestA12_MintedOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := mustSource(t, c.now)
	minted := map[*providerToken]bool{}
	for range 3 {
		var wg sync.WaitGroup
		tokens := make([]*providerToken, 64)
		for i := range tokens {
			wg.Go(func() { tokens[i], _ = s.fresh() })
		}
		wg.Wait()
		for _, p := range tokens {
			if p != tokens[0] {
				t.Fatal("two tokens at once")
			}
		}
		if minted[tokens[0]] {
			t.Fatal("an old token")
		}
		minted[tokens[0]] = true
		c.add(tokenLife)
	}
}

func TestA12_ReusedAndReplaced(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := mustSource(t, c.now)
	first := mustFresh(t, s)
	c.add(20 * time.Minute)
	if mustFresh(t, s) != first {
		t.Fatal("replaced before 20 minutes")
	}
	c.add(5*time.Minute + time.Second)
	second := mustFresh(t, s)
	if second == first {
		t.Fatal("a connection would start with a token that has less than 20 minutes left")
	}
	c.add(19 * time.Minute)
	if p, _ := s.renew(second); p != second {
		t.Fatal("renewed before 20 minutes")
	}
	c.add(2 * time.Minute)
	third, _ := s.renew(second)
	if third == second {
		t.Fatal("an expired token older than 20 minutes was kept")
	}
	if p, _ := s.renew(second); p != third {
		t.Fatal("renewed twice for one expired token")
	}
}

func TestA12_FrozenAfterTooManyUpdates(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := mustSource(t, c.now)
	first := mustFresh(t, s)
	c.add(30 * time.Minute)
	s.freeze()
	if mustFresh(t, s) != first {
		t.Fatal("a new token while frozen")
	}
	c.add(20 * time.Minute)
	if mustFresh(t, s) == first {
		t.Fatal("frozen for more than 20 minutes")
	}
}

// bearers lists the distinct provider tokens per connection, in order.
func (w *world) bearers() map[int][]string {
	out := make(map[int][]string)
	for _, r := range w.Requests() {
		if list := out[r.Connection]; !slices.Contains(list, r.Bearer) {
			out[r.Connection] = append(list, r.Bearer)
		}
	}
	return out
}

// Five hours of one connection: its token changes, but never within 20 minutes (the stand-in would
// answer TooManyProviderTokenUpdates), and is never too old.
func TestA12_OneConnectionForHours(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, apnstest.Options{Now: c.now, TokenUpdates: 20 * time.Minute}, func(o *Options) { o.Now = c.now })
	for range 300 {
		w.mustDeliver(testNote(0))
		c.add(time.Minute)
	}
	if got := w.bearers(); len(got) != 1 || len(got[1]) != 7 {
		t.Fatalf("%d connections, %d tokens on the first", len(got), len(got[1]))
	}
}

// A connection that is opened late in the token's life starts with a fresh token, and an older
// connection keeps its token.
func TestA12_LateConnectionStartsFresh(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, apnstest.Options{Now: c.now, TokenUpdates: 20 * time.Minute}, func(o *Options) { o.Now = c.now })
	w.mustDeliver(testNote(0))
	c.add(44 * time.Minute)
	w.KillConnections()
	storetest.Eventually(t, 20*time.Second, "the loss is seen", func() bool { return w.open() == 0 })
	for range 40 {
		w.mustDeliver(testNote(0))
		c.add(time.Minute)
	}
	if got := w.bearers(); len(got[2]) != 1 || got[2][0] == got[1][0] {
		t.Fatalf("the second connection used %d tokens", len(got[2]))
	}
}

// ExpiredProviderToken: a new token if the present one is older than 20
// minutes, once for all requests under way, and the requests are sent again.
func TestA12_ExpiredTokenIsRenewedOnce(t *testing.T) {
	t.Parallel()
	server, ours := newClock(), newClock()
	w := setup(t, apnstest.Options{StartStreams: 1000, Now: server.now}, func(o *Options) { o.Now = ours.now })
	w.mustDeliver(testNote(0))
	ours.add(30 * time.Minute)
	server.add(61 * time.Minute) // the clocks have drifted apart
	ours.add(0)
	got := outcomesOf(w.sendMany(0, 100))
	// The new token is half an hour old by the server's clock, so it is valid.
	if got[transport.Delivered] != 100 {
		t.Fatalf("got %v", got)
	}
	if n := len(w.bearers()[1]); n != 2 {
		t.Fatalf("%d tokens on the connection", n)
	}
}

func TestA12_ExpiredTokenPausesAfterThree(t *testing.T) {
	t.Parallel()
	w := setup(t, apnstest.Options{})
	w.ScriptAll(apnstest.Fail(403, "ExpiredProviderToken"))
	if a := w.send(testNote(0)); a.Outcome != transport.PauseApp || a.Reason != "ExpiredProviderToken" {
		t.Fatalf("got %s %s", a.Outcome, a.Reason)
	}
	if n := len(w.bearers()[1]); w.Total() != 3 || n != 1 {
		t.Fatalf("%d tries with %d tokens", w.Total(), n)
	}
	w.ScriptAll(apnstest.Fail(403, "ExpiredProviderToken"), apnstest.Fail(403, "ExpiredProviderToken"), apnstest.OK())
	w.mustDeliver(testNote(0))
}

// An expired token is replaced on its connection once in 20 minutes. The second time the connection
// is retired, and the next connection starts with the new token.
func TestA12_SecondExpiredTokenRetiresTheConnection(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, apnstest.Options{Now: c.now, TokenUpdates: 20 * time.Minute}, func(o *Options) { o.Now = c.now })
	w.mustDeliver(testNote(0))
	c.add(26 * time.Minute)
	for _, l := range w.sender.apps.Load().links { // like a new connection elsewhere
		mustFresh(t, l.source)
	}
	for i, wait := range []time.Duration{10 * time.Minute, 15 * time.Minute} {
		c.add(wait)
		w.Script(deviceToken(1+i), apnstest.Fail(403, "ExpiredProviderToken"), apnstest.OK())
		w.mustDeliver(testNote(1 + i))
	}
	got := w.bearers()
	if len(got) != 2 || len(got[1]) != 2 || len(got[2]) != 1 || slices.Contains(got[1], got[2][0]) {
		t.Errorf("%d tokens on the first connection, %d on the second", len(got[1]), len(got[2]))
	}
	if n := w.Reason("TooManyProviderTokenUpdates"); n != 0 {
		t.Errorf("%d answers of too many new tokens", n)
	}
}

func TestA12_TooManyUpdatesFreezes(t *testing.T) {
	t.Parallel()
	c := newClock()
	w := setup(t, apnstest.Options{Now: c.now}, func(o *Options) { o.Now = c.now })
	w.mustDeliver(testNote(0))
	c.add(40 * time.Minute)
	w.Script(deviceToken(1), apnstest.Fail(429, "TooManyProviderTokenUpdates"), apnstest.OK())
	if a := w.send(testNote(1)); a.Outcome != transport.PauseApp {
		t.Fatalf("got %s", a.Outcome)
	}
	c.add(10 * time.Minute) // 50 minutes: the token is too old, but new tokens are frozen
	w.mustDeliver(testNote(1))
	if n := len(w.bearers()[1]); n != 1 {
		t.Fatalf("%d tokens", n)
	}
}

// mustKeyFile writes a PKCS #8 key.
func mustKeyFile(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.p8")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestA12_KeyThatCannotSignStopsTheStart(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	noPEM := filepath.Join(t.TempDir(), "no.p8")
	if err := os.WriteFile(noPEM, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ file, want string }{
		"P-384": {mustKeyFile(t, p384), "can't sign ES256"}, "RSA": {mustKeyFile(t, rsaKey), "can't sign ES256"},
		"no PEM": {noPEM, "must be a valid .p8 PEM file"}, "no file": {noPEM + "x", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := configure(New(Options{KeyFile: row.file, KeyID: "K", TeamID: "T"}), "")
			if err == nil || !strings.Contains(err.Error(), "FANFARE_APNS_KEY_FILE") ||
				!strings.Contains(err.Error(), row.file) || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// A wrong key is refused by APNs and not by the sender: the app is paused.
func TestA12_UnknownKeyPausesTheApp(t *testing.T) {
	t.Parallel()
	s := apnstest.Start(t, apnstest.Options{})
	o := optionsFor(s)
	o.KeyFile = s.OtherKeyFile()
	w := &world{Server: s, t: t, sender: mustNew(t, o)}
	if a := w.send(testNote(0)); a.Outcome != transport.PauseApp || a.Reason != "InvalidProviderToken" {
		t.Fatalf("got %s %s", a.Outcome, a.Reason)
	}
}

// TestA12_AClockThatIsPutRight: tokens are judged by wall time. After a wrong clock is put right, or a suspended
// machine goes on, no token is used that is too old or from the future.
func TestA12_AClockThatIsPutRight(t *testing.T) {
	t.Parallel()
	right := time.Now()
	for name, wrong := range map[string]time.Duration{"Slow": -2 * time.Hour, "Fast": 2 * time.Hour, "LittleFast": time.Hour / 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			ahead.Store(int64(wrong))
			s := apnstest.Start(t, apnstest.Options{Now: func() time.Time { return right.Round(0) }})
			o := optionsFor(s)
			o.Now = func() time.Time { return right.Round(0).Add(time.Duration(ahead.Load())) }
			w := &world{Server: s, t: t, sender: mustNew(t, o)}
			w.send(testNote(0))
			ahead.Store(0)
			w.mustDeliver(testNote(1))
		})
	}
}
