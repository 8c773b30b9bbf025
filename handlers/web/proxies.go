package web

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of the proxies whose X-Forwarded-For is trusted. The zero value trusts no
// proxy.
type Proxies []netip.Prefix

// UnmarshalText reads the form of FANFARE_TRUSTED_PROXIES: "10.0.0.0/8,192.0.2.7/32".
func (p *Proxies) UnmarshalText(text []byte) error {
	*p = nil
	if len(text) == 0 {
		return nil
	}
	for part := range strings.SplitSeq(string(text), ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil || prefix.Addr().Is4In6() {
			return errors.New("is not a list of networks such as 10.0.0.0/8,192.0.2.7/32")
		}
		*p = append(*p, prefix)
	}
	return nil
}

// String is the form that UnmarshalText reads.
func (p Proxies) String() string {
	parts := make([]string, len(p))
	for i, prefix := range p {
		parts[i] = prefix.String()
	}
	return strings.Join(parts, ",")
}

func (p Proxies) trust(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

// caller is the address that a request comes from. That is the other end of its connection or,
// if the other end is a trusted proxy, the last hop of X-Forwarded-For that is not one. Hops
// before it may be forged. If a hop cannot be parsed, the caller is the proxy. The address is used for
// counting and for the log, never for access rights. It is invalid if nothing is known.
func (p Proxies) caller(r *http.Request) netip.Addr {
	peer, _ := hopOf(r.RemoteAddr)
	if !p.trust(peer) {
		return peer
	}
	for _, line := range slices.Backward(r.Header["X-Forwarded-For"]) {
		for more := true; more; {
			hop := line
			if at := strings.LastIndexByte(line, ','); at >= 0 {
				line, hop = line[:at], line[at+1:]
			} else {
				more = false
			}
			addr, ok := hopOf(strings.TrimSpace(hop))
			if !ok {
				return peer
			}
			if !p.trust(addr) {
				return addr
			}
		}
	}
	return peer
}

// hopOf reads an address, with or without a port.
func hopOf(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		at, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = at.Addr()
	}
	return addr.Unmap().WithZone(""), true
}
