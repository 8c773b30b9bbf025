package webpush

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// The reasons. Push services of browsers have none in common, so that these come from the status, or from
// fanfare itself.
const (
	reasonGone         = "gone"
	reasonUnauthorized = "unauthorized"
	reasonForbidden    = "forbidden"
	reasonTooMany      = "too_many_requests"
	reasonRedirect     = "redirect"
	// reasonTooLarge is also the reason of a notification that was accepted and is too large (W6).
	reasonTooLarge = "payload_too_large"
	// reasonUnlisted is the reason of a notification to a host that is not on the list of origins (W15).
	reasonUnlisted = "origin_not_allowed"
)

// documented are the reasons that become labels of metrics.
var documented = []string{
	reasonGone, transport.ReasonEnded, reasonUnauthorized, reasonForbidden, reasonTooMany, reasonRedirect, reasonTooLarge, reasonUnlisted,
	appleToken, appleHeader, appleOtherKey, windowsDropped,
}

// answerOf decides what an answer means by its status. The path of the endpoint is a secret, which a service's
// words must not show.
func answerOf(r *h2.Result, path string) transport.Answer {
	a := transport.Answer{Status: r.Status, RetryAfter: exchange.RetryAfter(r.Get("retry-after"), r.Get("date"), time.Now())}
	a.Outcome, a.Reason = classify(r.Status)
	a.Spare = a.Reason == reasonUnauthorized
	if a.Outcome != transport.Delivered {
		a.Said = exchange.Said(strings.ReplaceAll(string(r.Body), path, "[path]"))
	}
	return a
}

// classify is the table of the answers of push services (docs/spec/platforms.md, W14).
func classify(status int) (outcome transport.Outcome, reason string) {
	switch status {
	case http.StatusGone:
		return transport.DropDevice, reasonGone
	case http.StatusNotFound:
		return transport.SuspectDevice, transport.ReasonEnded
	case http.StatusUnauthorized:
		return transport.UnclearRefusal, reasonUnauthorized
	case http.StatusForbidden:
		return transport.SuspectDevice, reasonForbidden
	case http.StatusRequestEntityTooLarge:
		return transport.FailMessage, reasonTooLarge
	case http.StatusTooManyRequests:
		return transport.BackoffDevice, reasonTooMany
	case http.StatusRequestTimeout, http.StatusTooEarly:
		return transport.Retry, ""
	}
	switch status / 100 {
	case 2:
		return transport.Delivered, ""
	case 3:
		return transport.FailMessage, reasonRedirect
	case 4:
		return transport.UnclearRefusal, ""
	}
	return transport.Retry, ""
}

// The services that say more than the status, and what they say.
const (
	// appleHost names its reasons in the body, by Apple's "Sending web push notifications in web apps and
	// browsers". The names below it are no push services of browsers.
	appleHost        = "web.push.apple.com"
	appleToken       = "BadJwtToken"
	appleHeader      = "BadAuthorizationHeader"
	appleOtherKey    = "VapidPkHashMismatch"
	windowsDomain    = ".notify.windows.com"
	windowsStatus    = "x-wns-notificationstatus" // and windowsNewStatus, which newer documents name in its place
	windowsNewStatus = "x-wns-status"
	windowsThrottled = "channelthrottled"
	windowsDropped   = "dropped"
)

// readMore reads what the host's service says beside the status.
func (to *recipient) readMore(a *transport.Answer, r *h2.Result) {
	switch {
	case to.host == appleHost && r.Status/100 == 4:
		readApple(a, r.Body)
	case to.isWindows():
		readWindows(a, r)
	}
}

// isWindows reports whether the host is one of Windows' push service.
func (to *recipient) isWindows() bool { return strings.HasSuffix(to.host, windowsDomain) }

// readApple reads the reason of Apple's service: the app's token is refused whatever the device, or the page has
// subscribed with another key.
func readApple(a *transport.Answer, body []byte) {
	var doc struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(body, &doc)
	switch doc.Reason {
	case appleToken, appleHeader:
		a.Outcome, a.Reason, a.Spare = transport.PauseApp, doc.Reason, false
	case appleOtherKey:
		a.Outcome, a.Reason, a.Spare = transport.SuspectDevice, doc.Reason, false
	}
}

// readWindows reads what is peculiar to Windows' service: 406 is its 429, and with 200 it may say that it has dropped
// the notification (Microsoft's "Push notification service request and response headers").
func readWindows(a *transport.Answer, r *h2.Result) {
	switch status := strings.ToLower(cmp.Or(r.Get(windowsStatus), r.Get(windowsNewStatus))); {
	case r.Status == http.StatusNotAcceptable, a.Outcome == transport.Delivered && status == windowsThrottled:
		a.Outcome, a.Reason = transport.BackoffDevice, reasonTooMany
	case a.Outcome == transport.Delivered && status == windowsDropped:
		a.Outcome, a.Reason = transport.FailMessage, windowsDropped
	}
}
