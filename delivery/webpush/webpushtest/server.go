package webpushtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Options configure the stand-in. The zero value works.
type Options struct {
	// Dir is where the CA and the key for VAPID are written; default a fresh temporary directory that Close
	// removes.
	Dir string
	// Addr is where it listens; default a free port of 127.0.0.1.
	Addr string
	// MaxStreams is MAX_CONCURRENT_STREAMS; default 100.
	MaxStreams int
	// Latency is how long every answer takes unless a script says otherwise.
	Latency time.Duration
	// Now is the clock that tokens are checked by; default time.Now.
	Now func() time.Time
	// HTTP1 lets it speak HTTP/1.1 alone, as no push service should.
	HTTP1 bool
}

// Request is one request in the ledger, which passed the checks.
type Request struct {
	Browser *Browser
	Host    string
	Payload []byte // decrypted
	Padding int    // bytes
	Size    int    // of the body
	TTL     int    // seconds
	Urgency string // "" if there is none
	Topic   string // "" if there is none
	Token   string // the signed VAPID token
	Expires time.Time
	Conn    string // the client's address, which names the connection
	At      time.Time
	// Answered is when the answer left; zero: it did not, or the client had gone.
	Answered time.Time
	Status   int  // of the answer; 0: none was sent
	Taken    bool // the browser got the message
}

// Server is a running stand-in. Its methods may be called at any time.
type Server struct {
	o        Options
	made     bool // the directory was made here
	key      *ecdsa.PrivateKey
	public   string
	server   *http.Server
	listener net.Listener
	over     chan struct{}
	served   chan struct{}

	mu       sync.Mutex
	browsers map[string]*Browser // by host and path
	script   func(*Request) Answer
	requests []Request
	refused  []string // why requests did not pass the checks
	conns    map[string]net.Conn
	accepted int
}

const keyFile = "vapid-private.pem"

// New starts a stand-in; Close ends it.
func New(o Options) (s *Server, err error) {
	s = &Server{o: o, over: make(chan struct{}), served: make(chan struct{}), browsers: map[string]*Browser{}, conns: map[string]net.Conn{}}
	if err := s.setDefaults(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	point, err := s.key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	s.public = encode(point)
	if _, err = WriteKey(s.o.Dir, keyFile, s.key); err != nil {
		return nil, err
	}
	ca, err := newAuthority(s.CAFile())
	if err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", s.o.Addr); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	s.server = &http.Server{
		Handler: http.HandlerFunc(s.push), TLSConfig: &tls.Config{GetCertificate: ca.certificate, MinVersion: tls.VersionTLS12},
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: s.o.MaxStreams}, ErrorLog: log.New(io.Discard, "", 0), ConnState: s.connState,
		ReadHeaderTimeout: time.Minute,
	}
	if s.o.HTTP1 {
		s.server.Protocols = new(http.Protocols)
		s.server.Protocols.SetHTTP1(true)
	}
	go func() {
		defer close(s.served)
		_ = s.server.ServeTLS(s.listener, "", "")
	}()
	return s, nil
}

// Start starts a stand-in for a test, which closes it at its end.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatalf("start the stand-in of Web Push: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// MustSubscribe is Subscribe for tests.
func (s *Server) MustSubscribe(t testing.TB, host string) *Browser {
	t.Helper()
	b, err := s.Subscribe(host)
	if err != nil {
		t.Fatalf("subscribe: %v", err)
	}
	return b
}

func (s *Server) setDefaults() (err error) {
	if s.o.Addr == "" {
		s.o.Addr = "127.0.0.1:0"
	}
	if s.o.MaxStreams == 0 {
		s.o.MaxStreams = 100
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Dir == "" {
		s.made = true
		if s.o.Dir, err = os.MkdirTemp("", "webpushtest"); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	return nil
}

// remove deletes the directory if New made it.
func (s *Server) remove() {
	if s.made {
		_ = os.RemoveAll(s.o.Dir)
	}
}

// Addr is the address that it listens on, such as 127.0.0.1:34567.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// CAFile is the CA to trust.
func (s *Server) CAFile() string { return filepath.Join(s.o.Dir, "ca.pem") }

// PublicKey is the key with which pages subscribe.
func (s *Server) PublicKey() string { return s.public }

// Close ends the stand-in.
func (s *Server) Close() {
	close(s.over)
	_ = s.server.Close()
	<-s.served
	s.remove()
}

// connState keeps the open connections, to cut them.
func (s *Server) connState(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := c.RemoteAddr().String()
	switch state {
	case http.StateNew:
		s.conns[name] = c
		s.accepted++
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, name)
	}
}

// Script answers every request that passes the checks; nil is a 201 for all.
func (s *Server) Script(f func(*Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// Answers gives these answers to the requests that pass the checks, in order, and then 201.
func (s *Server) Answers(list ...Answer) {
	var mu sync.Mutex
	s.Script(func(*Request) (a Answer) {
		mu.Lock()
		defer mu.Unlock()
		if len(list) > 0 {
			a, list = list[0], list[1:]
		}
		return a
	})
}

// Requests are the requests that passed the checks, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Of are the requests for one browser.
func (s *Server) Of(b *Browser) (list []Request) {
	for _, r := range s.Requests() {
		if r.Browser == b {
			list = append(list, r)
		}
	}
	return list
}

// Refused says why requests did not pass the checks.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Accepted is the number of connections so far, and Open of those that are open.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Open is the number of open connections.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// push serves all requests.
func (s *Server) push(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	req := Request{Host: r.Host, Size: len(body), Conn: r.RemoteAddr, At: s.o.Now()}
	s.mu.Lock()
	status, err := s.check(r, body, &req)
	if err != nil {
		s.refused = append(s.refused, fmt.Sprintf("%d %v", status, err))
	}
	script := s.script
	s.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	a := Answer{}
	if script != nil {
		a = script(&req)
	}
	place := s.note(&req, &a)
	s.answer(w, r.Context(), &req, &a)
	if r.Context().Err() == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests[place].Answered = s.o.Now()
	}
}

// note puts a request into the ledger, and returns its place there.
func (s *Server) note(req *Request, a *Answer) int {
	req.Taken = a.status()/100 == 2 && a.Fault != Untaken
	if a.Fault == NoFault || a.Fault == GoAway {
		req.Status = a.status()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *req)
	return len(s.requests) - 1
}

// answer sends the answer, or lets its fault happen.
func (s *Server) answer(w http.ResponseWriter, ctx context.Context, req *Request, a *Answer) {
	delay := a.Delay
	if delay == 0 {
		delay = s.o.Latency
	}
	if delay > 0 || a.Fault == Hang {
		late := time.After(delay)
		if a.Fault == Hang {
			late = nil
		}
		select {
		case <-late:
		case <-ctx.Done():
		case <-s.over:
		}
	}
	switch a.Fault {
	case Reset:
		panic(http.ErrAbortHandler)
	case Drop, Untaken:
		s.mu.Lock()
		if c := s.conns[req.Conn]; c != nil {
			_ = c.Close()
		}
		s.mu.Unlock()
		panic(http.ErrAbortHandler)
	case GoAway:
		w.Header().Set("Connection", "close") // net/http sends GOAWAY
	}
	for name, value := range map[string]string{"Retry-After": a.RetryAfter, "Location": a.Location} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(a.status())
	_, _ = io.WriteString(w, a.Body)
}
