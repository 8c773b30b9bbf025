package h2

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// mustServe starts net/http's own HTTP/2 server and a pool of connections to it.
func mustServe(t testing.TB, h http.HandlerFunc, change func(*Options)) (*httptest.Server, *Pool) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	o := Options{
		Name: "the test server", Logger: slog.New(slog.DiscardHandler), DialTimeout: 10 * time.Second,
		ReadIdle: 10 * time.Second, PingTimeout: 10 * time.Second, SendWithin: 10 * time.Second,
	}
	if change != nil {
		change(&o)
	}
	cfg := &tls.Config{RootCAs: roots, ServerName: "example.com", NextProtos: []string{"h2"}}
	p := New(s.Listener.Addr().String(), cfg, o)
	t.Cleanup(p.Close)
	return s, p
}

// post sends one body and returns what came back.
func post(ctx context.Context, p *Pool, url, data string, check func() bool) (answer string, progress Progress, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, err := p.Acquire(ctx, "group")
	if err != nil {
		return "", Unprocessed, err
	}
	answered := false
	defer func() { p.Release(conn, answered) }()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return "", Unprocessed, err
	}
	call := conn.NewCall([]byte(data), check)
	res, err := call.RoundTrip(r)
	if err != nil {
		return "", call.Stop(), err
	}
	defer res.Body.Close()
	answered = true
	b, err := io.ReadAll(res.Body)
	return string(b), Unknown, err
}

func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

func TestPoolKeepsAConnection(t *testing.T) {
	t.Parallel()
	made := 0
	s, p := mustServe(t, echo, func(o *Options) {
		o.FirstAlone, o.Attach = true, func() (any, error) { made++; return made, nil }
	})
	for _, text := range []string{"one", "two", "three"} {
		if got, _, err := post(t.Context(), p, s.URL, text, nil); got != text || err != nil {
			t.Fatalf("%s came back as %q: %v", text, got, err)
		}
	}
	conn, err := p.Acquire(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	if open, err := p.State(); open != 1 || err != nil || conn.Value() != 1 {
		t.Errorf("%d connections, %v, with the value %v", open, err, conn.Value())
	}
	p.Release(conn, false)
	p.Close()
	if _, err := p.Acquire(t.Context(), "group"); !errors.Is(err, ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

func TestPoolReportsWhatAttachAndDialSay(t *testing.T) {
	t.Parallel()
	failure := errors.New("no credentials")
	s, p := mustServe(t, echo, func(o *Options) { o.Attach = func() (any, error) { return nil, failure } })
	if _, _, err := post(t.Context(), p, s.URL, "x", nil); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if open, err := p.State(); open != 0 || !errors.Is(err, failure) {
		t.Errorf("%d connections, %v", open, err)
	}
}

// A failed call says whether the server may have processed it.
func TestCallTellsHowFarItCame(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	s, p := mustServe(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil { // the one that is withheld ends before its body
			arrived <- struct{}{}
		}
		<-r.Context().Done()
	}, nil)
	if _, progress, err := post(t.Context(), p, s.URL, "x", func() bool { return false }); progress != Withheld || err == nil {
		t.Errorf("a check that says no: %d, %v", progress, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, progress, err := post(ctx, p, s.URL, "x", nil); progress != Unknown || err == nil {
		t.Errorf("no answer came: %d, %v", progress, err)
	}
	conn, err := p.Acquire(t.Context(), "group")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release(conn, false)
	conn.Retire()
	call := conn.NewCall([]byte("x"), nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := call.RoundTrip(r)
	if err == nil {
		_ = res.Body.Close()
	}
	if err == nil || call.Stop() != Unprocessed {
		t.Errorf("on a retired connection: %v, %v", res, err)
	}
}
