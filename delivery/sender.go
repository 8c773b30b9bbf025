package delivery

import (
	"context"
	"errors"
	"time"

	"fanfare/api"
)

// ErrNotAlive is the Err of an answer whose notification's Alive said no: the
// lease was over before the request was complete, so APNs never got it.
var ErrNotAlive = errors.New("the lease was over before the notification was written")

// Sender sends one notification and says what became of it. Two exist: APNs
// and LogSender. All methods may be called by many goroutines at once.
type Sender interface {
	// Send sends n and waits for the answer. It never returns a zero Outcome.
	// When ctx ends first, the answer is NotSent if APNs can't have seen the
	// whole request, else UnknownOutcome.
	Send(ctx context.Context, n *Notification) Answer
	// Apps describes every app the sender has met or was configured with.
	Apps() []AppState
	// Reload reads the configuration again (SIGHUP). When the new one is broken
	// the old one stays and the error says why.
	Reload() error
	// Close ends idle connections at once and the others with their requests.
	Close() error
}

// Notification is one push to one device, fully rendered.
type Notification struct {
	// ID is the apns-id: a lowercase UUID, the same on every retry.
	ID          string
	Token       string
	Topic       string
	Environment api.Environment
	PushType    api.PushType
	// Priority is 1, 5 or 10; 0 sends no header (APNs then takes 10).
	Priority int
	// CollapseID holds at most 64 bytes; "" sends no header.
	CollapseID string
	// Expiration nil sends no header; the Unix epoch sends 0: APNs tries once
	// and stores nothing.
	Expiration *time.Time
	// Payload is not changed, and must not be by the caller, not even after Send.
	Payload []byte
	// Alive, when set, is asked right before the request leaves, on every try.
	// False makes the answer NotSent with ErrNotAlive.
	Alive func() bool
}

// Answer is what became of one Send.
type Answer struct {
	Outcome Outcome
	// Status and Reason are APNs' own; Status 0: there was no answer.
	Status int
	Reason string
	// APNsID is the apns-id that APNs confirmed.
	APNsID string
	// Timestamp (410 only, milliseconds, else zero) is when APNs last found the
	// token inactive.
	Timestamp time.Time
	// RetryAfter is APNs' wish for the next try; 0: none was told.
	RetryAfter time.Duration
	// Err explains an answer without a status.
	Err error
}

// Drops tells whether an answer of DropDevice drops a device that registered
// at this time: it does unless the registration is later than APNs' finding.
func (a Answer) Drops(registeredAt time.Time) bool {
	if a.Outcome != DropDevice {
		return false
	}
	return a.Timestamp.IsZero() || !a.Timestamp.Before(registeredAt.Truncate(time.Millisecond))
}

// AppState describes one app for readyz and metrics; it holds no secret.
type AppState struct {
	App         string // AppOf(Topic, Environment)
	Topic       string // "*": any topic
	Environment api.Environment
	URL         string
	Auth        string // "token", "certificate" or "log"
	Connections int    // open, shared with apps of the same credentials and URL
	InFlight    int    // requests of this app under way
	// Limit is how many requests of this app may be under way: it is halved by
	// every 503 ServiceUnavailable and recovers slowly. 0: not limited.
	Limit int
	// TokenIssued is when the present provider token was minted.
	TokenIssued time.Time
	// LastError is the newest failure to connect or to sign, "" after a success.
	LastError string
}

// AppOf names the app of a topic in an environment. The name holds one slash,
// which no topic can.
func AppOf(topic string, env api.Environment) string {
	return topic + "/" + string(env)
}
