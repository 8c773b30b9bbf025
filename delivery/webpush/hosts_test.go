package webpush

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fanfare/api"
	"fanfare/delivery/address/addresstest"
	"fanfare/delivery/exchange/exchangetest"
	"fanfare/delivery/transport"
	"fanfare/delivery/webpush/webpushtest"
	"fanfare/store/storetest"
)

// mustTake takes a host that there must be room for.
func (h *hosts) mustTake(t *testing.T, name, origin string) *host {
	t.Helper()
	x, err := h.take(hostKey{name: name}, origin, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return x
}

// W15: there are connections to at most 200 hosts, of one entry of the list to at most 100. The host that was
// used longest ago goes first, and none that has a request.
func TestW15_HostsAreBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	h := &New(Options{Origins: api.PushOrigins{"*"}, Settings: settings(c.now)}).hosts
	busy := map[string]*host{}
	for i := range maxHostsOfOrigin {
		name := fmt.Sprintf("h%d.a.example", i)
		busy[name] = h.mustTake(t, name, "a")
		c.advance(time.Second)
	}
	if _, err := h.take(hostKey{name: "more.a.example"}, "a", nil); !errors.Is(err, errManyHosts) {
		t.Errorf("one more of the same entry: %v", err)
	}
	h.release(busy["h7.a.example"])
	c.advance(time.Second)
	h.release(busy["h3.a.example"]) // used after the other
	h.mustTake(t, "more.a.example", "a")
	if h.byKey[hostKey{name: "h7.a.example"}] != nil || h.byKey[hostKey{name: "h3.a.example"}] == nil || len(h.byKey) != maxHostsOfOrigin {
		t.Errorf("%d hosts, and not the one that was used longest ago is gone", len(h.byKey))
	}
	for i := range 3 * maxHosts {
		name := fmt.Sprintf("h%d.b%d.example", i, i)
		h.release(h.mustTake(t, name, fmt.Sprint("b", i%3)))
		c.advance(time.Second)
		if len(h.byKey) > maxHosts {
			t.Fatalf("%d hosts", len(h.byKey))
		}
	}
	if x := h.mustTake(t, "h0.a.example", "a"); x != busy["h0.a.example"] || x.users != 2 {
		t.Error("a host with a request was removed")
	}
}

// W15: the connection to a host is closed when it has had no request for a while, and opened again.
func TestW15_ConnectionsAreClosedWithoutNeed(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{}, func(o *Options) { o.idle = 100 * time.Millisecond })
	for i := range 3 {
		w.mustDeliver(w.note())
		storetest.Eventually(t, time.Minute, "the connection is closed", func() bool { return w.Open() == 0 })
		if w.Accepted() != i+1 {
			t.Errorf("%d connections", w.Accepted())
		}
	}
	if err := w.failure("webpush:" + chrome); err != nil {
		t.Errorf("the end of a connection without need is an error: %v", err)
	}
}

// W15: a host that is not on the list any more is not connected to. A wildcard opens everything.
func TestW15_TheListIsAskedBeforeEachSend(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{}, func(o *Options) { o.Origins = api.PushOrigins{"push.example.com"} })
	if a := w.send(w.note()); a.Outcome != transport.FailMessage || a.Reason != "origin_not_allowed" || w.Accepted() != 0 {
		t.Errorf("got %+v, %d connections", a, w.Accepted())
	}
	w.browser = w.MustSubscribe(t, "push.example.com")
	w.mustDeliver(w.note())
	w = setup(t, webpushtest.Options{}, func(o *Options) { o.Origins = append(o.Origins, "*") })
	w.browser = w.MustSubscribe(t, "anything.example")
	w.mustDeliver(w.note())
	if w.Open() != 1 {
		t.Errorf("%d connections", w.Open())
	}
}

