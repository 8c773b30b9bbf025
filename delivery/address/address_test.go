package address_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"fanfare/delivery/address"
)

// W15: no address of this machine, of a private network or of any other special one is connected to.
func TestW15_OnlyPublicAddresses(t *testing.T) {
	t.Parallel()
	rules := &address.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32"), netip.MustParsePrefix("fd00:1::/64")}}
	for text, want := range map[string]bool{
		"142.250.186.74": true, "34.107.243.93": true, "17.188.128.1": true, "172.32.0.1": true, "100.128.0.1": true, "11.0.0.1": true,
		"2a00:1450:4001:82a::200a": true, "2620:149:a44::1": true, "64:ff9b::8efa:ba4a": true,
		"127.0.0.2": true, "fd00:1::7": true, // allowed
		"127.0.0.1": false, "127.1.2.3": false, "::1": false, "0.0.0.0": false, "0.1.2.3": false, "::": false, "fd00:2::7": false,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fc00::1": false, "fdff::1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%lo": false, "fec0::1": false, "100.64.0.1": false, "100.127.255.255": false,
		"224.0.0.1": false, "239.1.2.3": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:142.250.186.74": false, "::127.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b::a00:1": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false,
		"192.0.0.1": false, "192.0.2.1": false, "198.18.0.1": false, "198.51.100.1": false, "203.0.113.1": false, "100::1": false, "5f00::1": false,
	} {
		if err := rules.Check(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// H8: requests without TLS go to the allowed networks alone.
func TestH8_OnlyAllowedNetworks(t *testing.T) {
	t.Parallel()
	rules := &address.Rules{OnlyAllow: true, Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	for text, want := range map[string]bool{"10.1.2.3": true, "10.2.0.1": false, "127.0.0.1": false, "142.250.186.74": false, "2a00:1450:4001:82a::200a": false} {
		if err := rules.Check(netip.AddrPortFrom(netip.MustParseAddr(text), 80)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// H8: fanfare does not connect to itself, even if the networks are allowed.
func TestH8_NotToItself(t *testing.T) {
	t.Parallel()
	own := netip.MustParseAddrPort("127.0.0.1:8080")
	rules := &address.Rules{
		Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
		Own:   func() []netip.AddrPort { return []netip.AddrPort{own} },
	}
	check := func(at string, want bool) {
		t.Helper()
		if err := rules.Check(netip.MustParseAddrPort(at)); (err == nil) != want {
			t.Errorf("%v, listening at %v: %v", at, own, err)
		}
	}
	for at, want := range map[string]bool{"127.0.0.1:8080": false, "[::ffff:127.0.0.1]:8080": false, "0.0.0.0:8080": false, "127.0.0.1:8081": true, "127.0.0.2:8080": true, "[::1]:8080": true} {
		check(at, want)
	}
	own = netip.MustParseAddrPort("[::]:8080") // all addresses of this machine
	for at, want := range map[string]bool{"127.0.0.1:8080": false, "127.9.9.9:8080": false, "[::1]:8080": false, "[::]:8080": false, "127.0.0.1:8081": true, "192.0.2.1:8080": true} {
		check(at, want)
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		text, _, _ := strings.Cut(a.String(), "/")
		check(net.JoinHostPort(text, "8080"), false)
		check(net.JoinHostPort(text, "8081"), true)
	}
}

// The check sees the address that is connected to.
func TestControlSeesTheResolvedAddress(t *testing.T) {
	t.Parallel()
	d := net.Dialer{Control: (&address.Rules{}).Control}
	if _, err := d.Dial("tcp", "localhost:9"); err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("got %v", err)
	}
}
