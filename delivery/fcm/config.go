package fcm

import (
	"cmp"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// defaultURL is where FCM is.
const defaultURL = "https://fcm.googleapis.com"

// minKeyBits is the size of the smallest key that RS256 takes (RFC 7518, 3.3).
const minKeyBits = 2048

// appFile is one app of the apps file.
type appFile struct {
	Platform           api.Platform `json:"platform"`
	Topic              string       `json:"topic"`
	ServiceAccountFile string       `json:"service_account_file"`
	URL                string       `json:"url"`
	TokenURL           string       `json:"token_url"`
	CAFile             string       `json:"ca_file"`
}

// appConfig is one app, read and checked.
type appConfig struct {
	topic    string
	url      *url.URL
	tokenURL string
	account  *serviceAccount
	roots    *x509.CertPool
	caSum    [sha256.Size]byte
}

// key identifies the apps that may share connections and an access token.
type key struct {
	url, tokenURL string
	account, ca   [sha256.Size]byte
}

func (c *appConfig) key() key {
	return key{c.url.String(), c.tokenURL, c.account.sum, c.caSum}
}

// readApps reads everything that the apps name and reports all problems at once.
func readApps(entries []transport.AppEntry) ([]appConfig, error) {
	return transport.ReadEntries(entries, func(e *transport.AppEntry, a *appFile) (appConfig, string, []error) {
		c, wrong := a.config(e)
		return c, appName(a.Topic), wrong
	})
}

// config checks an app and reads its files. It lists everything that is wrong.
func (a *appFile) config(e *transport.AppEntry) (c appConfig, wrong []error) {
	note := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", field, err))
		}
	}
	c.topic = a.Topic
	if !api.ValidIdentifier(a.Topic) {
		note("topic", fmt.Errorf("%q is no topic", a.Topic))
	}
	var err error
	c.url, err = exchange.BaseURL(cmp.Or(a.URL, defaultURL))
	note("url", err)
	if a.ServiceAccountFile == "" {
		note("service_account_file", errors.New("must be set"))
	} else {
		c.account, err = readAccount(e.Path(a.ServiceAccountFile))
		note("service_account_file", err)
	}
	if c.tokenURL = a.TokenURL; c.tokenURL != "" {
		note("token_url", checkTokenURL(c.tokenURL))
	} else if c.account != nil {
		c.tokenURL = c.account.TokenURI
	}
	if a.CAFile != "" {
		var raw []byte
		c.roots, raw, err = exchange.ReadCA(e.Path(a.CAFile))
		c.caSum = sha256.Sum256(raw)
		note("ca_file", err)
	}
	return c, wrong
}

// serviceAccount is the JSON file of a service account, as the Google Cloud console makes it.
type serviceAccount struct {
	ProjectID   string `json:"project_id"`
	KeyID       string `json:"private_key_id"`
	PrivateKey  string `json:"private_key"`
	ClientEmail string `json:"client_email"`
	TokenURI    string `json:"token_uri"`

	key *rsa.PrivateKey
	sum [sha256.Size]byte // of the file
}

// readAccount reads the file of a service account. No error shows what the file contains.
func readAccount(file string) (*serviceAccount, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read service account: %w", err)
	}
	a := &serviceAccount{sum: sha256.Sum256(raw)}
	if json.Unmarshal(raw, a) != nil {
		return nil, fmt.Errorf("%s is not the JSON file of a service account", file)
	}
	var errs []error
	for _, field := range []struct{ name, value string }{
		{"project_id", a.ProjectID}, {"private_key_id", a.KeyID}, {"private_key", a.PrivateKey}, {"client_email", a.ClientEmail}, {"token_uri", a.TokenURI},
	} {
		if field.value == "" {
			errs = append(errs, fmt.Errorf("%s: %s is missing", file, field.name))
		}
	}
	if strings.ContainsFunc(a.ProjectID, notOfProject) {
		errs = append(errs, fmt.Errorf("%s: project_id is no project", file))
	}
	if a.TokenURI != "" && checkTokenURL(a.TokenURI) != nil {
		errs = append(errs, fmt.Errorf("%s: token_uri is no URL that begins with https://", file))
	}
	if a.PrivateKey != "" {
		if a.key, err = parseKey(a.PrivateKey); err != nil {
			errs = append(errs, fmt.Errorf("%s: private_key: %w", file, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return a, nil
}

// notOfProject reports whether a character cannot be in the id of a project.
func notOfProject(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-.:_", r)
}

// parseKey reads an RSA key: PEM with PKCS #8.
func parseKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("no PKCS #8 key")
	}
	k, ok := parsed.(*rsa.PrivateKey)
	switch {
	case !ok:
		return nil, fmt.Errorf("a key of type %T; RS256 needs RSA", parsed)
	case k.N.BitLen() < minKeyBits:
		return nil, fmt.Errorf("an RSA key of %d bits; RS256 needs %d", k.N.BitLen(), minKeyBits)
	}
	return k, nil
}

// checkTokenURL checks the URL of a token endpoint.
func checkTokenURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return fmt.Errorf("%q is no URL that begins with https://", s)
	}
	return nil
}
