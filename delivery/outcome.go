package delivery

import "net/http"

// Outcome is what an answer of APNs, or its absence, means for a notification.
type Outcome uint8

// The outcomes. "Counted" means that it uses up one of the job's attempts.
const (
	_ Outcome = iota
	// Delivered: APNs took it. Keep the apns-id.
	Delivered
	// FailMessage: permanent for this message, nothing else is wrong.
	FailMessage
	// SuspectDevice: permanent for this message; the device is suspect, and
	// dropped at the second such answer while the storm breaker is closed.
	SuspectDevice
	// DropDevice: permanent; the device is gone as of Answer.Timestamp, see
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
	// NotSent: APNs can't have seen it whole. Uncounted backoff.
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

// The reasons that code here must tell apart from others of the same outcome.
const (
	reasonExpiredProviderToken = "ExpiredProviderToken"
	reasonTooManyTokenUpdates  = "TooManyProviderTokenUpdates"
	reasonIdleTimeout          = "IdleTimeout"
	reasonShutdown             = "Shutdown"
)

// answer is one row's left side. An empty reason stands for every reason of
// that status without a row of its own.
type answer struct {
	status int
	reason string
}

// outcomes is the table of APNs' answers (docs/spec/push.md). Statuses without a
// row go by their class, see Classify.
var outcomes = map[answer]Outcome{
	{http.StatusOK, ""}: Delivered,

	// The token may be wrong, or the app's environment or topic may be: one such
	// answer does not decide it.
	{http.StatusBadRequest, "BadDeviceToken"}:         SuspectDevice,
	{http.StatusBadRequest, "DeviceTokenNotForTopic"}: SuspectDevice,

	// No retry and no operator can mend these; the device is innocent.
	{http.StatusBadRequest, "MissingDeviceToken"}: OurBug,
	{http.StatusBadRequest, "BadMessageId"}:       OurBug,
	{http.StatusBadRequest, "BadExpirationDate"}:  OurBug,
	{http.StatusBadRequest, "BadPriority"}:        OurBug,
	{http.StatusBadRequest, "BadCollapseId"}:      OurBug,
	{http.StatusBadRequest, "InvalidPushType"}:    OurBug,
	{http.StatusBadRequest, "DuplicateHeaders"}:   OurBug,
	{http.StatusBadRequest, "PayloadEmpty"}:       OurBug,
	{http.StatusNotFound, "BadPath"}:              OurBug,
	{http.StatusMethodNotAllowed, ""}:             OurBug,
	{http.StatusRequestEntityTooLarge, ""}:        OurBug,

	// The app's configuration is refused. An operator can mend it, so that the
	// messages wait instead of failing.
	{http.StatusBadRequest, "BadTopic"}:                  PauseApp,
	{http.StatusBadRequest, "MissingTopic"}:              PauseApp,
	{http.StatusBadRequest, "TopicDisallowed"}:           PauseApp,
	{http.StatusForbidden, "BadCertificate"}:             PauseApp,
	{http.StatusForbidden, "BadCertificateEnvironment"}:  PauseApp,
	{http.StatusForbidden, "Forbidden"}:                  PauseApp,
	{http.StatusForbidden, "MissingProviderToken"}:       PauseApp,
	{http.StatusForbidden, "InvalidProviderToken"}:       PauseApp,
	{http.StatusForbidden, "BadEnvironmentKeyIdInToken"}: PauseApp,

	// As GOAWAY: the connection ends, the request was not processed.
	{http.StatusBadRequest, reasonIdleTimeout}:      Again,
	{http.StatusServiceUnavailable, reasonShutdown}: Again,

	// Send renews the token, and counts to three before it says PauseApp.
	{http.StatusForbidden, reasonExpiredProviderToken}: Again,

	// The app was removed from the device, or the token's time is over.
	{http.StatusGone, "Unregistered"}: DropDevice,
	{http.StatusGone, "ExpiredToken"}: DropDevice,

	// Too much for one device, whatever the body says; but too many new provider
	// tokens concern the whole app.
	{http.StatusTooManyRequests, ""}:                        BackoffDevice,
	{http.StatusTooManyRequests, reasonTooManyTokenUpdates}: PauseApp,

	// APNs itself asks for less. Other 5xx are counted attempts, by Classify.
	{http.StatusServiceUnavailable, "ServiceUnavailable"}: RetryUncounted,
}

// Classify says what a status and a reason of APNs mean. An unknown reason
// goes by its status, an unknown status by its class: 5xx (and what is no
// answer of HTTP's, such as a redirect) is tried again, 4xx is permanent.
func Classify(status int, reason string) Outcome {
	if o, ok := outcomes[answer{status, reason}]; ok {
		return o
	}
	if o, ok := outcomes[answer{status, ""}]; ok {
		return o
	}
	if status >= 400 && status < 500 {
		return FailMessage
	}
	return Retry
}
