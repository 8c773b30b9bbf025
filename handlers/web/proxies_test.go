package web

import (
	"net/http"
	"testing"
)

// U6: the address of a caller, with and without proxies.
func TestCaller(t *testing.T) {
	t.Parallel()
	var trusted Proxies
	if err := trusted.UnmarshalText([]byte("10.0.0.0/8, 192.0.2.7/32,2001:db8:ffff::/48")); err != nil {
		t.Fatal(err)
	}
	if got := trusted.String(); got != "10.0.0.0/8,192.0.2.7/32,2001:db8:ffff::/48" {
		t.Errorf("read as %s", got)
	}
	for name, c := range map[string]struct {
		remote string
		lines  []string
		want   string
	}{
		"no proxy":                        {"192.0.2.1:5", nil, "192.0.2.1/32"},
		"a peer that nobody trusts":       {"192.0.2.1:5", []string{"9.9.9.9"}, "192.0.2.1/32"},
		"IPv4 in IPv6":                    {"[::ffff:192.0.2.1]:5", nil, "192.0.2.1/32"},
		"IPv6":                            {"[2001:db8:1:2:3:4:5:6]:5", nil, "2001:db8:1:2::/64"},
		"a zone":                          {"[fe80::1%eth0]:5", nil, "fe80::/64"},
		"no socket":                       {"something that is no socket", nil, "invalid Prefix"},
		"a trusted peer without a header": {"10.0.0.1:5", nil, "10.0.0.1/32"},
		"one hop":                         {"10.0.0.1:5", []string{"9.9.9.9"}, "9.9.9.9/32"},
		"made up before the hop":          {"10.0.0.1:5", []string{"1.1.1.1, 8.8.8.8 ,9.9.9.9"}, "9.9.9.9/32"},
		"several trusted ones":            {"10.0.0.1:5", []string{"1.1.1.1, 9.9.9.9, 192.0.2.7", "10.2.3.4"}, "9.9.9.9/32"},
		"all lines are one list":          {"10.0.0.1:5", []string{"9.9.9.9", "10.1.1.1, 10.2.2.2", "192.0.2.7"}, "9.9.9.9/32"},
		"only trusted ones":               {"10.0.0.1:5", []string{"10.0.0.2,10.0.0.3"}, "10.0.0.1/32"},
		"unreadable":                      {"10.0.0.1:5", []string{"9.9.9.9, unknown"}, "10.0.0.1/32"},
		"unreadable behind a trusted one": {"10.0.0.1:5", []string{"9.9.9.9,,10.0.0.2"}, "10.0.0.1/32"},
		"unreadable and never looked at":  {"10.0.0.1:5", []string{"unknown, 9.9.9.9"}, "9.9.9.9/32"},
		"an empty line":                   {"10.0.0.1:5", []string{""}, "10.0.0.1/32"},
		"with ports":                      {"10.0.0.1:5", []string{"9.9.9.9:1234, [2001:db8:ffff::1]:80"}, "9.9.9.9/32"},
		"IPv6 behind a proxy":             {"[2001:db8:ffff::1]:5", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		"a proxy that is IPv4 in IPv6":    {"[::ffff:10.0.0.1]:5", []string{"::ffff:9.9.9.9"}, "9.9.9.9/32"},
		"another header":                  {"192.0.2.7:5", nil, "192.0.2.7/32"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{"X-Forwarded-For": c.lines, "X-Real-Ip": {"7.7.7.7"}}}
		if got := prefixOf(trusted.caller(r)).String(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	for _, bad := range []string{"10.0.0.1", "10.0.0.0/33", "::ffff:10.0.0.0/104", "10.0.0.0/8;10.0.0.0/8", "10.0.0.0/8,", "proxy"} {
		if new(Proxies).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
