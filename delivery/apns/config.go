package apns

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/api"
	"fanfare/delivery/transport"
)

// The variables that errors name, so that an operator knows what to correct.
const (
	varURL      = "FANFARE_APNS_URL"
	varCAFile   = "FANFARE_APNS_CA_FILE"
	varKeyFile  = "FANFARE_APNS_KEY_FILE"
	varKeyID    = "FANFARE_APNS_KEY_ID"
	varTeamID   = "FANFARE_APNS_TEAM_ID"
	varAppsFile = "FANFARE_APNS_APPS_FILE"
)

// appFile is one app of FANFARE_APNS_APPS_FILE.
type appFile struct {
	Topic        string          `json:"topic"`
	Environment  api.Environment `json:"environment"`
	URL          string          `json:"url"`
	KeyFile      string          `json:"key_file"`
	KeyID        string          `json:"key_id"`
	TeamID       string          `json:"team_id"`
	CertFile     string          `json:"cert_file"`
	CertPassword string          `json:"cert_password"`
}

// appConfig is one app, read and checked. Topic "" means every topic.
type appConfig struct {
	topic string
	env   api.Environment
	url   *url.URL
	creds *credentials
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
	url string
	env api.Environment
	sum [sha256.Size]byte
	ca  [sha256.Size]byte
}

// account says which connections an app may use.
func (c *configuration) account(a *appConfig) account {
	return account{url: a.url.String(), env: a.env, sum: a.creds.sum, ca: c.caSum}
}

// readConfiguration reads everything that the options name and reports all
// problems at once.
func readConfiguration(o *Options) (*configuration, error) {
	c := &configuration{}
	roots, raw, err := readCA(o.CAFile)
	if err != nil {
		err = fmt.Errorf("%s: %w", varCAFile, err)
	}
	c.roots, c.caSum = roots, sha256.Sum256(raw)
	errs := []error{err, c.addKey(o), c.addFile(o)}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(c.apps) == 0 {
		return nil, fmt.Errorf("set %s or %s", varKeyFile, varAppsFile)
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
		c.apps = append(c.apps, appConfig{env: env, url: u, creds: creds})
	}
	return nil
}

// addFile adds the apps of the file.
func (c *configuration) addFile(o *Options) error {
	if o.AppsFile == "" {
		return nil
	}
	apps, err := readApps(o.AppsFile)
	if err != nil {
		return fmt.Errorf("%s: %w", varAppsFile, err)
	}
	var errs []error
	seen := make(map[string]bool)
	for i := range apps {
		a, err := apps[i].config(o)
		if name := transport.AppOf(api.PlatformAPNs, apps[i].Topic, string(apps[i].Environment)); err == nil && seen[name] {
			err = fmt.Errorf("%s is there twice", name)
		} else {
			seen[name] = true
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s: apps[%d]: %w", varAppsFile, o.AppsFile, i, err))
			continue
		}
		c.apps = append(c.apps, a)
	}
	return errors.Join(errs...)
}

// readApps reads the file strictly: an unknown name is probably misspelt, and a key under a misspelt
// name would be ignored.
func readApps(file string) ([]appFile, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read apps: %w", err)
	}
	var doc struct {
		Apps []appFile `json:"apps"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: more than one JSON value", file)
	}
	if len(doc.Apps) == 0 {
		return nil, fmt.Errorf("%s: no apps", file)
	}
	return doc.Apps, nil
}

// config checks one app of the file and reads its credentials. Files are named
// relative to the apps file.
func (a *appFile) config(o *Options) (appConfig, error) {
	if !api.ValidIdentifier(a.Topic) {
		return appConfig{}, fmt.Errorf("topic: %q is no topic", a.Topic)
	}
	if a.Environment != api.EnvProduction && a.Environment != api.EnvSandbox {
		return appConfig{}, fmt.Errorf("environment: must be production or sandbox, not %q", a.Environment)
	}
	u, err := serverURL(a.URL, o.URL, a.Environment)
	if err != nil {
		return appConfig{}, fmt.Errorf("url: %w", err)
	}
	creds, err := a.credentials(filepath.Dir(o.AppsFile), o.now())
	if err != nil {
		return appConfig{}, err
	}
	return appConfig{topic: a.Topic, env: a.Environment, url: u, creds: creds}, nil
}

// credentials reads the key or the certificate of an app. Exactly one of them must be named: with both
// it would not be clear which one is used.
func (a *appFile) credentials(dir string, now time.Time) (*credentials, error) {
	at := func(file string) string {
		if filepath.IsAbs(file) {
			return file
		}
		return filepath.Join(dir, file)
	}
	switch {
	case (a.KeyFile == "") == (a.CertFile == ""):
		return nil, errors.New("key_file, cert_file: exactly one must be set")
	case a.CertFile != "":
		c, err := readCertificate(at(a.CertFile), a.CertPassword, now)
		if err != nil {
			return nil, fmt.Errorf("cert_file: %w", err)
		}
		return c, nil
	case a.KeyID == "" || a.TeamID == "":
		return nil, errors.New("key_id, team_id: must be set with key_file")
	}
	c, err := readKey(at(a.KeyFile), a.KeyID, a.TeamID)
	if err != nil {
		return nil, fmt.Errorf("key_file: %w", err)
	}
	return c, nil
}

// serverURL is the app's own base URL, else the general one, else Apple's.
func serverURL(own, general string, env api.Environment) (*url.URL, error) {
	s := own
	if s == "" {
		s = general
	}
	if s == "" && env == api.EnvSandbox {
		s = apns2.HostDevelopment
	} else if s == "" {
		s = apns2.HostProduction
	}
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("parse base URL: %w", err)
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is no base URL such as https://host or https://host:2197", s)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// address is the host and port to dial.
func address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// tlsConfig is what connections of an app are opened with.
func (c *configuration) tlsConfig(a *appConfig) *tls.Config {
	t := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: c.roots,
		ServerName: a.url.Hostname(), NextProtos: []string{"h2"},
	}
	if a.creds.cert != nil {
		t.Certificates = []tls.Certificate{*a.creds.cert}
	}
	return t
}
