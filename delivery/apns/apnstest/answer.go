package apnstest

import (
	"net/http"
	"strconv"
	"time"
)

// Answer is the answer of the stand-in to one request that passed its checks. The zero Answer is a
// 200.
type Answer struct {
	// Status is the HTTP status; 0 means 200.
	Status int
	// Reason is put in the JSON body of a status that is not 200.
	Reason string
	// Timestamp is put in the body of a 410, in milliseconds; zero leaves it out.
	Timestamp time.Time
	// RetryAfter is sent as the Retry-After header, when it is not "".
	RetryAfter string
	// Body, when not nil, is the whole body instead of the JSON one (at most 2 MiB).
	Body []byte
	// Channel is sent as the apns-channel-id header, when it is not "".
	Channel string
	// Delay is how long the answer takes.
	Delay time.Duration
	// Fault happens instead of (or, as its name says, with) the answer.
	Fault Fault
}

// Fault is something that goes wrong with a connection or a stream.
type Fault int

// The faults. "Taken" means that the request counts as delivered to the device, although the client
// gets no answer.
const (
	NoFault Fault = iota
	// Refuse resets the stream with REFUSED_STREAM: not taken.
	Refuse
	// Reset resets the stream with INTERNAL_ERROR: taken.
	Reset
	// GoAwayBefore sends a GOAWAY whose last stream is the one before this
	// request. Earlier requests are still answered, then the connection ends.
	// This one and later ones are not taken.
	GoAwayBefore
	// GoAwayAfter sends a GOAWAY whose last stream is this request, answers all
	// up to it, then ends the connection.
	GoAwayAfter
	// GoAwayDrop sends a GOAWAY whose last stream is this request and closes the
	// connection without an answer: taken.
	GoAwayDrop
	// Drop closes the connection without an answer: taken.
	Drop
	// DropUntaken closes the connection without an answer: not taken.
	DropUntaken
	// Hang never answers this request, and the connection stays open: taken.
	Hang
	// BlackHole makes the connection silent for good: nothing is read, answered
	// or acknowledged any more, not even PING: taken.
	BlackHole
	// CutOff answers without the body, and resets the stream.
	CutOff
)

// taken reports whether a request with this fault counts as delivered.
func (f Fault) taken() bool {
	return f != Refuse && f != GoAwayBefore && f != DropUntaken
}

// OK is a 200.
func OK() Answer { return Answer{Status: http.StatusOK} }

// Fail is a refusal with Apple's reason.
func Fail(status int, reason string) Answer { return Answer{Status: status, Reason: reason} }

// Gone is a 410 with the time at which APNs found the token inactive.
func Gone(reason string, at time.Time) Answer {
	return Answer{Status: http.StatusGone, Reason: reason, Timestamp: at}
}

// After is a 200 after a delay.
func After(d time.Duration) Answer { return Answer{Delay: d} }

// Failing is a 200 with a fault.
func Failing(f Fault) Answer { return Answer{Fault: f} }

// status is the status that is sent.
func (a *Answer) status() int {
	if a.Status == 0 {
		return http.StatusOK
	}
	return a.Status
}

// body is the response body, nil for an empty one.
func (a *Answer) body() []byte {
	if a.Body != nil || a.status() == http.StatusOK || a.Reason == "" && a.status()/100 == 2 {
		return a.Body
	}
	b := append([]byte(`{"reason":`), strconv.Quote(a.Reason)...)
	if !a.Timestamp.IsZero() {
		b = append(b, `,"timestamp":`...)
		b = strconv.AppendInt(b, a.Timestamp.UnixMilli(), 10)
	}
	return append(b, '}')
}
