package apns

import (
	"net/http"
	"slices"

	"github.com/sideshow/apns2"

	"fanfare/delivery/transport"
)

// answer is the left side of a row. An empty reason stands for every reason of that status without its
// own row.
type answer struct {
	status int
	reason string
}

// outcomes is the table of APNs' answers (docs/spec/push.md). Statuses without a
// row go by their class, see classify.
var outcomes = map[answer]transport.Outcome{
	{http.StatusOK, ""}: transport.Delivered,

	// The token may be wrong, or the environment or topic of the app: a single answer of this kind
	// does not tell which.
	{http.StatusBadRequest, apns2.ReasonBadDeviceToken}:         transport.SuspectDevice,
	{http.StatusBadRequest, apns2.ReasonDeviceTokenNotForTopic}: transport.SuspectDevice,

	// Neither a retry nor an operator can correct these, and the device is not at fault.
	{http.StatusBadRequest, apns2.ReasonMissingDeviceToken}: transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonBadMessageID}:       transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonBadExpirationDate}:  transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonBadPriority}:        transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonBadCollapseID}:      transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonInvalidPushType}:    transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonDuplicateHeaders}:   transport.OurBug,
	{http.StatusBadRequest, apns2.ReasonPayloadEmpty}:       transport.OurBug,
	{http.StatusNotFound, apns2.ReasonBadPath}:              transport.OurBug,
	{http.StatusMethodNotAllowed, ""}:                       transport.OurBug,
	{http.StatusRequestEntityTooLarge, ""}:                  transport.OurBug,

	// The app's configuration is refused. An operator can correct it, so the messages wait
	// instead of failing.
	{http.StatusBadRequest, apns2.ReasonBadTopic}:                 transport.PauseApp,
	{http.StatusBadRequest, apns2.ReasonMissingTopic}:             transport.PauseApp,
	{http.StatusBadRequest, apns2.ReasonTopicDisallowed}:          transport.PauseApp,
	{http.StatusForbidden, apns2.ReasonBadCertificate}:            transport.PauseApp,
	{http.StatusForbidden, apns2.ReasonBadCertificateEnvironment}: transport.PauseApp,
	{http.StatusForbidden, apns2.ReasonForbidden}:                 transport.PauseApp,
	{http.StatusForbidden, apns2.ReasonMissingProviderToken}:      transport.PauseApp,
	{http.StatusForbidden, apns2.ReasonInvalidProviderToken}:      transport.PauseApp,
	{http.StatusForbidden, "BadEnvironmentKeyIdInToken"}:          transport.PauseApp,
	{http.StatusForbidden, "UnrelatedKeyIdInToken"}:               transport.PauseApp,

	// Like GOAWAY: the connection ends, and the request was not processed.
	{http.StatusBadRequest, apns2.ReasonIdleTimeout}:      transport.Again,
	{http.StatusServiceUnavailable, apns2.ReasonShutdown}: transport.Again,

	// The sender renews the token. The third such answer for a notification pauses the app.
	{http.StatusForbidden, apns2.ReasonExpiredProviderToken}: transport.Again,

	// The app was removed from the device, or the token has expired.
	{http.StatusGone, apns2.ReasonUnregistered}: transport.DropDevice,
	{http.StatusGone, apns2.ReasonExpiredToken}: transport.DropDevice,

	// Too many requests for one device, whatever the reason in the body. The exception concerns the
	// whole app: too many new provider tokens.
	{http.StatusTooManyRequests, ""}:                                      transport.BackoffDevice,
	{http.StatusTooManyRequests, apns2.ReasonTooManyProviderTokenUpdates}: transport.PauseApp,

	// APNs itself asks for fewer requests. Other 5xx use up an attempt, see classify.
	{http.StatusServiceUnavailable, apns2.ReasonServiceUnavailable}: transport.RetryUncounted,
}

// statusDecides are the documented reasons without a row of their own: their
// status decides.
var statusDecides = []string{
	apns2.ReasonInternalServerError, apns2.ReasonMethodNotAllowed, apns2.ReasonPayloadTooLarge, apns2.ReasonTooManyRequests,
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

// classify returns the outcome of a status and a reason of APNs. An unknown reason is treated by its
// status, and an unknown status by its class: 4xx is permanent, and 5xx or any other status, such as
// a redirect, is tried again.
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
