package fcmtest

import (
	"cmp"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/exchange/exchangetest"
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
	exchangetest.Entry
	Message Message
	Raw     []byte // the body
	Bearer  string
}

// device is the token or the id of the device.
func (r *Request) device() string { return r.Message.Token + r.Message.FID }

// Server is a running stand-in. Its methods may be called at any time. Accepted counts the connections of
// the token endpoint, too.
type Server struct {
	*exchangetest.Server[Request, *Request, Answer]
	o   Options
	key *rsa.PrivateKey

	mu       sync.Mutex
	tokens   map[string]time.Time // access tokens, by until when they are valid
	asked    int                  // requests to the token endpoint
	tokenBad func() (status int, body string)
}

const (
	tokenPath   = "/token"
	accountFile = "service-account.json"
)

// New starts a stand-in; Close ends it.
func New(o Options) (s *Server, err error) {
	s = &Server{o: o, tokens: map[string]time.Time{}}
	s.o.Project, s.o.TokenLife = cmp.Or(o.Project, "demo-project"), cmp.Or(o.TokenLife, time.Hour)
	if s.key, err = accountKey(); err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	s.Server, err = exchangetest.New[Request, *Request, Answer]("fcmtest", exchangetest.Options{
		Dir: o.Dir, MaxStreams: o.MaxStreams, Latency: o.Latency, Now: o.Now,
	})
	if err != nil {
		return nil, err
	}
	if _, err = s.WriteAccount(s.Dir(), accountFile); err != nil {
		s.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+tokenPath, s.token)
	mux.HandleFunc("/", s.send)
	s.Serve(mux)
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

// AccountFile is the service account, whose token endpoint is the stand-in's.
func (s *Server) AccountFile() string { return filepath.Join(s.Dir(), accountFile) }

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

// Of are the requests for one token or id.
func (s *Server) Of(device string) (list []Request) {
	for _, r := range s.Requests() {
		if r.device() == device {
			list = append(list, r)
		}
	}
	return list
}

// TokensAsked is how often the token endpoint was asked.
func (s *Server) TokensAsked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// send serves messages:send.
func (s *Server) send(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	req := Request{Entry: s.Entry(r), Raw: body, Bearer: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	if a, ok := s.check(r, &req); !ok {
		s.Refuse(fmt.Sprintf("%d %s %s", a.Status, a.Code, a.Message))
		a.write(w, "")
		return
	}
	s.Answer(w, r, &req, func(a *Answer) exchangetest.Reply {
		return exchangetest.Reply{Status: a.status(), Delay: a.Delay, Fault: a.Fault, Write: func(w http.ResponseWriter) {
			a.write(w, "projects/"+s.o.Project+"/messages/"+req.device())
		}}
	})
}

// check applies FCM's rules.
func (s *Server) check(r *http.Request, req *Request) (a Answer, ok bool) {
	until, known := s.tokenUntil(req.Bearer)
	switch {
	case r.ProtoMajor != 2:
		return Answer{Status: http.StatusHTTPVersionNotSupported, Message: r.Proto}, false
	case r.Method != http.MethodPost || r.URL.Path != "/v1/projects/"+s.o.Project+"/messages:send":
		return Answer{Status: http.StatusNotFound, RPC: "NOT_FOUND", Message: "Requested entity was not found."}, false
	case !known || !s.Now().Before(until):
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
