package webpush

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/address"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// Options configure a Sender. Settings have defaults.
type Options struct {
	exchange.Settings
	// Origins lists the hosts that the sender sends to; notifications to others fail.
	Origins api.PushOrigins
	// AllowNets are networks that the sender connects to although their addresses are not public ones.
	// Apps may name an address there, which is connected to instead of every endpoint's. For stand-ins.
	AllowNets []netip.Prefix

	// For tests: another resolver, what follows the host in the address that is dialled, such as :8443, and
	// after how long without a request a connection is closed.
	resolver *net.Resolver
	port     string
	idle     time.Duration
}

// addresses are the rules for the addresses of hosts.
func (o *Options) addresses() *address.Rules { return &address.Rules{Allow: o.AllowNets} }

// Sender sends to the push services of browsers. It connects with the first notification to a host.
type Sender struct {
	o     Options
	hosts hosts
	apps  atomic.Pointer[map[string]*app] // by topic
	mu    sync.Mutex                      // serializes take
}

var _ transport.Sender = (*Sender)(nil)

// New makes a sender without apps: transport.Configure gives it some. It reads and connects nothing.
func New(o Options) *Sender {
	o.SetDefaults()
	s := &Sender{o: o}
	s.hosts = hosts{o: &s.o, byKey: map[hostKey]*host{}}
	s.apps.Store(&map[string]*app{})
	return s
}

// Prepare implements transport.Sender: keys and roots are read again. Its error names every file and field
// that is wrong.
func (s *Sender) Prepare(entries []transport.AppEntry) (take func(), err error) {
	apps, err := readApps(entries, &s.o)
	if err != nil {
		return nil, err
	}
	return func() {
		s.take(apps)
		if len(apps) > 0 {
			s.o.Logger.Info("Web Push apps configured", "apps", len(apps))
		}
	}, nil
}

// take replaces the apps, and closes the connections that no app uses any more.
func (s *Sender) take(configs []appConfig) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, routes := map[string]*app{}, map[route]bool{}
	for i := range configs {
		c := &configs[i]
		next[c.topic] = newApp(c, s.app(c.topic), &s.o)
		routes[c.route] = true
	}
	s.apps.Store(&next)
	s.hosts.keep(routes)
}

// app is the app of a topic, nil if there is none.
func (s *Sender) app(topic string) *app { return (*s.apps.Load())[topic] }

// Close implements transport.Sender.
func (s *Sender) Close() error {
	s.hosts.close()
	return nil
}

// Takes implements transport.Sender.
func (s *Sender) Takes(r *api.DeviceRequest) bool { return s.app(r.Topic) != nil }

// HasApps reports whether there is an app.
func (s *Sender) HasApps() bool { return len(*s.apps.Load()) > 0 }

// PublicKey returns the key with which pages subscribe to a topic's app: the application server key, in
// base64url. ok is false if there is no such app.
func (s *Sender) PublicKey(topic string) (key string, ok bool) {
	a := s.app(topic)
	if a == nil {
		return "", false
	}
	return a.public, true
}

// Apps implements transport.Sender: each app at each origin.
func (s *Sender) Apps() map[string]error {
	out := map[string]error{}
	for topic, a := range *s.apps.Load() {
		for _, origin := range s.o.origins() {
			out[transport.AppOf(api.PlatformWebPush, topic, origin)] = a.failure(origin, &s.hosts)
		}
	}
	return out
}

// Reasons implements transport.Sender.
func (s *Sender) Reasons() []string { return slices.Clone(documented) }
