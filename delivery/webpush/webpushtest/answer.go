package webpushtest

import (
	"net/http"
	"time"
)

// Answer is the answer to one request that passed the checks. The zero Answer is a 201.
type Answer struct {
	// Status is the HTTP status; 0 means 201.
	Status int
	// Body is the whole body.
	Body string
	// RetryAfter and Location are sent as headers when they are not "".
	RetryAfter, Location string
	// Delay is how long the answer takes.
	Delay time.Duration
	// Fault happens instead of the answer, or with it.
	Fault Fault
}

// Fault is something that goes wrong with a connection or a stream.
type Fault int

// The faults. With all but Untaken and GoAway the request counts as delivered, although the client gets no
// answer.
const (
	NoFault Fault = iota
	// Reset resets the stream.
	Reset
	// Drop closes the connection.
	Drop
	// Untaken closes the connection before the request has any effect.
	Untaken
	// Hang never answers, and the connection stays open.
	Hang
	// GoAway answers, and asks for another connection.
	GoAway
)

func (a *Answer) status() int {
	if a.Status == 0 {
		return http.StatusCreated
	}
	return a.Status
}
