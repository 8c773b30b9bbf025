package fcm

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	maxCode = 64 // bytes
	// projectRest is how long an app sends nothing after the project's quota was used up, unless FCM says
	// otherwise.
	projectRest = time.Minute
	// serverBackoff is the least backoff after an error of the server.
	serverBackoff = 10 * time.Second
	// reasonTooLarge is the reason of a notification that was accepted and is too large for FCM (W6).
	reasonTooLarge = "payload_too_large"
)

// The codes that FCM documents, and the statuses that stand in for them.
const (
	codeUnregistered   = "UNREGISTERED"
	codeSenderMismatch = "SENDER_ID_MISMATCH"
	codeInvalid        = "INVALID_ARGUMENT"
	codeThirdParty     = "THIRD_PARTY_AUTH_ERROR"
)

// documented are the reasons that become labels of metrics.
var documented = []string{
	codeUnregistered, codeSenderMismatch, codeInvalid, codeThirdParty, "QUOTA_EXCEEDED", "UNAVAILABLE", "INTERNAL", "UNSPECIFIED_ERROR",
	"UNAUTHENTICATED", "PERMISSION_DENIED", "NOT_FOUND", "RESOURCE_EXHAUSTED", reasonTooLarge,
}

// refusal is what an answer other than 200 says.
type refusal struct {
	fcm         bool   // it has an FcmError
	code        string // of the FcmError, else the status
	message     string
	aboutToken  bool // the device's token is not valid
	deviceQuota bool // the device's quota is used up, and no other
}

// answerOf decides what an answer means (W11).
func answerOf(r *h2.Result) transport.Answer {
	a := transport.Answer{Status: r.Status, RetryAfter: exchange.RetryAfter(r.Get("retry-after"), r.Get("date"), time.Now())}
	if r.Status == http.StatusOK {
		a.Outcome = transport.Delivered
		return a
	}
	f := parseRefusal(r.Body)
	a.Reason, a.Said = f.code, exchange.Said(f.message)
	a.Outcome = classify(r.Status, f)
	switch {
	case a.Outcome == transport.Retry:
		a.Least = serverBackoff
	case r.Status == http.StatusTooManyRequests && a.Outcome == transport.RetryUncounted && a.RetryAfter == 0:
		a.RetryAfter = projectRest
	}
	return a
}

// classify is the table of FCM's answers (docs/spec/platforms.md, W11).
func classify(status int, f refusal) transport.Outcome {
	switch status {
	case http.StatusNotFound:
		if !f.fcm {
			return transport.PauseApp // a wrong project or URL
		}
		if f.code == codeUnregistered {
			return transport.DropDevice
		}
	case http.StatusBadRequest:
		if f.code == codeInvalid && f.aboutToken {
			return transport.SuspectDevice
		}
	case http.StatusUnauthorized:
		if f.code != codeThirdParty {
			return transport.Again // with a new access token
		}
	case http.StatusForbidden:
		if f.code == codeSenderMismatch {
			return transport.SuspectDevice
		}
		return transport.PauseApp
	case http.StatusTooManyRequests:
		if f.deviceQuota {
			return transport.BackoffDevice
		}
		return transport.RetryUncounted
	case http.StatusServiceUnavailable:
		return transport.RetryUncounted
	}
	if status >= 400 && status < 500 {
		return transport.OurBug
	}
	return transport.Retry
}

// parseRefusal reads Google's JSON; anything else says nothing.
func parseRefusal(body []byte) (f refusal) {
	var doc struct {
		Error struct {
			Status  string            `json:"status"`
			Message string            `json:"message"`
			Details []json.RawMessage `json:"details"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return f
	}
	f.code, f.message = validCode(doc.Error.Status), doc.Error.Message
	f.aboutToken = strings.Contains(f.message, "not a valid FCM registration token")
	for _, text := range doc.Error.Details {
		f.add(text)
	}
	return f
}

// tokenFields are the fields that have a device's token, or that of an iPhone's activity.
var tokenFields = []string{"message.token", "message.fid", "message.apns.live_activity_token"}

// add reads one of the details. Details of an unknown form are left out.
func (f *refusal) add(text json.RawMessage) {
	var d struct {
		Type            string `json:"@type"`
		ErrorCode       string `json:"errorCode"`
		FieldViolations []struct {
			Field string `json:"field"`
		} `json:"fieldViolations"`
		Violations []struct {
			Subject     string `json:"subject"`
			Description string `json:"description"`
		} `json:"violations"`
	}
	if json.Unmarshal(text, &d) != nil {
		return
	}
	switch _, name, _ := strings.Cut(d.Type, "/"); name {
	case "google.firebase.fcm.v1.FcmError":
		if code := validCode(d.ErrorCode); code != "" {
			f.fcm, f.code = true, code
		}
	case "google.rpc.BadRequest":
		for _, v := range d.FieldViolations {
			f.aboutToken = f.aboutToken || slices.Contains(tokenFields, v.Field)
		}
	case "google.rpc.QuotaFailure":
		f.deviceQuota = len(d.Violations) > 0
		for _, v := range d.Violations {
			f.deviceQuota = f.deviceQuota && strings.Contains(strings.ToLower(v.Subject+" "+v.Description), "device")
		}
	}
}

// validCode returns a code, which becomes a reason, or "" for any other text.
func validCode(s string) string {
	if len(s) > maxCode || strings.ContainsFunc(s, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' }) {
		return ""
	}
	return s
}
