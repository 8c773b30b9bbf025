package web

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"fanfare/api"
)

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	wrong := api.Errorf(api.CodeUnauthorized, "wrong")
	here, there := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	now := time.Now()
	t.Run("the window ends", func(t *testing.T) {
		t.Parallel()
		s := &wrongKeys{}
		for range maxWrongKeys {
			if err := s.count(here, now, wrong); api.CodeOf(err) != api.CodeUnauthorized {
				t.Fatal(err)
			}
		}
		if err := s.count(here, now, wrong); api.CodeOf(err) != api.CodeRateLimited {
			t.Errorf("one too many: %v", err)
		}
		if err := s.count(there, now, wrong); api.CodeOf(err) != api.CodeUnauthorized {
			t.Errorf("another address: %v", err)
		}
		if err := s.count(here, now.Add(wrongKeysWindow), wrong); api.CodeOf(err) != api.CodeUnauthorized {
			t.Errorf("a minute later: %v", err)
		}
	})
	t.Run("many addresses take bounded memory", func(t *testing.T) {
		t.Parallel()
		s := &wrongKeys{}
		for i := range 3 * maxWrongAddresses {
			at := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			_ = s.count(netip.PrefixFrom(at, 32), now, wrong)
			if len(s.windows) > maxWrongAddresses {
				t.Fatalf("%d addresses are remembered", len(s.windows))
			}
		}
	})
}

func TestAddressOf(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:5":                 "192.0.2.1/32",
		"[::ffff:192.0.2.1]:5":        "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:5":    "2001:db8:1:2::/64",
		"[fe80::1%eth0]:5":            "fe80::/64",
		"something that is no socket": "invalid Prefix",
	} {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {"9.9.9.9"}}}
		if got := addressOf(r).String(); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
