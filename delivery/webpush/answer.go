package webpush

import (
	"net/http"
	"strings"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

// The reasons. Push services of browsers have none in common, so that these come from the status, or from
// fanfare itself.
const (
	reasonGone         = "gone"
	reasonNotFound     = "not_found"
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
	reasonGone, reasonNotFound, reasonUnauthorized, reasonForbidden, reasonTooMany, reasonRedirect, reasonTooLarge, reasonUnlisted,
}

// answerOf decides what an answer means. The path of the endpoint is a secret, which a service's words must
// not show.
func answerOf(r *h2.Result, path string) transport.Answer {
	a := transport.Answer{Status: r.Status, RetryAfter: exchange.RetryAfter(r.Get("retry-after"))}
	a.Outcome, a.Reason = classify(r.Status)
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
		return transport.SuspectDevice, reasonNotFound
	case http.StatusUnauthorized:
		return transport.SuspectDevice, reasonUnauthorized
	case http.StatusForbidden:
		return transport.SuspectDevice, reasonForbidden
	case http.StatusRequestEntityTooLarge:
		return transport.FailMessage, reasonTooLarge
	case http.StatusTooManyRequests:
		return transport.BackoffDevice, reasonTooMany
	}
	switch status / 100 {
	case 2:
		return transport.Delivered, ""
	case 3:
		return transport.FailMessage, reasonRedirect
	case 4:
		return transport.OurBug, ""
	}
	return transport.Retry, ""
}
