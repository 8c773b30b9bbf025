package webpushtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"fanfare/delivery/exchange/exchangetest"
)

// Options configure the stand-in. The zero value works. The VAPID key is written into Dir, too.
type Options exchangetest.Options

// Request is one request in the ledger, which passed the checks.
type Request struct {
	exchangetest.Entry
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
}

// Server is a running stand-in. Its methods may be called at any time.
type Server struct {
	*exchangetest.Server[Request, *Request, Answer]
	key    *ecdsa.PrivateKey
	public string

	mu       sync.Mutex
	browsers map[string]*Browser // by host and path
}

const keyFile = "vapid-private.pem"

// New starts a stand-in; Close ends it.
func New(o Options) (s *Server, err error) {
	s = &Server{browsers: map[string]*Browser{}}
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	point, err := s.key.PublicKey.Bytes()
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	s.public = encode(point)
	s.Server, err = exchangetest.New[Request, *Request, Answer]("webpushtest", exchangetest.Options(o))
	if err != nil {
		return nil, err
	}
	if _, err = exchangetest.WriteKey(s.Dir(), keyFile, s.key); err != nil {
		s.Close()
		return nil, err
	}
	s.Serve(http.HandlerFunc(s.push))
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

// PublicKey is the key with which pages subscribe.
func (s *Server) PublicKey() string { return s.public }

// App is the entry of the apps file for a topic whose notifications come here.
func (s *Server) App(topic string) map[string]string {
	return map[string]string{
		"platform": "webpush", "topic": topic, "public_key": s.public, "private_key_file": filepath.Join(s.Dir(), keyFile),
		"subject": "mailto:ops@example.com", "ca_file": s.CAFile(), "connect_to": s.Addr(),
	}
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

// push serves all requests.
func (s *Server) push(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	req := Request{Entry: s.Entry(r), Host: r.Host, Size: len(body)}
	if status, err := s.check(r, body, &req); err != nil {
		s.Refuse(fmt.Sprintf("%d %v", status, err))
		http.Error(w, err.Error(), status)
		return
	}
	s.Answer(w, r, &req, (*Answer).reply)
}
