// Package address decides which addresses fanfare connects to if somebody else has named the host: a user who
// registers a browser (W15), or a backend that sets a webhook (H8). Without it, fanfare could be made to send
// requests to services of the private network that it runs in.
package address

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// The networks of IPv6 that have public addresses, and those whose last 32 bits are an address of IPv4,
// which a gateway connects to.
var (
	public6 = netip.MustParsePrefix("2000::/3")
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
)

// special are the networks that are no part of the internet, by IANA's registries of special-purpose
// addresses: loopback, private, link-local, shared, multicast, unspecified and reserved ones, those of
// documents and tests, and tunnels, whose addresses contain others.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("3fff::/20"),
}

// contains reports whether a network of the list has an address.
func contains(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// isPublic reports whether an address is one of the internet. An address of IPv4 that is mapped into
// IPv6 is none.
func isPublic(addr netip.Addr) bool {
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return (addr.Is4() || public6.Contains(addr)) && !contains(special, addr)
}

// Rules say which resolved addresses are connected to: public ones, and those of the networks in Allow. The zero
// value allows all public addresses.
type Rules struct {
	// Allow are networks that are connected to although their addresses are not public.
	Allow []netip.Prefix
	// OnlyAllow refuses public addresses as well.
	OnlyAllow bool
	// Own, when set, returns the addresses at which this process listens. They are refused whatever Allow says, so
	// that fanfare sends nothing to itself.
	Own func() []netip.AddrPort
}

// Allows reports whether a network in Allow has an address.
func (r *Rules) Allows(addr netip.Addr) bool { return contains(r.Allow, addr.WithZone("")) }

// Check returns an error if an address must not be connected to.
func (r *Rules) Check(at netip.AddrPort) error {
	addr := at.Addr().WithZone("")
	switch {
	case r.isOwn(addr.Unmap(), at.Port()):
		return fmt.Errorf("%v is an address of fanfare itself: it does not connect to it", at)
	case r.Allows(addr), isPublic(addr) && !r.OnlyAllow:
		return nil
	case r.OnlyAllow:
		return fmt.Errorf("%v is in none of the networks that are allowed: fanfare does not connect to it without TLS", addr)
	}
	return fmt.Errorf("%v is no public address: fanfare does not connect to it", addr)
}

// isOwn reports whether this process listens at an address and a port.
func (r *Rules) isOwn(addr netip.Addr, port uint16) bool {
	if r.Own == nil {
		return false
	}
	return slices.ContainsFunc(r.Own(), func(own netip.AddrPort) bool {
		at := own.Addr().Unmap()
		return own.Port() == port && (at == addr || addr.IsUnspecified() || at.IsUnspecified() && isOfThisMachine(addr))
	})
}

// isOfThisMachine reports whether an address belongs to this machine, also if that cannot be found out.
func isOfThisMachine(addr netip.Addr) bool {
	if addr.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		n, err := netip.ParsePrefix(a.String())
		return err == nil && n.Addr().Unmap() == addr
	})
}

// Control is Check as the Control of a net.Dialer, which gets the address that a host's name was resolved to and
// that is connected to next. So a name cannot have one address when it is judged and another when it is used.
func (r *Rules) Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return r.Check(at)
}
