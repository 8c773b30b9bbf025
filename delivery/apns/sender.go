package apns

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/api"
	"fanfare/delivery/transport"
)

// maxTopics is how many topics of a key for all topics are tracked one by one.
const maxTopics = 1000

// anyTopic stands for every topic in AppState.
const anyTopic = "*"

// Options configure a Sender. All have a default. Apps of the apps file take precedence over KeyFile.
type Options struct {
	// URL is the base URL of every app that names none; default Apple's server
	// for the environment.
	URL string
	// CAFile holds the roots to trust (PEM); default the system's.
	CAFile string
	// KeyFile (.p8), KeyID and TeamID sign for every topic in both environments.
	KeyFile, KeyID, TeamID string
	// Logger receives configurations and failing connections; default none.
	Logger *slog.Logger
	// Timeout limits one Send, including the wait for a connection; default 20 s.
	Timeout time.Duration
	// DialTimeout limits connecting and the TLS handshake; default 10 s.
	DialTimeout time.Duration
	// A connection that is silent for ReadIdle (5 s) gets a PING; silent for
	// PingTimeout (5 s) more it is given up.
	ReadIdle, PingTimeout time.Duration
	// SendWithin is how long a request may wait for the connection to take it after MaySend returned
	// true. After that the connection is given up, so that the request is not sent late. It should
	// be half a lease; default 5 s.
	SendWithin time.Duration
	// Now is the clock of provider tokens; default time.Now.
	Now func() time.Time
}

// setDefaults sets the fields that are zero to their defaults.
func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.DialTimeout = cmp.Or(o.DialTimeout, 10*time.Second)
	o.ReadIdle = cmp.Or(o.ReadIdle, 5*time.Second)
	o.PingTimeout = cmp.Or(o.PingTimeout, 5*time.Second)
	o.SendWithin = cmp.Or(o.SendWithin, 5*time.Second)
}

// now is the clock for provider tokens and for the expiry of certificates.
func (o *Options) now() time.Time {
	if o.Now != nil {
		return o.Now()
	}
	return time.Now()
}

// Sender sends to Apple's servers. It connects with the first notification.
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
			l.pool.Close()
		}
	}
}

// Close implements transport.Sender.
func (s *Sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, l := range s.apps.Load().links {
		l.pool.Close()
	}
	return nil
}

// Takes implements transport.Sender. A key for all topics takes any topic.
func (s *Sender) Takes(r *api.DeviceRequest) bool {
	t := s.apps.Load()
	return t.named[appKey{r.Topic, r.Environment}] != nil || t.any[r.Environment] != nil
}

// Apps implements transport.Sender, sorted by name.
func (s *Sender) Apps() []transport.AppState {
	t := s.apps.Load()
	var out []transport.AppState
	for _, a := range t.all() {
		out = append(out, a.state())
	}
	slices.SortFunc(out, func(a, b transport.AppState) int { return cmp.Compare(a.App, b.App) })
	return out
}

// Reasons implements transport.Sender.
func (s *Sender) Reasons() []string { return documentedReasons() }

// Send implements transport.Sender.
func (s *Sender) Send(ctx context.Context, n *transport.Notification) transport.Answer {
	done := make(chan transport.Answer, 1)
	s.Start(ctx, n, func(a transport.Answer) { done <- a })
	return <-done
}

// Start implements transport.Starter.
func (s *Sender) Start(ctx context.Context, n *transport.Notification, done func(transport.Answer)) {
	a := s.apps.Load().find(n.Topic, n.Environment)
	switch {
	case a == nil:
		done(transport.Answer{Outcome: transport.NoApp})
	case len(n.Payload) == 0:
		done(transport.Answer{Outcome: transport.OurBug, Reason: apns2.ReasonPayloadEmpty, Err: errors.New("the payload is empty")})
	default:
		newPush(ctx, a, n, s.o.Timeout, done).Try()
	}
}
