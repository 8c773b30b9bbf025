package exchange

import (
	"cmp"
	"log/slog"
	"time"

	"fanfare/delivery/h2"
)

// Settings are the options that all senders over HTTP/2 have. All have a default.
type Settings struct {
	// Logger receives configurations and failing connections; default none.
	Logger *slog.Logger
	// Timeout limits one notification, including the wait for a connection and, if the service needs
	// one, for an access token; default 20 s.
	Timeout time.Duration
	// DialTimeout limits connecting and the TLS handshake; default 10 s.
	DialTimeout time.Duration
	// A connection that is silent for ReadIdle (5 s) gets a PING; silent for PingTimeout (5 s) more it is
	// given up.
	ReadIdle, PingTimeout time.Duration
	// AnswerWithin is how long a connection may answer none of its requests before no more of them are sent
	// on it; default the smaller of 5 s and ReadIdle.
	AnswerWithin time.Duration
	// SendWithin is how long a request may wait for the connection to take it after MaySend returned
	// true. After that the connection is given up, so that the request is not sent late. It should be at
	// most half a lease; default 5 s.
	SendWithin time.Duration
	// Now is the clock of tokens and certificates; default time.Now.
	Now func() time.Time
}

// RequestTimeout is the default of Settings.Timeout: how long a request to a push service may take.
const RequestTimeout = 20 * time.Second

// SetDefaults sets the fields that are zero to their defaults.
func (s *Settings) SetDefaults() {
	s.Logger = cmp.Or(s.Logger, slog.New(slog.DiscardHandler))
	if s.Now == nil {
		s.Now = time.Now
	}
	s.Timeout = cmp.Or(s.Timeout, RequestTimeout)
	s.DialTimeout = cmp.Or(s.DialTimeout, 10*time.Second)
	s.ReadIdle = cmp.Or(s.ReadIdle, 5*time.Second)
	s.PingTimeout = cmp.Or(s.PingTimeout, 5*time.Second)
	s.SendWithin = cmp.Or(s.SendWithin, 5*time.Second)
}

// Pool is how connections to a service are made; the host is that of its base URL.
func (s *Settings) Pool(service, host string) h2.Options {
	return h2.Options{
		Name: service, Host: host, Logger: s.Logger,
		DialTimeout: s.DialTimeout, ReadIdle: s.ReadIdle, PingTimeout: s.PingTimeout, AnswerWithin: s.AnswerWithin, SendWithin: s.SendWithin,
	}
}
