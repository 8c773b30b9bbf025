package apns

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"fanfare/delivery/exchange"
	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const maxReason = 64

// answerOf turns the result of a call into an answer.
func answerOf(r *h2.Result) transport.Answer {
	if r.Status == 0 {
		return exchange.Unanswered("APNs", r.Err)
	}
	a := transport.Answer{Status: r.Status, ID: r.Get("apns-id"), RetryAfter: exchange.RetryAfter(r.Get("retry-after"))}
	if a.Status != http.StatusOK {
		a.Reason, a.GoneAt = parseAnswer(r.Body)
	}
	a.Outcome = classify(a.Status, a.Reason)
	return a
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
