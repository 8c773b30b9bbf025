package transport

import (
	"context"
	"errors"
	"strings"
	"time"

	"fanfare/api"
)

// ErrMayNotSend is the Err of an answer if MaySend of the notification returned false before the
// request was complete. The service never got the whole request.
var ErrMayNotSend = errors.New("the lease or the device data was too old when the notification was about to be written")

// Sender sends notifications to a push service. delivery/apns, fcm, webpush and logsender implement it, and
// Senders combines several. All methods may be called by many goroutines at once.
type Sender interface {
	// Start sends n. No goroutine waits: done is called once, with the answer, perhaps before Start
	// returns. done must not block, because other answers come from the same goroutine. The answer never
	// has a zero Outcome. If ctx ends first, it is NotSent if the service cannot have got the whole
	// request, and otherwise UnknownOutcome.
	Start(ctx context.Context, n *Notification, done func(Answer))
	// Takes reports whether there is an app for a device's registration, so that notifications to
	// the device are sent.
	Takes(*api.DeviceRequest) bool
	// Apps has, by name (see AppOf), every app the sender has met or was configured with. The value is
	// the newest failure to connect or to sign, nil after a success; it holds no secret.
	Apps() map[string]error
	// Reasons lists the reasons that the service documents for its answers. Only these become labels of
	// metrics; all others are counted as "other".
	Reasons() []string
	// Prepare reads the configuration again: the files with credentials, and the sender's apps of the
	// apps file. It changes nothing, and returns a function that takes the new configuration over.
	// Its error names every mistake. See Configure.
	Prepare(apps []AppEntry) (take func(), err error)
	// Close ends idle connections at once and the others with their requests.
	Close() error
}

// Await sends with a Sender, and waits for the answer.
func Await(ctx context.Context, s Sender, n *Notification) Answer {
	done := make(chan Answer, 1)
	s.Start(ctx, n, func(a Answer) { done <- a })
	return <-done
}

// Notification is one push notification for one device, fully rendered. A sender ignores the fields
// that its service does not have.
type Notification struct {
	// ID is a lowercase UUID, the same on every retry.
	ID string
	// Platform is the push service that issued the device's token.
	Platform api.Platform
	Token    string
	// Target is where a browser's notifications go, see api.Subscription.Target; "" on other platforms.
	Target string
	// Channel is set for a broadcast: the notification goes to the subscribers of this channel of APNs instead of a
	// device. The topic then is that of the app's Live Activities.
	Channel string
	Topic   string
	// Environment is "" unless the platform is APNs.
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
	// At is when the notification was given to the sender, by the clock of Expiration, which the sender's may differ from.
	At time.Time
	// Payload is not changed by the sender. The caller must not change it either, not even after
	// the answer.
	Payload []byte
	// Bulk says that the notification is one of a large audience. It leaves after those that are not.
	Bulk bool
	// MaySend, if set, is called on every try when the request starts, and again before the end of its
	// body is written if that had to wait; the service never has the whole request before that. It must
	// be quick. If it returns false, the answer is NotSent with ErrMayNotSend.
	MaySend func() bool
}

// Left is for how long the service keeps trying, at most this long. Expiration must not be nil.
func (n *Notification) Left(most time.Duration) time.Duration {
	return min(max(n.Expiration.Sub(n.At), 0), most)
}

// Two reasons of a SuspectDevice that speaks of its device alone, see Answer.Alone.
const (
	// ReasonTopic: the service refuses the topic, which only clients have named.
	ReasonTopic = "topic_refused"
	// ReasonEnded: the service does not know the browser's subscription, or it has expired (RFC 8030, 7.3).
	ReasonEnded = "not_found"
)

// Outcome is the meaning of an answer of a push service, or of its absence, for a notification.
type Outcome uint8

