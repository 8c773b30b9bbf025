package transport

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
	DropDevice: "drop_device", OurBug: "our_bug", PauseApp: "pause_app", Again: "again",
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
