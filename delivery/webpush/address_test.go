package webpush

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// W15: no address of this machine, of a private network or of any other special one is connected to.
func TestW15_OnlyPublicAddresses(t *testing.T) {
	t.Parallel()
	o := &Options{AllowNets: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32"), netip.MustParsePrefix("fd00:1::/64")}}
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
		if err := o.checkAddress(netip.AddrPortFrom(netip.MustParseAddr(text), 443)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// names is a server of DNS that a test tells what to answer.
type names struct {
	conn net.PacketConn
	mu   sync.Mutex
	of   map[string][]string // addresses of IPv4, by the name with a dot at its end
	n    int                 // answers
}

func startNames(t *testing.T) *names {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	storetest.Must(t, err)
	s := &names{conn: conn, of: map[string][]string{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if answer := s.answer(buf[:n]); answer != nil {
				_, _ = conn.WriteTo(answer, from)
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return s
}

// answer makes the answer to a query.
func (s *names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if q.Type == dnsmessage.TypeA {
		s.n++
		for _, text := range s.of[q.Name.String()] {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(text).As4()},
			})
		}
	}
	out, _ := m.Pack()
	return out
}

// set lets a host have these addresses from now on.
func (s *names) set(host string, addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[host+"."] = addresses
}

// asked is how often an address was asked for.
func (s *names) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// W15: the address is checked that a name has when the connection is opened. A name that has an allowed
// address at first, and is then bound to another one, is connected to at the first alone.
func TestW15_ARebindingNameIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	dns := startNames(t)
	s := webpushtest.Start(t, webpushtest.Options{Addr: "127.0.0.2:0"}) // stands for the push service
	_, port, err := net.SplitHostPort(s.Addr())
	storetest.Must(t, err)
	inside, err := net.Listen("tcp", "127.0.0.3:"+port) // a service of the private network
	storetest.Must(t, err)
	t.Cleanup(func() { _ = inside.Close() })
	touched := make(chan struct{})
	go func() {
		if c, err := inside.Accept(); err == nil {
			_ = c.Close()
			close(touched)
		}
	}()
	w := setupWith(t, s, func(o *Options) {
		o.AllowNets, o.port, o.idle = []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, ":"+port, 50*time.Millisecond
		o.resolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, _ string) (net.Conn, error) {
			return net.Dial("udp", dns.conn.LocalAddr().String())
		}}
	})
	entry := s.App(topic)
	delete(entry, "connect_to")
	w.mustConfigure(entry)

	dns.set(chrome, "127.0.0.2")
	w.mustDeliver(w.note())
	storetest.Eventually(t, time.Minute, "the connection is closed", func() bool { return w.Open() == 0 })
	dns.set(chrome, "127.0.0.3")
	before := dns.asked()
	a := w.send(w.note())
	if a.Outcome != transport.NotSent || a.Err == nil || !strings.Contains(a.Err.Error(), "127.0.0.3 is no public address") {
		t.Errorf("got %+v", a)
	}
	if dns.asked() == before {
		t.Error("the name was not resolved again")
	}
	if err := w.failure("webpush:" + chrome); err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("got %v", err)
	}
	// Of several addresses, only the allowed ones are connected to.
	dns.set(chrome, "127.0.0.3", "127.0.0.2", "10.0.0.1")
	storetest.Eventually(t, time.Minute, "the service is reached again", func() bool { return w.send(w.note()).Outcome == transport.Delivered })
	select {
	case <-touched:
		t.Error("an address was connected to that is not allowed")
	default:
	}
	if !slices.ContainsFunc(w.Requests(), func(r webpushtest.Request) bool { return r.Host == chrome }) {
		t.Error("nothing was delivered")
	}
}
