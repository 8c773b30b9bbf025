package redisdb

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// kind is the kind of a Redis installation.
type kind int

const (
	kindEmbedded kind = iota
	kindSingle
	kindSentinel
	kindCluster
)

// target is a parsed Redis URL.
type target struct {
	kind               kind
	tls                bool
	addrs              []string
	master             string // Sentinel's name for the master
	db                 int
	username, password string
	socket             string // a Unix socket, which takes the place of addrs
	// Sentinels may have credentials of their own, in the query of the URL.
	sentinelUsername, sentinelPassword string
}

// schemes lists every scheme a URL may have.
var schemes = map[string]target{
	"redis":           {kind: kindSingle},
	"rediss":          {kind: kindSingle, tls: true},
	"redis+sentinel":  {kind: kindSentinel},
	"rediss+sentinel": {kind: kindSentinel, tls: true},
	"redis+cluster":   {kind: kindCluster},
	"rediss+cluster":  {kind: kindCluster, tls: true},
}

var defaultPorts = map[kind]string{kindSingle: "6379", kindSentinel: "26379", kindCluster: "6379"}

// escapeHint ends an error about a part of the URL that may come from an unescaped password.
const escapeHint = " (in a password / is written %2F, and ? is written %3F)"

// CheckURL gives the first mistake in a Redis URL. Its errors repeat nothing of the URL: an
// unescaped "/" or "?" in a password makes a part of the password look like another part.
func CheckURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// parseURL reads a Redis URL.
func parseURL(raw string) (*target, error) {
	if raw == "" || raw == "embedded" {
		return &target{kind: kindEmbedded}, nil
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	t, known := schemes[scheme]
	if !ok || !known {
		return nil, errors.New("the scheme must be redis, rediss, redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster")
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	if err := t.readUser(&authority); err != nil {
		return nil, err
	}
	if err := t.readHosts(authority); err != nil {
		return nil, err
	}
	if err := t.readPath(path); err != nil {
		return nil, err
	}
	return &t, t.readQuery(query)
}

// readUser reads the credentials at the beginning of the authority.
func (t *target) readUser(authority *string) error {
	at := strings.LastIndexByte(*authority, '@')
	if at < 0 {
		return nil
	}
	user, password, _ := strings.Cut((*authority)[:at], ":")
	*authority = (*authority)[at+1:]
	var err error
	if t.username, err = url.PathUnescape(user); err != nil {
		return errors.New("the user is badly escaped")
	}
	if t.password, err = url.PathUnescape(password); err != nil {
		return errors.New("the password is badly escaped")
	}
	return nil
}

// readHosts reads h:p,h:p; a missing port is the usual one.
func (t *target) readHosts(list string) error {
	for _, host := range strings.Split(list, ",") {
		if host == "" {
			return errors.New("a host is missing")
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), defaultPorts[t.kind])
		}
		_, port, err := net.SplitHostPort(host)
		if err != nil {
			return errors.New("a host is malformed")
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return errors.New("a port is not a number of 1 to 65535" + escapeHint)
		}
		t.addrs = append(t.addrs, host)
	}
	if t.kind == kindSingle && len(t.addrs) > 1 {
		return errors.New("several hosts need redis+sentinel or redis+cluster")
	}
	return nil
}

// readPath reads [db] of one node, <master>[/db] of Sentinel; Cluster has none.
func (t *target) readPath(path string) error {
	if t.kind == kindSentinel {
		t.master, path, _ = strings.Cut(path, "/")
		if t.master == "" {
			return errors.New("the master's name is missing, as in redis+sentinel://host:26379/mymaster")
		}
	}
	if path == "" {
		return nil
	}
	if t.kind == kindCluster {
		return errors.New("a cluster has no numbered databases")
	}
	db, err := strconv.Atoi(path)
	if err != nil || db < 0 {
		return errors.New("the database is not a number of at least 0" + escapeHint)
	}
	t.db = db
	return nil
}

// readQuery reads the credentials of the sentinels. Anything else is refused, so that a misspelt
// option is not ignored silently.
func (t *target) readQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the query is malformed")
	}
	for name := range values {
		switch {
		case t.kind == kindSentinel && name == "sentinel_username":
			t.sentinelUsername = values.Get(name)
		case t.kind == kindSentinel && name == "sentinel_password":
			t.sentinelPassword = values.Get(name)
		default:
			return errors.New("an option is unknown; sentinel_username and sentinel_password exist, for redis+sentinel alone" + escapeHint)
		}
	}
	return nil
}
