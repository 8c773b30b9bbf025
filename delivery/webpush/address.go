package webpush

import (
	"fmt"
	"net/netip"
	"slices"
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

// isPublic reports whether an address is one of the internet (W15). An address of IPv4 that is mapped into
// IPv6 is none.
func isPublic(addr netip.Addr) bool {
	if nat64.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return (addr.Is4() || public6.Contains(addr)) && !contains(special, addr)
}

// checkAddress is asked about each resolved address before fanfare connects to it.
func (o *Options) checkAddress(at netip.AddrPort) error {
	addr := at.Addr().WithZone("")
	if contains(o.AllowNets, addr) || isPublic(addr) {
		return nil
	}
	return fmt.Errorf("%v is no public address: fanfare does not connect to it", addr)
}
