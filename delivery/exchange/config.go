package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
)

// ReadCA reads the roots to trust, and returns them with the bytes of the file; "" means the system's.
func ReadCA(file string) (*x509.CertPool, []byte, error) {
	if file == "" {
		return nil, nil, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("read CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return nil, nil, errors.New("no PEM certificate in " + file)
	}
	return pool, raw, nil
}

// BaseURL reads the base URL of a service: https, a host, and perhaps a port.
func BaseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("parse base URL: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is no base URL such as https://host or https://host:2197", s)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// Address is the host and port to dial.
func Address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// TLS is what connections to a base URL are opened with; roots nil are the system's.
func TLS(u *url.URL, roots *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: u.Hostname(), NextProtos: []string{"h2"}}
}
