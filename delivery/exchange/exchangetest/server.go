package exchangetest

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Options configure a stand-in. The zero value works.
type Options struct {
	// Dir is where the CA is written; default a fresh temporary directory that Close removes.
	Dir string
	// Addr is where it listens; default a free port of 127.0.0.1.
	Addr string
	// MaxStreams is MAX_CONCURRENT_STREAMS; default 100.
	MaxStreams int
	// Latency is how long every answer takes unless a script says otherwise.
	Latency time.Duration
	// Now is the clock of the ledger; default time.Now.
	Now func() time.Time
	// HTTP1 lets it speak HTTP/1.1 alone.
	HTTP1 bool
}

// Entry is what the ledger has of every request.
type Entry struct {
	Conn string // the client's address, which names the connection
	At   time.Time
	// Answered is when the answer left; zero: it did not, or the client had gone.
	Answered time.Time
	Status   int  // of the answer; 0: none was sent
	Taken    bool // the device got the notification
}

func (e *Entry) entry() *Entry { return e }

// Noted is a pointer to a request of a ledger, whose type has an Entry embedded.
type Noted[R any] interface {
	*R
	entry() *Entry
}

// Server is the part of a stand-in that knows no push service. Requests are R, and scripted answers A. Its
// methods may be called at any time.
type Server[R any, P Noted[R], A any] struct {
	o        Options
	made     bool // the directory was made here
	ca       *authority
	server   *http.Server
	listener net.Listener
	over     chan struct{}
	served   chan struct{}

	mu       sync.Mutex
	script   func(*R) A
	requests []R
	refused  []string // why requests did not pass the checks
	conns    map[string]net.Conn
	accepted int
}

// New makes a stand-in that listens. Serve lets it answer; Close ends it.
func New[R any, P Noted[R], A any](name string, o Options) (s *Server[R, P, A], err error) {
	s = &Server[R, P, A]{o: o, over: make(chan struct{}), served: make(chan struct{}), conns: map[string]net.Conn{}}
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
		if s.o.Dir, err = os.MkdirTemp("", name); err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
	}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if s.ca, err = newAuthority(name, s.CAFile()); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", s.o.Addr); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return s, nil
}

// Serve lets the stand-in answer, until Close.
func (s *Server[R, P, A]) Serve(h http.Handler) {
	s.server = &http.Server{
		Handler: h, TLSConfig: &tls.Config{GetCertificate: s.ca.certificate, MinVersion: tls.VersionTLS12},
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
}

// remove deletes the directory if New made it.
func (s *Server[R, P, A]) remove() {
	if s.made {
		_ = os.RemoveAll(s.o.Dir)
	}
}

// Close ends the stand-in, also one that does not serve yet.
func (s *Server[R, P, A]) Close() {
	close(s.over)
	if s.server == nil {
		_ = s.listener.Close()
	} else {
		_ = s.server.Close()
		<-s.served
	}
	s.remove()
}

// Addr is the address that it listens on, such as 127.0.0.1:34567.
func (s *Server[R, P, A]) Addr() string { return s.listener.Addr().String() }

// URL is the base URL, such as https://127.0.0.1:34567.
func (s *Server[R, P, A]) URL() string { return "https://" + s.Addr() }

// Dir is the directory of its files.
func (s *Server[R, P, A]) Dir() string { return s.o.Dir }

// CAFile is the CA to trust.
func (s *Server[R, P, A]) CAFile() string { return filepath.Join(s.o.Dir, "ca.pem") }

// Now is the time by the stand-in's clock.
func (s *Server[R, P, A]) Now() time.Time { return s.o.Now() }

// Over is closed by Close.
func (s *Server[R, P, A]) Over() <-chan struct{} { return s.over }

// connState keeps the open connections, to cut them.
func (s *Server[R, P, A]) connState(c net.Conn, state http.ConnState) {
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

// Script answers every request that passes the checks; nil accepts all.
func (s *Server[R, P, A]) Script(f func(*R) A) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// Answers gives these answers to the requests that pass the checks, in order, and then accepts all.
func (s *Server[R, P, A]) Answers(list ...A) {
	var mu sync.Mutex
	s.Script(func(*R) (a A) {
		mu.Lock()
		defer mu.Unlock()
		if len(list) > 0 {
			a, list = list[0], list[1:]
		}
		return a
	})
}

// Requests are the requests that passed the checks, in order.
func (s *Server[R, P, A]) Requests() []R {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]R(nil), s.requests...)
}

// Refuse notes why a request did not pass the checks.
func (s *Server[R, P, A]) Refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, why)
}

// Refused says why requests did not pass the checks.
func (s *Server[R, P, A]) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

// Accepted is the number of connections so far.
func (s *Server[R, P, A]) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Open is the number of open connections.
func (s *Server[R, P, A]) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
