package apnstest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// DefaultTopic is the topic that tests use when they need just one.
const DefaultTopic = "com.example.app"

// Options configure the stand-in. The zero value works: a free port,
// token auth with a fresh key, every topic allowed, 1,000 streams.
type Options struct {
	// Addr is where it listens; default 127.0.0.1 and a free port.
	Addr string
	// ManageAddr is where its management host listens; default 127.0.0.1 and a free port.
	ManageAddr string
	// MaxChannels is how many channels an app may have; default 10,000. NoBroadcast are the bundle ids of apps that may
	// not broadcast.
	MaxChannels int
	NoBroadcast []string
	// Dir is where the CA, the keys and the client certificates are written; default a fresh
	// temporary directory that Close removes. Existing files are used, so that a second process can
	// have the same files.
	Dir string
	// KeyID and TeamID must be in provider tokens; default KEYID12345 and TEAMID1234.
	KeyID, TeamID string
	// MaxStreams is MAX_CONCURRENT_STREAMS after the first good provider token
	// (default 1000); StartStreams is what it is before (default 1). A
	// connection with a client certificate starts at MaxStreams.
	StartStreams, MaxStreams uint32
	// Window is how many bytes of a request's body may arrive before some are given
	// back (SETTINGS_INITIAL_WINDOW_SIZE); default and most 1 MiB, which no request
	// fills. With any other the connection has 65,535, see HoldWindows.
	Window uint32
	// Topics, if not empty, are the only allowed topics; others get TopicDisallowed.
	Topics []string
	// TokenUpdates, if positive, is how long a connection must keep its provider token. An earlier
	// change gets TooManyProviderTokenUpdates.
	TokenUpdates time.Duration
	// Latency is how long every answer takes unless a script says otherwise; see SetLatency.
	Latency time.Duration
	// CountsOnly keeps counts instead of requests; TrackIDs also counts each
	// apns-id, to find repeats.
	CountsOnly, TrackIDs bool
	// MaxTLS is the newest version of TLS that it speaks; default the newest that there is.
	MaxTLS uint16
	// OnRequest, when set, is called for each request, before the answer leaves
	// and from the connection's goroutine: it must be quick. The request and its
	// payload are only valid during the call.
	OnRequest func(*Request)
	// Now is the clock that provider tokens are checked by; default time.Now.
	Now func() time.Time
}

// Server is a running stand-in. Its methods may be called at any time.
type Server struct {
	*Ledger
	// Managed has the requests to the management host.
	Managed  *Ledger
	o        Options
	files    *files
	script   *script
	tokens   *tokenChecker
	listener net.Listener
	managing managing
	tls      *tls.Config
	wg       sync.WaitGroup
	holding  atomic.Bool
	latency  atomic.Pointer[latency]
	began    time.Time

	mu         sync.Mutex
	conns      map[*conn]struct{}
	accepted   int
	refusing   bool
	refusal    refusal
	closed     bool
	maxStreams uint32
	peak       int
	violations []string
}