// W15, W4: nothing is connected to outside of AllowNets, whatever the apps file says.
func TestW15_NothingPrivateIsConnectedTo(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{}, func(o *Options) { o.AllowNets = append(o.AllowNets, netip.MustParsePrefix("10.0.0.0/8")) })
	for address, want := range map[string]string{"localhost:443": "is no IP address with a port", "127.0.0.1": "is no IP address with a port", "192.168.0.1:443": "192.168.0.1 is in no network of FANFARE_WEBPUSH_ALLOW_NETS"} {
		entry := w.App(topic)
		entry["connect_to"] = address
		if err := w.configure(entry); err == nil || !strings.Contains(err.Error(), "apps[0]: connect_to: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	w.mustDeliver(w.note())
	w.sender.o.AllowNets = nil // what the file was checked with does not count at connect
	w.browser = w.MustSubscribe(t, "web.push.apple.com")
	if a := w.send(w.note()); a.Outcome != transport.NotSent || !strings.Contains(a.Err.Error(), "no public address") {
		t.Errorf("got %+v", a)
	}
}

// One host that hangs does not hold up the others of its entry.
func TestAHostThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{}, func(o *Options) { o.Timeout = 15 * time.Second })
	hangs, works := w.MustSubscribe(t, "a.push.apple.com"), w.MustSubscribe(t, "b.push.apple.com")
	w.Script(func(r *webpushtest.Request) (a webpushtest.Answer) {
		if r.Browser == hangs {
			a.Fault = exchangetest.Hang
		}
		return a
	})
	answers := make(chan transport.Answer, 50)
	for range cap(answers) {
		w.sender.Start(t.Context(), w.noteTo(hangs), func(a transport.Answer) { answers <- a })
	}
	storetest.Eventually(t, time.Minute, "requests hang", func() bool { return len(w.Of(hangs)) > 0 })
	for range 20 {
		w.mustDeliver(w.noteTo(works))
	}
	for range cap(answers) {
		if a := <-answers; a.Outcome != transport.UnknownOutcome && a.Outcome != transport.NotSent {
			t.Errorf("got %+v", a)
		}
	}
}

// W13: a host that does not speak HTTP/2 is told as one that cannot be reached.
func TestW13_WithoutHTTP2NothingIsSent(t *testing.T) {
	t.Parallel()
	w := setup(t, webpushtest.Options{HTTP1: true})
	if a := w.send(w.note()); a.Outcome != transport.NotSent || !strings.Contains(a.Err.Error(), "HTTP/2") && !strings.Contains(a.Err.Error(), "no application protocol") {
		t.Errorf("got %+v", a)
	}
	if w.failure("webpush:"+chrome) == nil {
		t.Error("it counts as reached")
	}
}

// A host that does not exist is no fault of an entry that lists a whole domain: users name the hosts below it.
func TestAHostThatDoesNotExistIsNoFaultOfItsEntry(t *testing.T) {
	t.Parallel()
	s, dns := webpushtest.Start(t, webpushtest.Options{}), addresstest.Start(t)
	w := setupWith(t, s, func(o *Options) { o.Origins, o.resolver = api.PushOrigins{"*.a.example", "b.example"}, dns.Resolver() })
	entry := s.App(topic)
	delete(entry, "connect_to")
	w.mustConfigure(entry)
	for _, host := range []string{"x.a.example", "b.example"} {
		if a := w.send(w.noteTo(w.MustSubscribe(t, host))); a.Outcome != transport.NotSent {
			t.Fatalf("%s: got %+v", host, a)
		}
	}
	if err := w.failure("webpush:*.a.example"); err != nil {
		t.Errorf("of a made-up host: %v", err)
	}
	if w.failure("webpush:b.example") == nil {
		t.Error("that the service itself has no address is not told")
	}
}

// A host that cannot be reached is told of its entry if no other host of the entry can be reached, and for
// a while. Hosts that no entry names are whatever users say.
func TestAUsersHostIsNoFaultOfTheApp(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := webpushtest.Start(t, webpushtest.Options{})
	w := setupWith(t, s, c.options, func(o *Options) { o.Origins, o.resolver = api.PushOrigins{"*", "*.a.example"}, noResolver() })
	away := s.App("away")
	delete(away, "connect_to")
	w.mustConfigure(s.App(topic), away)
	send := func(topic, host string) transport.Answer {
		n := w.noteTo(w.MustSubscribe(t, host))
		n.Topic = topic
		return w.send(n)
	}
	for _, host := range []string{"x.b.example", "x.a.example"} {
		if a := send("away", host); a.Outcome != transport.NotSent {
			t.Fatalf("got %+v", a)
		}
	}
	apps := w.sender.Apps()
	if apps["away/webpush:other"] != nil || apps["away/webpush:*.a.example"] == nil || apps[topic+"/webpush:*.a.example"] != nil || len(apps) != 4 {
		t.Errorf("apps: %+v", apps)
	}
	c.advance(lately + time.Second)
	if err := w.sender.Apps()["away/webpush:*.a.example"]; err != nil {
		t.Errorf("nobody has tried it for long: %v", err)
	}
}
