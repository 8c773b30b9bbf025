package fcm

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fanfare/api"
	"fanfare/delivery/transport"
)

// Options configure a Sender. All have a default.
type Options struct {
	// Logger receives configurations and failing connections; default none.
	Logger *slog.Logger
	// Timeout limits one Send, including the wait for an access token and a connection; default 20 s.
	Timeout time.Duration
	// TokenTimeout limits one request to a token endpoint; default 10 s.
	TokenTimeout time.Duration
	// DialTimeout limits connecting and the TLS handshake; default 10 s.
	DialTimeout time.Duration
	// A connection that is silent for ReadIdle (5 s) gets a PING; silent for PingTimeout (5 s) more it is
	// given up.
	ReadIdle, PingTimeout time.Duration
	// SendWithin is how long a request may wait for the connection to take it after MaySend returned
	// true. After that the connection is given up, so that the request is not sent late. It should be half
	// a lease; default 5 s.
	SendWithin time.Duration
	// Now is the clock of access tokens, times to live and limits; default time.Now.
	Now func() time.Time
}

// setDefaults sets the fields that are zero to their defaults.
func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.TokenTimeout = cmp.Or(o.TokenTimeout, fetchWithin)
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.ReadIdle = cmp.Or(o.ReadIdle, 5*time.Second)
	o.PingTimeout = cmp.Or(o.PingTimeout, 5*time.Second)
	o.SendWithin = cmp.Or(o.SendWithin, 5*time.Second)
}

func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// Sender sends to FCM. It connects with the first notification.
type Sender struct {
	o      Options
	apps   atomic.Pointer[appTable]
	mu     sync.Mutex // serializes take and Close
	closed bool
}

var (
	_ transport.Sender  = (*Sender)(nil)
	_ transport.Starter = (*Sender)(nil)
)

// New makes a sender without apps: transport.Configure gives it some. It reads and connects nothing.
func New(o Options) *Sender {
	o.setDefaults()
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

// HasApps tells whether there is an app.
func (s *Sender) HasApps() bool { return len(s.apps.Load().apps) > 0 }

// Apps implements transport.Sender, sorted by name.
func (s *Sender) Apps() []transport.AppState {
	var out []transport.AppState
	for _, a := range s.apps.Load().apps {
		out = append(out, a.state())
	}
	slices.SortFunc(out, func(a, b transport.AppState) int { return cmp.Compare(a.App, b.App) })
	return out
}

// Reasons implements transport.Sender.
func (s *Sender) Reasons() []string { return slices.Clone(documented) }

// Send implements transport.Sender.
func (s *Sender) Send(ctx context.Context, n *transport.Notification) transport.Answer {
	done := make(chan transport.Answer, 1)
	s.Start(ctx, n, func(a transport.Answer) { done <- a })
	return <-done
}

// Start implements transport.Starter. A notification without a payload was found to be too large when
// its payload was made (W6).
func (s *Sender) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	a := s.apps.Load().apps[n.Topic]
	switch {
	case a == nil:
		done(transport.Answer{Outcome: transport.NoApp})
	case len(n.Payload) == 0:
		done(transport.Answer{Outcome: transport.FailMessage, Reason: reasonTooLarge})
	default:
		start(ctx, a, n, &s.o, done)
	}
}