// New starts a stand-in; Close ends it.
func New(o Options) (*Server, error) {
	o.setDefaults()
	f, err := newFiles(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("make keys and certificates: %w", err)
	}
	s := &Server{
		Ledger: newLedger(&o), Managed: newLedger(&Options{}), o: o, files: f, script: newScript(),
		conns: make(map[*conn]struct{}), maxStreams: o.MaxStreams, began: time.Now(),
	}
	s.SetLatency(o.Latency, 0)
	s.tokens = newTokenChecker(&s.o, f)
	s.tls = f.serverTLS()
	s.tls.MaxVersion, s.tls.VerifyConnection = o.MaxTLS, s.verify
	if s.listener, err = net.Listen("tcp", o.Addr); err != nil {
		f.remove()
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := s.manage(); err != nil {
		_ = s.listener.Close()
		f.remove()
		return nil, err
	}
	s.wg.Add(1)
	go s.accept(s.listener, false)
	return s, nil
}

// Start starts a stand-in for a test, which closes it at its end.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatalf("start the APNs stand-in: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// setDefaults sets the fields that are zero to their defaults.
func (o *Options) setDefaults() {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.ManageAddr == "" {
		o.ManageAddr = "127.0.0.1:0"
	}
	if o.MaxChannels == 0 {
		o.MaxChannels = 10_000
	}
	if o.KeyID == "" {
		o.KeyID = "KEYID12345"
	}
	if o.TeamID == "" {
		o.TeamID = "TEAMID1234"
	}
	if o.StartStreams == 0 {
		o.StartStreams = 1
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 1000
	}
	if o.Window == 0 || o.Window > maxWindow {
		o.Window = maxWindow
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

// URL is the base URL, such as https://127.0.0.1:34567.
func (s *Server) URL() string { return "https://" + s.Addr() }

// Addr is the address it listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Dir is where its files are.
func (s *Server) Dir() string { return s.files.dir }

// CAFile holds the certificate authority that its certificate is signed by.
func (s *Server) CAFile() string { return filepath.Join(s.files.dir, caFile) }

// KeyFile holds the .p8 key whose provider tokens it accepts, with KeyID and
// TeamID.
func (s *Server) KeyFile() string { return filepath.Join(s.files.dir, keyFile) }

// OtherKeyFile has a .p8 key that the stand-in does not know.
func (s *Server) OtherKeyFile() string { return filepath.Join(s.files.dir, otherKeyFile) }

// KeyID is the id of the key in KeyFile.
func (s *Server) KeyID() string { return s.o.KeyID }

// TeamID is the team of the key in KeyFile.
func (s *Server) TeamID() string { return s.o.TeamID }

// CertFile holds a client certificate and its key (PEM) that it accepts.
func (s *Server) CertFile() string { return filepath.Join(s.files.dir, certFile) }

// Env is the configuration of a fanfare process that sends here.
func (s *Server) Env() []string {
	return []string{
		"FANFARE_APNS_URL=" + s.URL(), "FANFARE_APNS_MANAGE_URL=" + s.ManageURL(), "FANFARE_APNS_CA_FILE=" + s.CAFile(),
		"FANFARE_APNS_KEY_FILE=" + s.KeyFile(), "FANFARE_APNS_KEY_ID=" + s.KeyID(),
		"FANFARE_APNS_TEAM_ID=" + s.TeamID(),
	}
}

// Close ends every connection and removes files that it made.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := errors.Join(s.listener.Close(), s.managing.listener.Close())
	s.KillConnections()
	s.wg.Wait()
	s.files.remove()
	return err
}

// Script sets the answers to requests for a device: one answer each, and the last one for all
// further requests. It takes precedence over ScriptTopic and ScriptAll. Without answers the script
// is removed.
func (s *Server) Script(token string, answers ...Answer) {
	s.script.set(s.script.tokens, token, answers)
}

// ScriptTopic sets the answers to requests for a topic, see Script.
func (s *Server) ScriptTopic(topic string, answers ...Answer) {
	s.script.set(s.script.topics, topic, answers)
}

// ScriptAll sets the answers to all other requests, see Script.
func (s *Server) ScriptAll(answers ...Answer) { s.script.set(s.script.topics, "", answers) }

// ScriptFunc calls f for each request before any other script. If ok is false, the other scripts
// decide. f runs in the connection's goroutine. nil removes it.
func (s *Server) ScriptFunc(f func(*Request) (a Answer, ok bool)) { s.script.setFunc(f) }

// SetMaxStreams changes MAX_CONCURRENT_STREAMS of every connection that is past
// its first good token, and of later ones.
func (s *Server) SetMaxStreams(n uint32) {
	s.mu.Lock()
	s.maxStreams = n
	s.mu.Unlock()
	s.each(func(c *conn) { c.changeStreams(n) })
}

// SetLatency changes how long answers take from now on: each between d - spread and
// d + spread, at random.
func (s *Server) SetLatency(d, spread time.Duration) {
	s.latency.Store(&latency{max(0, d-spread), 2 * min(d, spread)})
}

// GoAway asks every connection to end: requests that have arrived are answered, later ones are
// not taken.
func (s *Server) GoAway() { s.each((*conn).goAwayNow) }

// KillConnections closes every connection at once.
func (s *Server) KillConnections() { s.each((*conn).kill) }

// BlackHole makes every open connection silent for good. New connections work.
func (s *Server) BlackHole() { s.each((*conn).blackHole) }

// HoldWindows keeps all windows of Options.Window from growing, or, if on is false, gives all windows the bytes that were
// held back.
func (s *Server) HoldWindows(on bool) {
	s.holding.Store(on)
	s.each((*conn).giveBackNow)
}

// Refuse (true) closes new connections before the handshake, until Refuse(false).
func (s *Server) Refuse(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing = on
}

// refusal is how new connections are refused after the client's part of the handshake.
type refusal struct{ certificates, all bool }

// RefuseCertificates (true) refuses new connections with a client certificate by a TLS alert, as for an
// expired or revoked one, until RefuseCertificates(false). In TLS 1.3 the client gets the alert only after its
// handshake has ended.
func (s *Server) RefuseCertificates(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal.certificates = on
}

// HangUp (true) closes new connections right after the handshake, until HangUp(false).
func (s *Server) HangUp(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal.all = on
}

// verify is the tls.Config's VerifyConnection.
func (s *Server) verify(state tls.ConnectionState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusal.certificates && len(state.PeerCertificates) > 0 {
		return errors.New("the certificate was revoked")
	}
	return nil
}

// hangsUp reports whether a new connection is to be closed after its handshake.
func (s *Server) hangsUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal.all
}

// Connections counts the open connections.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Accepted counts every connection that completed its handshake.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// PeakStreams is the most requests that were open on one connection at once.
func (s *Server) PeakStreams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peak
}

// Violations lists violations by clients of HTTP/2 or of Apple's rules for connections, such as
// more streams than allowed.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

// WriteFiles makes CA, keys and certificates in a directory, as New does, for
// processes that start before their stand-in.
func WriteFiles(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	_, err := newFiles(dir)
	return err
}
