package apns

import (
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// maxTopics is how many topics of a key for all topics are tracked one by one.
const maxTopics = 1000

// anyTopic stands for every topic in the name of an app.
const anyTopic = "*"

// Options configure a Sender. All have a default. Apps of the apps file take precedence over KeyFile.
type Options struct {
	exchange.Settings
	// URL is the base URL of every app that names none; default Apple's server
	// for the environment.
	URL string
	// ManageURL is the same for the host that makes and deletes channels.
	ManageURL string
	// CAFile holds the roots to trust (PEM); default the system's.
	CAFile string
	// KeyFile (.p8), KeyID and TeamID sign for every topic in both environments.
	KeyFile, KeyID, TeamID string
}

// Sender sends to Apple's servers. It connects with the first notification.
type Sender struct {
	o      Options
	apps   atomic.Pointer[appTable]
	mu     sync.Mutex // serializes take and Close
	closed bool
}

var _ transport.Sender = (*Sender)(nil)

// New makes a sender without apps: transport.Configure gives it some. It reads and connects nothing.
func New(o Options) *Sender {
	o.SetDefaults()
	s := &Sender{o: o}
	s.apps.Store(&appTable{})
	return s
}

// Prepare implements transport.Sender: keys, certificates and roots are read again. Its error names
// every variable, file and field that is wrong. Apps whose credentials did not change keep their
// connections.
func (s *Sender) Prepare(apps []transport.AppEntry) (take func(), err error) {
	c, err := readConfiguration(&s.o, apps)
	if err != nil {
		return nil, err
	}
	next, err := s.apps.Load().next(c, &s.o)
	if err != nil {
		return nil, err
	}
	return func() {
		s.take(next)
		s.o.Logger.Info("APNs apps configured", "apps", len(c.apps), "accounts", len(next.links))
	}, nil
}

// take replaces the apps, and closes the connections that no app uses any more.
func (s *Sender) take(next *appTable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	for key, l := range s.apps.Swap(next).links {
		if next.links[key] != l {
			l.close()
		}
	}
}

// Close implements transport.Sender.
func (s *Sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.apps.Load().links {
		l.close()
	}
	return nil
}

// Takes implements transport.Sender. A key for all topics takes any topic.
func (s *Sender) Takes(r *api.DeviceRequest) bool {
	t := s.apps.Load()
	return t.ofFile(r.Topic, r.Environment) != nil || t.any[r.Environment] != nil
}

// Apps implements transport.Sender.
func (s *Sender) Apps() map[string]error {
	out := map[string]error{}
	for _, a := range s.apps.Load().all() {
		out[a.name()] = a.link.failure()
	}
	return out
}

// Ends implements transport.Ender: the certificates of apps. Keys have no end.
func (s *Sender) Ends() map[string]time.Time {
	out := map[string]time.Time{}
	for _, a := range s.apps.Load().all() {
		if !a.link.ends.IsZero() {
			out[a.name()] = a.link.ends
		}
	}
	return out
}

// Reasons implements transport.Sender.
func (s *Sender) Reasons() []string {
	return append(documentedReasons(), reasonCertificate, transport.ReasonTopic)
}
