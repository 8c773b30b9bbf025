package webpushtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// authority signs a certificate for whichever host a client asks for.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate

	mu    sync.Mutex
	hosts map[string]*tls.Certificate
}

// newAuthority makes an authority and writes its certificate.
func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	a := &authority{key: key, hosts: map[string]*tls.Certificate{}}
	t := template("webpushtest")
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return a, writePEM(file, "CERTIFICATE", der)
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// certificate is the certificate for the host of a connection.
func (a *authority) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	host := hello.ServerName
	if c := a.hosts[host]; c != nil {
		return c, nil
	}
	t := template(host)
	t.DNSNames, t.KeyUsage, t.ExtKeyUsage = []string{host}, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &a.key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	a.hosts[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.key}
	return a.hosts[host], nil
}

func writePEM(file, kind string, der []byte) error {
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}

// WriteKey writes a private key into a directory, as the apps file takes it, and returns the file's name.
func WriteKey(dir, name string, key crypto.PrivateKey) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode key: %w", err)
	}
	file := filepath.Join(dir, name)
	return file, writePEM(file, "PRIVATE KEY", der)
}

// App is the entry of the apps file for a topic whose notifications come here.
func (s *Server) App(topic string) map[string]string {
	return map[string]string{
		"platform": "webpush", "topic": topic, "public_key": s.public, "private_key_file": filepath.Join(s.o.Dir, keyFile),
		"subject": "mailto:ops@example.com", "ca_file": s.CAFile(), "connect_to": s.Addr(),
	}
}
