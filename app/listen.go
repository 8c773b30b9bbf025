package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"fanfare/handlers/web"
)

// The time-outs of the phases of a connection. Handlers have their own
// deadline, FANFARE_REQUEST_TIMEOUT, for the work between reading and writing.
const (
	headerTimeout = 5 * time.Second   // to send the head of a request
	readTimeout   = 30 * time.Second  // to send a whole request; a body has FANFARE_REQUEST_TIMEOUT
	writeTimeout  = 30 * time.Second  // to read a response, in addition to the request's deadline
	idleTimeout   = 120 * time.Second // between requests; longer than load balancers keep connections
	maxHeader     = 32 << 10

	profileTimeout = 5 * time.Minute // what pprof may take to answer
)

// front is the HTTP side: a listener and the server behind it.
type front struct {
	server   *http.Server
	listener net.Listener
	cert     *certificate // nil: plain HTTP
	drain    time.Duration
	streams  *sync.WaitGroup // streams that the server does not know of; nil: there are none
}

// listen opens the address for users; it serves nothing yet.
func listen(ctx context.Context, c *config, log *slog.Logger) (*front, error) {
	var cert *certificate
	if c.TLSCertFile != "" {
		cert = &certificate{certFile: c.TLSCertFile, keyFile: c.TLSKeyFile}
		if err := cert.reload(); err != nil {
			return nil, err
		}
	}
	f, err := take(ctx, addrVariable, c.Addr, c, log)
	if err == nil {
		f.cert = cert
	}
	return f, err
}

// listenPrivately opens the address for operators; nil: there is none.
func listenPrivately(ctx context.Context, c *config, log *slog.Logger) (*front, error) {
	if c.MetricsAddr == "" {
		return nil, nil
	}
	f, err := take(ctx, metricsVariable, c.MetricsAddr, c, log)
	if err == nil {
		f.server.WriteTimeout = profileTimeout
	}
	return f, err
}

// take opens the address that a variable names.
func take(ctx context.Context, variable, addr string, c *config, log *slog.Logger) (*front, error) {
	f := &front{drain: min(c.RequestTimeout+time.Second, c.ShutdownTimeout*6/10)}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		_, port, _ := net.SplitHostPort(addr)
		return nil, fmt.Errorf("%s: %w; to see which process has it: lsof -nP -iTCP:%s -sTCP:LISTEN; or choose another, such as %s=127.0.0.1:8090", variable, err, port, variable)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	f.listener = listener
	f.server = &http.Server{
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      c.RequestTimeout + writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext:       web.KeepConnection,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return f, nil
}

// run serves until ctx ends, then accepts no more connections and lets the requests that are
// under way finish.
func (f *front) run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- f.serve() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
	defer cancel()
	err := f.server.Shutdown(patience)
	if err == nil && f.streams != nil {
		err = wait(patience, f.streams)
	}
	if err != nil {
		_ = f.server.Close()
		return fmt.Errorf("requests were cut off after %v: %w", f.drain, err)
	}
	return nil
}

// modernSuites are the suites of TLS 1.2 with forward secrecy and authenticated encryption, those that
// RFC 9325, 4.2 recommends and ChaCha20. TLS 1.3 has no others.
var modernSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

func (f *front) serve() error {
	var err error
	if f.cert == nil {
		err = f.server.Serve(f.listener)
	} else {
		f.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: modernSuites, GetCertificate: f.cert.get}
		err = f.server.ServeTLS(f.listener, "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// url is the address at which a person on this machine reaches the server.
func (f *front) url() string {
	scheme := "http"
	if f.cert != nil {
		scheme = "https"
	}
	return scheme + "://" + reachable(f.listener.Addr().String())
}

// reachable turns an address to listen on into one to connect to.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
