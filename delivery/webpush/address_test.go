package webpush

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fanfare/delivery/address/addresstest"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// W15: the address is checked that a name has when the connection is opened. A name that has an allowed
// address at first, and is then bound to another one, is connected to at the first alone.
func TestW15_ARebindingNameIsNotConnectedTo(t *testing.T) {
	t.Parallel()
	dns := addresstest.Start(t)
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
		o.resolver = dns.Resolver()
	})
	entry := s.App(topic)
	delete(entry, "connect_to")
	w.mustConfigure(entry)

	dns.Set(chrome, "127.0.0.2")
	w.mustDeliver(w.note())
	storetest.Eventually(t, time.Minute, "the connection is closed", func() bool { return w.Open() == 0 })
	dns.Set(chrome, "127.0.0.3")
	before := dns.Asked()
	a := w.send(w.note())
	if a.Outcome != transport.NotSent || a.Err == nil || !strings.Contains(a.Err.Error(), "127.0.0.3 is no public address") {
		t.Errorf("got %+v", a)
	}
	if dns.Asked() == before {
		t.Error("the name was not resolved again")
	}
	if err := w.failure("webpush:" + chrome); err == nil || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("got %v", err)
	}
	// Of several addresses, only the allowed ones are connected to.
	dns.Set(chrome, "127.0.0.3", "127.0.0.2", "10.0.0.1")
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
