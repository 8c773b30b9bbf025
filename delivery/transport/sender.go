package transport

import (
	"context"
	"errors"
	"time"

	"fanfare/api"
)

// ErrMayNotSend is the Err of an answer whose notification's MaySend said no before
// the request was complete, so the service never got it.
var ErrMayNotSend = errors.New("the lease or the device data was too old when the notification was about to be written")

// Sender sends one notification and says what became of it. delivery/apns and
// delivery/logsender are two, and Senders makes one of several. All methods may be called by many
// goroutines at once.
type Sender interface {
	// Send sends n and waits for the answer. It never returns a zero Outcome.
	// When ctx ends first, the answer is NotSent if the service can't have seen
	// the whole request, else UnknownOutcome.
	Send(ctx context.Context, n *Notification) Answer
	// Takes tells whether there is an app for a device's registration, so that notifications to
	// the device are sent.
	Takes(*api.DeviceRequest) bool
	// Apps describes every app the sender has met or was configured with.
	Apps() []AppState
	// Reasons lists the reasons that the service documents for its answers. Only
	// they become labels of metrics; all others are counted as "other".
	Reasons() []string
	// Reload reads the configuration again (SIGHUP). When the new one is broken
	// the old one stays and the error says why.
	Reload() error
	// Close ends idle connections at once and the others with their requests.
	Close() error
}

// Starter is a Sender that keeps no goroutine waiting for an answer.
type Starter interface {
	// Start is Send without the waiting: done is called once, with the answer. It may be called
	// before Start returns, and must not block, because other answers come from the same
	// goroutine.
	Start(ctx context.Context, n *Notification, done func(Answer))
}

// Start sends by any Sender without waiting, see Starter.
func Start(ctx context.Context, s Sender, n *Notification, done func(Answer)) {
	if starter, ok := s.(Starter); ok {
		starter.Start(ctx, n, done)
		return
	}
	go func() { done(s.Send(ctx, n)) }()
}

// Notification is one push to one device, fully rendered. A sender leaves out
// what its service does not have.
type Notification struct {
	// ID is a lowercase UUID, the same on every retry.
	ID string
	// Platform is the push service that issued the device's token.
	Platform    Platform
	Token       string
	Topic       string
	Environment api.Environment
	PushType    api.PushType
	// Priority is 1, 5 or 10; 0 leaves it to the service.
	Priority int
	// CollapseID lets a notification replace an earlier one with the same id: at most 64 bytes,
	// "" for none.
	CollapseID string
	// Expiration is until when the service keeps trying. Nil leaves it to the service; the Unix
	// epoch means one try, without storing the notification.
	Expiration *time.Time
	// Payload is not changed by the sender. The caller must not change it either, not even after
	// Send.
	Payload []byte
	// MaySend, when set, is asked on every try right before the last of the body leaves; the
	// service never has a whole request before that. It must be quick. False makes the answer
	// NotSent with ErrMayNotSend.
	MaySend func() bool
}

// Answer is what became of one Send.
type Answer struct {
	Outcome Outcome
	// Status and Reason are the service's own; Status 0: there was no answer.
	Status int
	Reason string
	// ID is the id under which the service took the notification.
	ID string
	// Quiet (PauseApp only) tells that only clients have named the app and that the service
	// refuses its topic: no operator is to be woken.
	Quiet bool
	// GoneAt (DropDevice only, else zero) is when the service last found the
	// token inactive, in milliseconds.
	GoneAt time.Time
	// Took is how long the service took to answer, from when the request left; 0: there
	// was no answer, or the sender does not measure it.
	Took time.Duration
	// RetryAfter is how long the service asks to wait; 0: it did not say.
	RetryAfter time.Duration
	// Err explains an answer without a status.
	Err error
}

// Drops tells whether an answer of DropDevice drops a device that registered
// at this time: it does unless the registration is later than GoneAt.
func (a Answer) Drops(registeredAt time.Time) bool {
	if a.Outcome != DropDevice {
		return false
	}
	return a.GoneAt.IsZero() || !a.GoneAt.Before(registeredAt.Truncate(time.Millisecond))
}

// AppState describes one app for readyz and metrics; it holds no secret.
type AppState struct {
	App         string // AppOf(Topic, Environment)
	Topic       string // "*": any topic
	Environment api.Environment
	URL         string
	Auth        string // kind of credentials: "token", "certificate" or "log"
	Connections int    // open, shared with apps of the same credentials and URL
	InFlight    int    // requests of this app under way
	// Limit is how many requests of this app may be under way: it is halved when
	// the service asks for less, and recovers slowly. 0: not limited.
	Limit int
	// TokenIssued is when the present token of the credentials was made.
	TokenIssued time.Time
	// LastError is the newest failure to connect or to sign, "" after a success.
	LastError string
}

// AppOf names the app of a topic in an environment. The name holds one slash,
// which no topic can.
func AppOf(topic string, env api.Environment) string {
	return topic + "/" + string(env)
}