// The outcomes.
const (
	_ Outcome = iota
	// Delivered: the service accepted the notification.
	Delivered
	// FailMessage: this message is refused for good; nothing else is wrong.
	FailMessage
	// SuspectDevice: this message is refused for good, and the device is suspect. At the second such
	// answer the device is dropped, if the storm breaker is closed.
	SuspectDevice
	// UnclearRefusal: this message is refused for good, and the service does not say whether the device or
	// fanfare is at fault. How others at the same host are answered decides.
	UnclearRefusal
	// DropDevice: refused for good; the device is gone since Answer.GoneAt, see Answer.Drops.
	DropDevice
	// OurBug: refused for good, because fanfare built a wrong request. Dead letter and alarm.
	OurBug
	// PauseApp: the app's configuration is refused. The app's messages wait, and an alarm is raised.
	PauseApp
	// Again: send again at once, without using up an attempt.
	Again
	// Retry: send again after a backoff, which uses up an attempt.
	Retry
	// RetryUncounted: send again after a backoff, without using up an attempt. The sender itself
	// halves the app's concurrency.
	RetryUncounted
	// BackoffDevice: sends to this device back off; other devices are not affected.
	BackoffDevice
	// UnknownOutcome: the request was written, and the connection was lost before the answer.
	UnknownOutcome
	// NotSent: the service cannot have got the whole request. Send again after a backoff, without
	// using up an attempt.
	NotSent
	// NoApp: no app is configured for this topic and environment.
	NoApp
)

var outcomeNames = [...]string{
	Delivered: "delivered", FailMessage: "fail_message", SuspectDevice: "suspect_device",
	UnclearRefusal: "unclear_refusal", DropDevice: "drop_device", OurBug: "our_bug", PauseApp: "pause_app", Again: "again",
	Retry: "retry", RetryUncounted: "retry_uncounted", BackoffDevice: "backoff_device",
	UnknownOutcome: "unknown_outcome", NotSent: "not_sent", NoApp: "no_app",
}

// String is the outcome's name in metrics and logs.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) && outcomeNames[o] != "" {
		return outcomeNames[o]
	}
	return "invalid"
}

// Answer is the result of one Sender.Start.
type Answer struct {
	Outcome Outcome
	// Status and Reason are from the service's answer; Status 0: there was no answer.
	Status int
	Reason string
	// Said is what the service said beside the reason, for people: at most 300 bytes.
	Said string
	// Spare says that a SuspectDevice is not to drop the device, because the app's credentials may be at fault,
	// and that an UnclearRefusal is never the device's fault.
	Spare bool
	// GoneAt (DropDevice only, else zero) is when the service last found the
	// token inactive, in milliseconds.
	GoneAt time.Time
	// Took is the time from the request to the answer; 0: there was no answer, or the sender does not
	// measure it.
	Took time.Duration
	// RetryAfter is how long the service asks to wait; 0: it did not say.
	RetryAfter time.Duration
	// Least (Retry only) is the shortest backoff that the service asks its callers for; 0: none.
	Least time.Duration
	// Err explains an answer without a status.
	Err error
}

// Alone reports whether a SuspectDevice speaks of its device alone. It says nothing about the app, so the storm
// breaker neither counts it nor keeps the device.
func (a Answer) Alone() bool { return a.Reason == ReasonTopic || a.Reason == ReasonEnded }

// Drops reports whether a DropDevice answer drops a device that registered at this time: it does unless
// the device registered after GoneAt.
func (a Answer) Drops(registeredAt time.Time) bool {
	if a.Outcome != DropDevice {
		return false
	}
	return a.GoneAt.IsZero() || !a.GoneAt.Before(registeredAt.Truncate(time.Millisecond))
}

// AppOf names the app of a topic on a platform (W4). The place is the environment on APNs, the origin
// of the push service in Web Push, and nothing on FCM. The name has one slash, which no topic can have.
func AppOf(p api.Platform, topic, place string) string {
	switch p {
	case api.PlatformFCM:
		place = "fcm"
	case api.PlatformWebPush:
		place = "webpush:" + place
	}
	return topic + "/" + place
}

// PlatformOfApp is the platform of an app by its name.
func PlatformOfApp(name string) api.Platform {
	_, place, _ := strings.Cut(name, "/")
	switch {
	case place == "fcm":
		return api.PlatformFCM
	case strings.HasPrefix(place, "webpush:"):
		return api.PlatformWebPush
	}
	return api.PlatformAPNs
}
