package apns

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/sideshow/apns2/token"
	"software.sslmate.com/src/go-pkcs12"
)

// credentials are what one app authenticates with: a signing key or a certificate.
type credentials struct {
	key         *ecdsa.PrivateKey
	keyID, team string
	cert        *tls.Certificate
	sum         [sha256.Size]byte // over everything secret, to compare two
}

// appleID is the form of Apple's key ids and team ids, without their length.
var appleID = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// readKey reads a .p8 file: a PKCS #8 key on P-256, which is what ES256 needs.
func readKey(file, keyID, team string) (*credentials, error) {
	for name, id := range map[string]string{"key id": keyID, "team id": team} {
		if !appleID.MatchString(id) {
			return nil, fmt.Errorf("%q is no %s: it has letters and digits alone", id, name)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	key, err := token.AuthKeyFromBytes(raw)
	if errors.Is(err, token.ErrAuthKeyNotECDSA) || err == nil && key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("%s can't sign ES256: APNs takes ECDSA keys on P-256 only", file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a .p8 key: %w", file, err)
	}
	sum := sha256.Sum256([]byte(keyID + "\x00" + team + "\x00" + string(raw)))
	return &credentials{key: key, keyID: keyID, team: team, sum: sum}, nil
}

// readCertificate reads a certificate with its key: PEM, both in one file, or
// PKCS #12.
func readCertificate(file, password string, now time.Time) (*credentials, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	cert, err := parseCertificate(raw, password)
	if err != nil {
		return nil, fmt.Errorf("%s is no certificate with its key: %w", file, err)
	}
	if now.After(cert.Leaf.NotAfter) {
		return nil, fmt.Errorf("%s: the certificate expired on %s", file, cert.Leaf.NotAfter.Format(time.DateOnly))
	}
	return &credentials{cert: cert, sum: sha256.Sum256(raw)}, nil
}

// parseCertificate tells the two formats apart by their content. File names are not reliable: Keychain
// exports .p12, fastlane .pem, and people rename both.
func parseCertificate(raw []byte, password string) (*tls.Certificate, error) {
	if block, _ := pem.Decode(raw); block != nil {
		cert, err := tls.X509KeyPair(raw, raw)
		if err != nil {
			return nil, fmt.Errorf("read PEM: %w", err)
		}
		return withLeaf(&cert)
	}
	key, leaf, chain, err := pkcs12.DecodeChain(raw, password)
	if err != nil {
		return nil, fmt.Errorf("read PKCS #12: %w", err)
	}
	return certificateOf(key, append(chain, leaf))
}

// certificateOf puts the certificate of the key first: a file may have them in any order.
func certificateOf(key any, all []*x509.Certificate) (*tls.Certificate, error) {
	own := slices.IndexFunc(all, func(c *x509.Certificate) bool {
		signer, ok := key.(crypto.Signer)
		if !ok {
			return false
		}
		public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
		return ok && public.Equal(c.PublicKey)
	})
	if own < 0 {
		return nil, errors.New("no certificate in it is that of its key")
	}
	cert := &tls.Certificate{PrivateKey: key, Leaf: all[own], Certificate: [][]byte{all[own].Raw}}
	for i, c := range all {
		if i != own {
			cert.Certificate = append(cert.Certificate, c.Raw)
		}
	}
	return cert, nil
}

// withLeaf parses the certificate itself, so that its end of validity can be read.
func withLeaf(cert *tls.Certificate) (*tls.Certificate, error) {
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	cert.Leaf = leaf
	return cert, nil
}
