package apnstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The files of a stand-in, all PEM.
const (
	caFile       = "ca.pem"
	serverFile   = "server.pem" // certificate and key
	certFile     = "client.pem" // certificate and key
	keyFile      = "AuthKey.p8"
	otherKeyFile = "OtherKey.p8"
)

// files is a directory of keys and certificates.
type files struct {
	dir    string
	made   bool // the directory was made here and has to be removed
	key    *ecdsa.PrivateKey
	server tls.Certificate
	ca     *x509.CertPool
}

// newFiles opens a directory of files, filling an empty one; "" makes one.
func newFiles(dir string) (*files, error) {
	f := &files{dir: dir}
	if dir == "" {
		made, err := os.MkdirTemp("", "apnstest")
		if err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		f.dir, f.made = made, true
	}
	if _, err := os.Stat(filepath.Join(f.dir, keyFile)); errors.Is(err, fs.ErrNotExist) {
		if err := writeAll(f.dir); err != nil {
			f.remove()
			return nil, err
		}
	}
	if err := f.load(); err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// remove deletes the directory if New made it.
func (f *files) remove() {
	if f.made {
		_ = os.RemoveAll(f.dir)
	}
}

// load reads the files that a server needs: its certificate, the CA, and the public part of the key
// that signs provider tokens.
func (f *files) load() error {
	pair := filepath.Join(f.dir, serverFile)
	var err error
	if f.server, err = tls.LoadX509KeyPair(pair, pair); err != nil {
		return fmt.Errorf("load server certificate: %w", err)
	}
	ca, err := os.ReadFile(filepath.Join(f.dir, caFile))
	if err != nil {
		return fmt.Errorf("read CA: %w", err)
	}
	f.ca = x509.NewCertPool()
	f.ca.AppendCertsFromPEM(ca)
	raw, err := os.ReadFile(filepath.Join(f.dir, keyFile))
	if err != nil {
		return fmt.Errorf("read key: %w", err)
	}
	f.key, err = parseKey(raw)
	return err
}

// parseKey reads a .p8 key.
func parseKey(raw []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("the key file is not PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the key is %T, not ECDSA", key)
	}
	return ec, nil
}

// serverTLS accepts client certificates of the stand-in's CA. Clients with provider tokens need no
// certificate.
func (f *files) serverTLS() *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{f.server},
		NextProtos:   []string{"h2"},
		ClientAuth:   tls.VerifyClientCertIfGiven,
		ClientCAs:    f.ca,
	}
}

// writeAll makes every file. The .p8 key comes last, so that the other files are complete if it
// exists.
func writeAll(dir string) error {
	ca, caKey, err := certificate("apnstest CA", nil, nil)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, caFile), ca, nil); err != nil {
		return err
	}
	for name, file := range map[string]string{"apnstest": serverFile, DefaultTopic: certFile} {
		cert, key, err := certificate(name, ca, caKey)
		if err != nil {
			return err
		}
		if err := writePEM(filepath.Join(dir, file), cert, key); err != nil {
			return err
		}
	}
	for _, file := range []string{otherKeyFile, keyFile} {
		key, err := newKey()
		if err != nil {
			return err
		}
		if err := writePEM(filepath.Join(dir, file), nil, key); err != nil {
			return err
		}
	}
	return nil
}

// newKey makes a key on P-256, the curve of ES256.
func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

// certificate signs a certificate for loopback by ca, or makes a CA without one.
func certificate(name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, nil, fmt.Errorf("draw serial: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if ca == nil {
		t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
		ca, caKey = t, key
	}
	der, err := x509.CreateCertificate(rand.Reader, t, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// writePEM writes a certificate, a key, or both.
func writePEM(path string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	var out []byte
	if cert != nil {
		out = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	}
	if key != nil {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return fmt.Errorf("encode key: %w", err)
		}
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	return nil
}
