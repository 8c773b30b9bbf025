package apns

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	maxReason     = 64
	maxRetryAfter = time.Hour // bounds what APNs may ask for
)

// answerOf turns the result of a call into an answer.
func answerOf(r *h2.Result) transport.Answer {
	if r.Status == 0 {
		return failure(r.Err)
	}
	a := transport.Answer{Status: r.Status, ID: r.Get("apns-id"), RetryAfter: retryAfter(r.Get("retry-after"))}
	if a.Status != http.StatusOK {
		a.Reason, a.GoneAt = parseAnswer(r.Body)
	}
	a.Outcome = classify(a.Status, a.Reason)
	return a
}

// failure is the answer to a call that got no response. A server that never got the whole request
// cannot have processed it. In every other case that is unknown.
func failure(err error) transport.Answer {
	switch {
	case errors.Is(err, h2.ErrWithheld):
		return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend}
	case errors.Is(err, h2.ErrUnprocessed):
		return transport.Answer{Outcome: transport.NotSent, Err: err}
	}
	return transport.Answer{Outcome: transport.UnknownOutcome, Err: fmt.Errorf("await APNs' answer: %w", err)}
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

// retryAfter reads a Retry-After header: seconds or a date; 0 if it is neither.
// No answer makes a notification wait for longer than maxRetryAfter.
func retryAfter(s string) time.Duration {
	if s == "" {
		return 0
	}
	var wait time.Duration
	if n, err := strconv.ParseInt(s, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(n, int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(s); err == nil {
		wait = time.Until(at)
	}
	return min(max(wait, 0), maxRetryAfter)
}
