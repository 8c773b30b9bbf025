package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"fanfare/api"
)

// localOnly protects a server that has no key yet. Such a server listens on loopback only, but any web
// page in a browser on this machine could reach it. So localOnly checks the Host header and that there is no proxy, and
// identify checks the calling page (foreign). Once there is a key, only keys decide.
func (s *Server) localOnly(r *http.Request) error {
	switch {
	case s.o.HasKeys(), s.o.Starting() != nil: // calls that need a key are not served yet
		return nil //nolint:nilerr // the error concerns readiness, not this check
	case !loopbackHost(r.Host):
		return api.Errorf(api.CodeMisdirected, "without an API key this server answers only to localhost")
	case forwarded(r.Header), !r.ProtoAtLeast(1, 1): // many proxies speak HTTP/1.0 unless told otherwise
		return api.Errorf(api.CodeForbidden, "without an API key this server answers no forwarded requests")
	}
	return nil
}

// foreign reports whether a server without a key must refuse the calling page: its origin is
// another one, except on this machine for routes that user tokens open.
func (s *Server) foreign(r *http.Request, users bool) bool {
	if s.o.HasKeys() || s.o.Starting() != nil || sameOrigin(r) {
		return false
	}
	return !users || s.admitted(r) == ""
}

func errForeign() error {
	return api.Errorf(api.CodeForbidden, "without an API key this server answers no pages of other origins")
}

// loopbackHost reports whether a Host header names this machine by a loopback name.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

func forwarded(h http.Header) bool {
	for name := range h {
		switch name {
		case "Forwarded", "Via", "X-Real-Ip", "Cf-Connecting-Ip":
			return true
		}
		if strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

// sameOrigin reports whether the request comes from a page of this server, or not from a page.
func sameOrigin(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return len(origins) == 1 && strings.EqualFold(origins[0], scheme+r.Host)
}
