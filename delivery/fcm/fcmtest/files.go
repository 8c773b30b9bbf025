package fcmtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// keyID is the id of the service account's key.
const keyID = "0123456789abcdef"

// accountKey is the key of every stand-in's service account. It takes a while to make.
var accountKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// writeCA writes a certificate authority, and returns a certificate for loopback that it signed.
func writeCA(file string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("generate key: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "fcmtest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign certificate: %w", err)
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		return tls.Certificate{}, fmt.Errorf("write CA: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Account is the JSON file of a service account.
type Account struct {
	Type        string `json:"type"`
	ProjectID   string `json:"project_id"`
	KeyID       string `json:"private_key_id"`
	PrivateKey  string `json:"private_key"`
	ClientEmail string `json:"client_email"`
	TokenURI    string `json:"token_uri"`
}

// PEM writes a private key as service accounts have it.
func PEM(key crypto.PrivateKey) (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encode key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), nil
}

// account is the stand-in's own service account.
func (s *Server) account() (Account, error) {
	text, err := PEM(s.key)
	return Account{
		Type: "service_account", ProjectID: s.o.Project, KeyID: keyID, PrivateKey: text,
		ClientEmail: "fanfare@" + s.o.Project + ".example", TokenURI: s.URL() + tokenPath,
	}, err
}

// WriteAccount writes the service account into a directory, changed as the test wants, and returns the
// file's name.
func (s *Server) WriteAccount(dir, name string, changes ...func(*Account)) (string, error) {
	a, err := s.account()
	if err != nil {
		return "", err
	}
	for _, change := range changes {
		change(&a)
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return "", fmt.Errorf("encode account: %w", err)
	}
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		return "", fmt.Errorf("write account: %w", err)
	}
	return file, nil
}
