package transport

// Outcome is what an answer of a push service, or its absence, means for a
// notification.
type Outcome uint8

// The outcomes. "Counted" means that it uses up one of the job's attempts.
const (
	_ Outcome = iota
	// Delivered: the service took it.
	Delivered
	// FailMessage: permanent for this message, nothing else is wrong.
	FailMessage
	// SuspectDevice: permanent for this message; the device is suspect, and
	// dropped at the second such answer while the storm breaker is closed.
	SuspectDevice
	// DropDevice: permanent; the device is gone as of Answer.GoneAt, see
	// Answer.Drops.
	DropDevice
	// OurBug: permanent; we built a wrong request. Dead letter and alarm.
	OurBug
	// PauseApp: the app's configuration is refused. Its messages wait, alarm.
	PauseApp
	// Again: send again at once, uncounted.
	Again
	// Retry: counted backoff.
	Retry
	// RetryUncounted: uncounted backoff; the sender halves the app's
	// concurrency by itself.
	RetryUncounted
	// BackoffDevice: this device backs off, others go on.
	BackoffDevice
	// UnknownOutcome: written, and the connection was lost before the answer.
	UnknownOutcome
	// NotSent: the service can't have seen it whole. Uncounted backoff.
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
