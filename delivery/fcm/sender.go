package fcm

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/exchange"
	"fanfare/delivery/transport"
)

// Options configure a Sender. All have a default.
type Options struct {
	exchange.Settings
	// TokenTimeout limits one request to a token endpoint; default 10 s.
	TokenTimeout time.Duration
}

// Sender sends to FCM. It connects with the first notification.
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
	o.TokenTimeout = cmp.Or(o.TokenTimeout, fetchWithin)
	s := &Sender{o: o}
	s.apps.Store(&appTable{})
	return s
}

// Prepare implements transport.Sender: service accounts and roots are read again. Its error names every
// file and field that is wrong. Apps that did not change keep their connections.
func (s *Sender) Prepare(entries []transport.AppEntry) (take func(), err error) {
	apps, err := readApps(entries)
	if err != nil {
		return nil, err
	}
	next, err := s.apps.Load().next(apps, &s.o)
	if err != nil {
		return nil, err
	}
	return func() {
		s.take(next)
		if len(apps) > 0 {
			s.o.Logger.Info("FCM apps configured", "apps", len(apps), "accounts", len(next.links))
		}
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

// Takes implements transport.Sender.
func (s *Sender) Takes(r *api.DeviceRequest) bool { return s.apps.Load().apps[r.Topic] != nil }

// HasApps reports whether there is an app.
func (s *Sender) HasApps() bool { return len(s.apps.Load().apps) > 0 }

// Apps implements transport.Sender.
func (s *Sender) Apps() map[string]error {
	out := map[string]error{}
	for topic, a := range s.apps.Load().apps {
		out[appName(topic)] = a.link.failure()
	}
	return out
}

// Reasons implements transport.Sender.
func (s *Sender) Reasons() []string { return slices.Clone(documented) }
