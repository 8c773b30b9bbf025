package fcmtest

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options configure the stand-in. The zero value works.
type Options struct {
	// Dir is where the CA and the service account are written; default a fresh temporary directory that
	// Close removes.
	Dir string
	// Project is the only project that there is; default demo-project.
	Project string
	// MaxStreams is MAX_CONCURRENT_STREAMS; default 100, as FCM's.
	MaxStreams int
	// TokenLife is how long access tokens are valid; default 1 h.
	TokenLife time.Duration
	// Latency is how long every answer takes unless a script says otherwise.
	Latency time.Duration
	// Now is the clock that claims and tokens are checked by; default time.Now.
	Now func() time.Time
}

// Request is one request in the ledger, which passed the checks.
type Request struct {
	Message Message
	Raw     []byte // the body
	Bearer  string
	Conn    string // the client's address, which names the connection
	At      time.Time
	// Answered is when the answer left; zero: it did not, or the client had gone.
	Answered time.Time
	Status   int  // of the answer; 0: none was sent
	Taken    bool // the device got the message
}

// device is the token or the id of the device.
func (r *Request) device() string { return r.Message.Token + r.Message.FID }

// Server is a running stand-in. Its methods may be called at any time.
type Server struct {
	o        Options
	made     bool // the directory was made here
	key      *rsa.PrivateKey
	server   *http.Server
	listener net.Listener
	over     chan struct{}
	served   chan struct{}

	mu       sync.Mutex
	tokens   map[string]time.Time // access tokens, by until when they are valid
	asked    int                  // requests to the token endpoint
	tokenBad func() (status int, body string)
	script   func(*Request) Answer
	requests []Request
	refused  []string // why requests did not pass the checks
	conns    map[string]net.Conn
	accepted int
}

const tokenPath = "/token"

// New starts a stand-in; Close ends it.
func New(o Options) (s *Server, err error) {
	s = &Server{o: o, over: make(chan struct{}), served: make(chan struct{}), tokens: map[string]time.Time{}, conns: map[string]net.Conn{}}
	if err := s.setDefaults(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.remove()
		}
	}()
	if s.key, err = accountKey(); err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	cert, err := writeCA(s.CAFile())
	if err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if _, err = s.WriteAccount(s.o.Dir, accountFile); err != nil {
		_ = s.listener.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tokenPath, s.token)
	mux.HandleFunc("/", s.send)
	s.server = &http.Server{
		Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: s.o.MaxStreams}, ErrorLog: log.New(io.Discard, "", 0), ConnState: s.connState,
		ReadHeaderTimeout: time.Minute,
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
		t.Fatalf("start the FCM stand-in: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *Server) setDefaults() (err error) {
	if s.o.Project == "" {
		s.o.Project = "demo-project"
	}
	if s.o.MaxStreams == 0 {
		s.o.MaxStreams = 100
	}
	if s.o.TokenLife == 0 {
		s.o.TokenLife = time.Hour
	}
	if s.o.Now == nil {
		s.o.Now = time.Now
	}
	if s.o.Dir == "" {
		s.made = true
		if s.o.Dir, err = os.MkdirTemp("", "fcmtest"); err != nil {
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

const accountFile = "service-account.json"

// URL is the base URL, such as https://127.0.0.1:34567.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// CAFile is the CA to trust.
func (s *Server) CAFile() string { return filepath.Join(s.o.Dir, "ca.pem") }

// AccountFile is the service account, whose token endpoint is the stand-in's.
func (s *Server) AccountFile() string { return filepath.Join(s.o.Dir, accountFile) }

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

// Script answers every request that passes the checks; nil is a 200 for all.
func (s *Server) Script(f func(*Request) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = f
}

// Answers gives these answers to the requests that pass the checks, in order, and then 200.
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

// BreakTokens lets the token endpoint answer this; nil mends it. A status of 0 hangs.
func (s *Server) BreakTokens(f func() (status int, body string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokenBad = f
}

// EndTokens makes all access tokens invalid.
func (s *Server) EndTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Requests are the requests that passed the checks, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Of are the requests for one token or id.
func (s *Server) Of(device string) (list []Request) {
	for _, r := range s.Requests() {
		if r.device() == device {
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

// TokensAsked is how often the token endpoint was asked.
func (s *Server) TokensAsked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Accepted is the number of connections so far, those of the token endpoint included.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// send serves messages:send.
func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	req := Request{Raw: body, Conn: r.RemoteAddr, At: s.o.Now(), Bearer: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if a, ok := s.check(r, &req); !ok {
		s.mu.Lock()
		s.refused = append(s.refused, fmt.Sprintf("%d %s %s", a.Status, a.Code, a.Message))
		s.mu.Unlock()
		s.reply(w, &a, "")
		return
	}
	s.mu.Lock()
	script := s.script
	s.mu.Unlock()
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
	req.Taken = a.status() == http.StatusOK && a.Fault != Untaken
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
	s.reply(w, a, "projects/"+s.o.Project+"/messages/"+req.device())
}

// reply writes an answer.
func (s *Server) reply(w http.ResponseWriter, a *Answer, name string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	if a.RetryAfter != "" {
		w.Header().Set("Retry-After", a.RetryAfter)
	}
	w.WriteHeader(a.status())
	_, _ = w.Write(a.body(name))
}

// check applies FCM's rules.
func (s *Server) check(r *http.Request, req *Request) (a Answer, ok bool) {
	until, known := s.tokenUntil(req.Bearer)
	switch {
	case r.ProtoMajor != 2:
		return Answer{Status: http.StatusHTTPVersionNotSupported, Message: r.Proto}, false
	case r.Method != http.MethodPost || r.URL.Path != "/v1/projects/"+s.o.Project+"/messages:send":
		return Answer{Status: http.StatusNotFound, RPC: "NOT_FOUND", Message: "Requested entity was not found."}, false
	case !known || !s.o.Now().Before(until):
		return Answer{Status: http.StatusUnauthorized, RPC: "UNAUTHENTICATED", Message: "Request had invalid authentication credentials."}, false
	case !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		return Answer{Status: http.StatusUnsupportedMediaType, Message: r.Header.Get("Content-Type")}, false
	}
	m, err := readMessage(req.Raw)
	if req.Message = m; err != nil {
		return Answer{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", RPC: "INVALID_ARGUMENT", Message: err.Error()}, false
	}
	return Answer{}, true
}

func (s *Server) tokenUntil(token string) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, known := s.tokens[token]
	return until, known
}
