package apns

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	maxAnswerBody  = 64 << 10
	answerBodyTime = 5 * time.Second // from the answer's headers to the end of its body
	maxReason      = 64
)

// roundTrip is one request and its answer on a chosen connection. It travels in
// the request's context through apns2 and http.Client to our transport below
// and back: apns2's own reading of the answer loses what Send needs.
type roundTrip struct {
	n      *transport.Notification
	conn   *h2.Conn
	call   *h2.Call
	token  *providerToken   // sent with the request; nil: certificate
	answer transport.Answer // Status 0: there was none
}

type roundTripKey struct{}

// roundTripper is the http.RoundTripper that apns2's client gets. It makes good
// what apns2 does to headers and bodies: expiration 0 is sent, the payload goes
// out byte by byte as it was rendered, and the answer is kept.
type roundTripper struct{}

// RoundTrip implements http.RoundTripper. Every request of ours has a roundTrip.
func (roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	x := r.Context().Value(roundTripKey{}).(*roundTrip)
	x.addHeaders(r.Header)
	res, err := x.call.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.read(res)
	// apns2 gets an empty body, since it fails at one that is not JSON.
	return &http.Response{
		StatusCode: res.StatusCode, Proto: res.Proto, ProtoMajor: res.ProtoMajor,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}, nil
}

// addHeaders completes those that apns2 set.
func (x *roundTrip) addHeaders(h http.Header) {
	if x.token != nil {
		h["Authorization"] = []string{x.token.bearer}
	}
	if e := x.n.Expiration; e != nil {
		h["Apns-Expiration"] = []string{strconv.FormatInt(max(e.Unix(), 0), 10)}
	}
}

// read keeps the answer. Its status counts even when its body is broken.
func (x *roundTrip) read(res *http.Response) {
	a := &x.answer
	a.Status, a.ID = res.StatusCode, res.Header.Get("Apns-Id")
	a.RetryAfter = retryAfter(res.Header.Get("Retry-After"))
	if a.Status != http.StatusOK {
		timer := time.AfterFunc(answerBodyTime, func() { _ = res.Body.Close() })
		b, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswerBody))
		timer.Stop()
		a.Reason, a.GoneAt = parseAnswer(b)
	}
	_ = res.Body.Close()
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

// validReason keeps what becomes a metric's label short and harmless.
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
func retryAfter(s string) time.Duration {
	if s == "" {
		return 0
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return time.Duration(max(n, 0)) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// failure is the answer when there was none. A server can't have processed what
// it never got whole, whatever else went wrong; only the rest is unknown.
func (x *roundTrip) failure(err error) transport.Answer {
	switch x.call.Stop() {
	case h2.Withheld:
		return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend}
	case h2.Unprocessed:
		return transport.Answer{Outcome: transport.NotSent, Err: fmt.Errorf("%w: %w", h2.ErrUnprocessed, err)}
	}
	return transport.Answer{Outcome: transport.UnknownOutcome, Err: fmt.Errorf("await APNs' answer: %w", err)}
}
