package apns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"fanfare/delivery/transport"
)

const (
	maxAnswerBody  = 64 << 10
	answerBodyTime = 5 * time.Second // from the answer's headers to the end of its body
	maxReason      = 64
)

// errUnprocessed says that APNs is known not to have processed a request.
var errUnprocessed = errors.New("the server did not process the request")

// exchange is one request and its answer on a chosen connection. It travels in
// the request's context through apns2 and http.Client to our transport below
// and back: apns2's own reading of the answer loses what Send needs.
type exchange struct {
	n           *transport.Notification
	conn        *apnsConn
	token       *providerToken // sent with the request; nil: certificate
	body        requestBody
	unprocessed bool
	answer      transport.Answer // Status 0: there was none
}

type exchangeKey struct{}

// exchangeOf finds the exchange of a request. Every request of ours has one.
func exchangeOf(ctx context.Context) *exchange {
	return ctx.Value(exchangeKey{}).(*exchange)
}

// exchangeTransport is the http.RoundTripper that apns2's client gets. It makes
// good what apns2 does to headers and bodies: expiration 0 is sent, the payload
// goes out byte by byte as it was rendered, and the answer is kept.
type exchangeTransport struct{}

// RoundTrip implements http.RoundTripper.
func (exchangeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	x.prepare(r)
	res, err := x.conn.pool.transport.RoundTrip(r)
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

// prepare finishes the request that apns2 built.
func (x *exchange) prepare(r *http.Request) {
	if x.token != nil {
		r.Header["Authorization"] = []string{x.token.bearer}
	}
	if e := x.n.Expiration; e != nil {
		r.Header["Apns-Expiration"] = []string{strconv.FormatInt(max(e.Unix(), 0), 10)}
	}
	x.body = requestBody{data: x.n.Payload, alive: x.n.Alive}
	r.Body, r.ContentLength = &x.body, int64(len(x.n.Payload))
	// http2 asks for the body again exactly when it knows that the peer did not
	// process the request: GOAWAY below it, REFUSED_STREAM, never written.
	r.GetBody = func() (io.ReadCloser, error) {
		x.unprocessed = true
		return nil, errUnprocessed
	}
}

// read keeps the answer. Its status counts even when its body is broken.
func (x *exchange) read(res *http.Response) {
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

// failure is the answer when there was none. The request can only have been
// processed if its body began to leave.
func (x *exchange) failure(err error) transport.Answer {
	began := x.body.stop()
	// A server can't have processed what it never got whole, whatever else went
	// wrong; only the rest is in doubt.
	switch {
	case x.body.refused.Load():
		return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrNotAlive}
	case !began, x.unprocessed, x.conn.nothing.Load():
		return transport.Answer{Outcome: transport.NotSent, Err: fmt.Errorf("%w: %w", errUnprocessed, err)}
	}
	return transport.Answer{Outcome: transport.UnknownOutcome, Err: fmt.Errorf("await APNs' answer: %w", err)}
}

// requestBody is a payload that knows whether it began to leave.
type requestBody struct {
	data    []byte
	off     int
	alive   func() bool
	state   atomic.Int32 // one of the constants below
	refused atomic.Bool  // alive said no
}

const (
	bodyUntouched = iota
	bodyBegan
	bodyStopped
)

// Read implements io.Reader. The first one asks alive, because right after it
// the request is complete.
func (b *requestBody) Read(p []byte) (int, error) {
	if b.off == 0 && !b.begin() {
		return 0, transport.ErrNotAlive
	}
	n := copy(p, b.data[b.off:])
	b.off += n
	if b.off == len(b.data) {
		return n, io.EOF
	}
	return n, nil
}

// begin decides, once, whether the body may leave. stop and begin race for the
// same word, so that a request is never both stopped and begun.
func (b *requestBody) begin() bool {
	if b.alive != nil && !b.alive() {
		b.refused.Store(b.state.CompareAndSwap(bodyUntouched, bodyStopped))
		return false
	}
	return b.state.CompareAndSwap(bodyUntouched, bodyBegan)
}

// stop forbids the body to begin, and tells whether it already had.
func (b *requestBody) stop() (began bool) {
	return !b.state.CompareAndSwap(bodyUntouched, bodyStopped) && b.state.Load() == bodyBegan
}

// Close implements io.Closer.
func (b *requestBody) Close() error { return nil }
