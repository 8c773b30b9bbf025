package apns

import (
	"net/http"
	"slices"

	"fanfare/delivery/transport"
)

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
// row go by their class, see classify.
var outcomes = map[answer]transport.Outcome{
	{http.StatusOK, ""}: transport.Delivered,

	// The token may be wrong, or the app's environment or topic may be: one such
	// answer does not decide it.
	{http.StatusBadRequest, "BadDeviceToken"}:         transport.SuspectDevice,
	{http.StatusBadRequest, "DeviceTokenNotForTopic"}: transport.SuspectDevice,

	// No retry and no operator can mend these, and the device is not at fault.
	{http.StatusBadRequest, "MissingDeviceToken"}: transport.OurBug,
	{http.StatusBadRequest, "BadMessageId"}:       transport.OurBug,
	{http.StatusBadRequest, "BadExpirationDate"}:  transport.OurBug,
	{http.StatusBadRequest, "BadPriority"}:        transport.OurBug,
	{http.StatusBadRequest, "BadCollapseId"}:      transport.OurBug,
	{http.StatusBadRequest, "InvalidPushType"}:    transport.OurBug,
	{http.StatusBadRequest, "DuplicateHeaders"}:   transport.OurBug,
	{http.StatusBadRequest, "PayloadEmpty"}:       transport.OurBug,
	{http.StatusNotFound, "BadPath"}:              transport.OurBug,
	{http.StatusMethodNotAllowed, ""}:             transport.OurBug,
	{http.StatusRequestEntityTooLarge, ""}:        transport.OurBug,

	// The app's configuration is refused. An operator can mend it, so that the
	// messages wait instead of failing.
	{http.StatusBadRequest, "BadTopic"}:                  transport.PauseApp,
	{http.StatusBadRequest, "MissingTopic"}:              transport.PauseApp,
	{http.StatusBadRequest, "TopicDisallowed"}:           transport.PauseApp,
	{http.StatusForbidden, "BadCertificate"}:             transport.PauseApp,
	{http.StatusForbidden, "BadCertificateEnvironment"}:  transport.PauseApp,
	{http.StatusForbidden, "Forbidden"}:                  transport.PauseApp,
	{http.StatusForbidden, "MissingProviderToken"}:       transport.PauseApp,
	{http.StatusForbidden, "InvalidProviderToken"}:       transport.PauseApp,
	{http.StatusForbidden, "BadEnvironmentKeyIdInToken"}: transport.PauseApp,

	// As GOAWAY: the connection ends, the request was not processed.
	{http.StatusBadRequest, reasonIdleTimeout}:      transport.Again,
	{http.StatusServiceUnavailable, reasonShutdown}: transport.Again,

	// Send renews the token, and counts to three before it says PauseApp.
	{http.StatusForbidden, reasonExpiredProviderToken}: transport.Again,

	// The app was removed from the device, or the token's time is over.
	{http.StatusGone, "Unregistered"}: transport.DropDevice,
	{http.StatusGone, "ExpiredToken"}: transport.DropDevice,

	// Too much for one device, whatever the body says; but too many new provider
	// tokens concern the whole app.
	{http.StatusTooManyRequests, ""}:                        transport.BackoffDevice,
	{http.StatusTooManyRequests, reasonTooManyTokenUpdates}: transport.PauseApp,

	// APNs itself asks for less. Other 5xx are counted attempts, by classify.
	{http.StatusServiceUnavailable, "ServiceUnavailable"}: transport.RetryUncounted,
}

// statusDecides are the documented reasons without a row of their own: their
// status decides.
var statusDecides = []string{
	"InternalServerError", "MethodNotAllowed", "PayloadTooLarge", "TooManyRequests", "UnrelatedKeyIdInToken",
}

// documentedReasons lists every reason that APNs documents.
func documentedReasons() []string {
	out := slices.Clone(statusDecides)
	for a := range outcomes {
		if a.reason != "" {
			out = append(out, a.reason)
		}
	}
	return out
}

// classify says what a status and a reason of APNs mean. An unknown reason
// goes by its status, an unknown status by its class: 5xx (and what is no
// answer of HTTP's, such as a redirect) is tried again, 4xx is permanent.
func classify(status int, reason string) transport.Outcome {
	if o, ok := outcomes[answer{status, reason}]; ok {
		return o
	}
	if o, ok := outcomes[answer{status, ""}]; ok {
		return o
	}
	if status >= 400 && status < 500 {
		return transport.FailMessage
	}
	return transport.Retry
}
