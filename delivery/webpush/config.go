package webpush

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// appFile is one app of the apps file.
type appFile struct {
	Platform       api.Platform `json:"platform"`
	Topic          string       `json:"topic"`
	PublicKey      string       `json:"public_key"`
	PrivateKeyFile string       `json:"private_key_file"`
	Subject        string       `json:"subject"`
	CAFile         string       `json:"ca_file"`
	ConnectTo      string       `json:"connect_to"`
}

// appConfig is one app, read and checked.
type appConfig struct {
	topic, subject string
	public         string // of key, as browsers take it
	key            *ecdsa.PrivateKey
	roots          *x509.CertPool
	route          route
}

// readApps reads everything that the apps name and reports all problems at once.
func readApps(entries []transport.AppEntry, o *Options) ([]appConfig, error) {
	return transport.ReadEntries(entries, func(e *transport.AppEntry, a *appFile) (appConfig, string, []error) {
		c, wrong := a.config(e, o)
		return c, "the topic " + a.Topic + " of webpush", wrong
	})
}

// config checks an app and reads its files. It lists everything that is wrong.
func (a *appFile) config(e *transport.AppEntry, o *Options) (c appConfig, wrong []error) {
	note := func(field string, err error) {
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", field, err))
		}
	}
	c.topic, c.public, c.subject, c.route.connectTo = a.Topic, a.PublicKey, a.Subject, a.ConnectTo
	if !api.ValidIdentifier(a.Topic) {
		note("topic", fmt.Errorf("%q is no topic", a.Topic))
	}
	var err error
	if a.PrivateKeyFile == "" {
		note("private_key_file", errors.New("must be set"))
	} else {
		c.key, err = readKey(e.Path(a.PrivateKeyFile))
		note("private_key_file", err)
	}
	note("public_key", checkPublic(a.PublicKey, c.key))
	note("subject", checkSubject(a.Subject))
	if a.CAFile != "" {
		var raw []byte
		c.roots, raw, err = exchange.ReadCA(e.Path(a.CAFile))
		c.route.ca = sha256.Sum256(raw)
		note("ca_file", err)
	}
	note("connect_to", o.checkConnectTo(a.ConnectTo))
	return c, wrong
}

// checkPublic checks that a public key is that of a private key, unless the private key is not known.
func checkPublic(public string, key *ecdsa.PrivateKey) error {
	if public == "" {
		return errors.New("must be set")
	}
	if key == nil {
		return nil
	}
	own, err := publicOf(key)
	if err == nil && own != public {
		return errors.New("is not the public key of private_key_file, in base64url without padding")
	}
	return err
}

// checkSubject checks the address at which a push service reaches the operator (RFC 8292, 2.1).
func checkSubject(subject string) error {
	address, isMail := strings.CutPrefix(subject, "mailto:")
	u, err := url.Parse(subject)
	switch {
	case isMail:
		parsed, err := mail.ParseAddress(address)
		if err == nil && parsed.Address == address && isPublicName(address[strings.LastIndex(address, "@")+1:]) {
			return nil
		}
	case err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && isPublicName(u.Hostname()):
		return nil
	}
	return fmt.Errorf("%q is neither mailto: with an address nor https: with a host, of a domain that others can reach: localhost, "+
		"names without a dot and names that end with .local, .invalid or .test are refused by some push services", subject)
}

// isPublicName reports whether a host is a name that others may know. A name without a dot is none, nor is a name
// that RFC 6761 or RFC 6762 reserves, nor an address. Apple's push service refuses such subjects.
func isPublicName(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	dot := strings.LastIndex(host, ".")
	return dot > 0 && err != nil && !slices.Contains([]string{"localhost", "local", "invalid", "test"}, host[dot+1:])
}

// checkConnectTo checks the address that is connected to instead of every endpoint's: it has to be in a
// network of AllowNets.
func (o *Options) checkConnectTo(address string) error {
	if address == "" {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return fmt.Errorf("%q is no IP address with a port", address)
	case !o.addresses().Allows(at.Addr()):
		return fmt.Errorf("%v is in no network of FANFARE_WEBPUSH_ALLOW_NETS", at.Addr())
	}
	return nil
}
