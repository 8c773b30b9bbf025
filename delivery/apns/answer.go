package apns

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sideshow/apns2"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const maxReason = 64

// answerOf turns the result of a call, which may be a broadcast, into an answer.
func answerOf(r *h2.Result, broadcast bool) transport.Answer {
	if r.Status == 0 {
		return exchange.Unanswered("APNs", r.Err)
	}
	a := transport.Answer{Status: r.Status, RetryAfter: exchange.RetryAfter(r.Get("retry-after"), r.Get("date"), time.Now())}
	if a.Status != http.StatusOK {
		a.Reason, a.GoneAt = parseAnswer(r.Body)
	}
	a.Outcome = classify(a.Status, a.Reason)
	if broadcast {
		a.Outcome = classifyBroadcast(a.Status, a.Reason)
	}
	return a
}

// reasonCertificate is fanfare's own reason of answers to an app whose certificate the server refuses by an
// alert of TLS, as an expired or revoked one. It pauses the app as 403 BadCertificate does.
const reasonCertificate = "certificate_refused"

// judgeCertificate turns a connection's end by such an alert into an answer. Depending on the version of TLS
// the alert comes before a request is sent or after it, and no request is processed.
func judgeCertificate(done func(transport.Answer)) func(transport.Answer) {
	return func(a transport.Answer) {
		var alert *net.OpError // crypto/tls has no type for alerts
		if a.Status == 0 && errors.As(a.Err, &alert) && alert.Op == "remote error" && strings.Contains(alert.Error(), "certificate") {
			a.Outcome, a.Reason = transport.PauseApp, reasonCertificate
		}
		done(a)
	}
}

// parseAnswer reads APNs' JSON; anything else has no reason.
func parseAnswer(b []byte) (reason string, at time.Time) {
	var doc struct {
		Reason    string          `json:"reason"`
		Timestamp json.RawMessage `json:"timestamp"`
	}
	if json.Unmarshal(b, &doc) != nil || !validReason(doc.Reason) {
		return "", time.Time{}
	}
	if ms, err := strconv.ParseInt(string(doc.Timestamp), 10, 64); err == nil && ms > 0 {
		at = time.UnixMilli(ms)
	}
	return doc.Reason, at
}

// validReason limits a reason, which becomes a metric's label, to short and harmless text.
func validReason(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		if (c < 'a' || c > 'z') && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return len(s) <= maxReason
}

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
	for _, table := range []map[answer]transport.Outcome{outcomes, broadcastOutcomes} {
		for a := range table {
			if a.reason != "" {
				out = append(out, a.reason)
			}
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
