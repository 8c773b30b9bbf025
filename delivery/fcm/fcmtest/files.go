package fcmtest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"fanfare/delivery/exchange/exchangetest"
)

// keyID is the id of the service account's key.
const keyID = "0123456789abcdef"

// accountKey is the key of every stand-in's service account. It takes a while to make.
var accountKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Account is the JSON file of a service account.
type Account struct {
	Type        string `json:"type"`
	ProjectID   string `json:"project_id"`
	KeyID       string `json:"private_key_id"`
	PrivateKey  string `json:"private_key"`
	ClientEmail string `json:"client_email"`
	TokenURI    string `json:"token_uri"`
}

// account is the stand-in's own service account.
func (s *Server) account() (Account, error) {
	text, err := exchangetest.PEM(s.key)
	return Account{
		Type: "service_account", ProjectID: s.o.Project, KeyID: keyID, PrivateKey: string(text),
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
