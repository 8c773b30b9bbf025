package apns

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// The variables that errors name, so that an operator knows what to correct.
const (
	varURL     = "FANFARE_APNS_URL"
	varManage  = "FANFARE_APNS_MANAGE_URL"
	varCAFile  = "FANFARE_APNS_CA_FILE"
	varKeyFile = "FANFARE_APNS_KEY_FILE"
	varKeyID   = "FANFARE_APNS_KEY_ID"
	varTeamID  = "FANFARE_APNS_TEAM_ID"
)

// appFile is one app of the apps file.
type appFile struct {
	Platform     api.Platform    `json:"platform"` // apns, or absent
	Topic        string          `json:"topic"`
	Environment  api.Environment `json:"environment"`
	URL          string          `json:"url"`
	ManageURL    string          `json:"manage_url"`
	KeyFile      string          `json:"key_file"`
	KeyID        string          `json:"key_id"`
	TeamID       string          `json:"team_id"`
	CertFile     string          `json:"cert_file"`
	CertPassword string          `json:"cert_password"`
}

// appConfig is one app, read and checked. Topic "" means every topic.
type appConfig struct {
	topic  string
	env    api.Environment
	url    *url.URL
	manage *url.URL // of the management host
	creds  *credentials
}

// configuration is all apps, and the roots to trust.
type configuration struct {
	apps  []appConfig
	roots *x509.CertPool
	caSum [sha256.Size]byte
}

// account identifies the apps that may share a connection: their server, environment, roots and
// credentials are the same.
type account struct {
	url    string
	manage string
	env    api.Environment
	sum    [sha256.Size]byte
	ca     [sha256.Size]byte
}

// account says which connections an app may use.
func (c *configuration) account(a *appConfig) account {
	return account{url: a.url.String(), manage: a.manage.String(), env: a.env, sum: a.creds.sum, ca: c.caSum}
}

// readConfiguration reads everything that the options and the apps name and reports all
// problems at once.
func readConfiguration(o *Options, apps []transport.AppEntry) (*configuration, error) {
	c := &configuration{}
	roots, raw, err := exchange.ReadCA(o.CAFile)
	if err != nil {
		err = fmt.Errorf("%s: %w", varCAFile, err)
	}
	c.roots, c.caSum = roots, sha256.Sum256(raw)
	if err := errors.Join(err, c.addKey(o), c.addApps(o, apps)); err != nil {
		return nil, err
	}
	return c, nil
}

// addKey adds the key of the options: every topic, both environments.
func (c *configuration) addKey(o *Options) error {
	if o.KeyFile == "" && o.KeyID == "" && o.TeamID == "" {
		return nil
	}
	var errs []error
	for _, v := range []struct{ name, value string }{{varKeyFile, o.KeyFile}, {varKeyID, o.KeyID}, {varTeamID, o.TeamID}} {
		if v.value == "" {
			errs = append(errs, fmt.Errorf("%s: must be set with the other two of the key", v.name))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	creds, err := readKey(o.KeyFile, o.KeyID, o.TeamID)
	if err != nil {
		return fmt.Errorf("%s: %w", varKeyFile, err)
	}
	for _, env := range []api.Environment{api.EnvProduction, api.EnvSandbox} {
		u, err := serverURL(o.URL, "", env)
		if err != nil {
			return fmt.Errorf("%s: %w", varURL, err)
		}
		manage, err := manageURL(o.ManageURL, "", env)
		if err != nil {
			return fmt.Errorf("%s: %w", varManage, err)
		}
		c.apps = append(c.apps, appConfig{env: env, url: u, manage: manage, creds: creds})
	}
	return nil
}

// addApps adds the apps of the apps file.
func (c *configuration) addApps(o *Options, apps []transport.AppEntry) error {
	named, err := transport.ReadEntries(apps, func(e *transport.AppEntry, a *appFile) (appConfig, string, []error) {
		app, wrong := a.config(o, e)
		return app, transport.AppOf(api.PlatformAPNs, a.Topic, string(a.Environment)), wrong
	})
	c.apps = append(c.apps, named...)
	return err
}

// config checks an app and reads its credentials. It lists everything that is wrong.
func (a *appFile) config(o *Options, e *transport.AppEntry) (appConfig, []error) {
	var wrong []error
	if !api.ValidIdentifier(a.Topic) {
		wrong = append(wrong, fmt.Errorf("topic: %q is no topic", a.Topic))
	}
	if a.Environment != api.EnvProduction && a.Environment != api.EnvSandbox {
		wrong = append(wrong, fmt.Errorf("environment: must be production or sandbox, not %q", a.Environment))
	}
	u, err := serverURL(a.URL, o.URL, a.Environment)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("url: %w", err))
	}
	manage, err := manageURL(a.ManageURL, o.ManageURL, a.Environment)
	if err != nil {
		wrong = append(wrong, fmt.Errorf("manage_url: %w", err))
	}
	creds, err := a.credentials(e, o.Now())
	return appConfig{topic: a.Topic, env: a.Environment, url: u, manage: manage, creds: creds}, append(wrong, err)
}

// credentials reads the key or the certificate of an app. Exactly one of them must be named: with both
// it would not be clear which one is used.
func (a *appFile) credentials(e *transport.AppEntry, now time.Time) (*credentials, error) {
	switch {
	case (a.KeyFile == "") == (a.CertFile == ""):
		return nil, errors.New("key_file, cert_file: exactly one must be set")
	case a.CertFile != "":
		c, err := readCertificate(e.Path(a.CertFile), a.CertPassword, now)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		return c, nil
	case a.KeyID == "" || a.TeamID == "":
		return nil, errors.New("key_id, team_id: must be set with key_file")
	}
	c, err := readKey(e.Path(a.KeyFile), a.KeyID, a.TeamID)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	return c, nil
}

// Apple's management hosts ("Sending channel management requests to APNs").
const (
	manageProduction = "https://api-manage-broadcast.push.apple.com:2196"
	manageSandbox    = "https://api-manage-broadcast.sandbox.push.apple.com:2195"
)

// serverURL is the app's own base URL, else the general one, else Apple's.
func serverURL(own, general string, env api.Environment) (*url.URL, error) {
	if env == api.EnvSandbox {
		return exchange.BaseURL(cmp.Or(own, general, apns2.HostDevelopment))
	}
	return exchange.BaseURL(cmp.Or(own, general, apns2.HostProduction))
}

// manageURL is the same for the management host.
func manageURL(own, general string, env api.Environment) (*url.URL, error) {
	if env == api.EnvSandbox {
		return exchange.BaseURL(cmp.Or(own, general, manageSandbox))
	}
	return exchange.BaseURL(cmp.Or(own, general, manageProduction))
}

// tlsConfig is what connections of an app to one of its hosts are opened with.
func (c *configuration) tlsConfig(a *appConfig, host *url.URL) *tls.Config {
	t := exchange.TLS(host, c.roots)
	if a.creds.cert != nil {
		t.Certificates = []tls.Certificate{*a.creds.cert}
	}
	return t
}
