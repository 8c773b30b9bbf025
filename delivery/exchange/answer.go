package exchange

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fanfare/delivery/h2"
	"fanfare/delivery/transport"
)

const (
	// maxRetryAfter bounds what a service may ask for.
	maxRetryAfter = time.Hour
	maxSaid       = 300 // bytes
)

// Unanswered is the answer to a call of this service that got no response. A server that never got the
// whole request cannot have processed it. In every other case that is unknown.
func Unanswered(service string, err error) transport.Answer {
	switch {
	case errors.Is(err, h2.ErrWithheld):
		return transport.Answer{Outcome: transport.NotSent, Err: transport.ErrMayNotSend}
	case errors.Is(err, h2.ErrUnprocessed):
		return transport.Answer{Outcome: transport.NotSent, Err: err}
	}
	return transport.Answer{Outcome: transport.UnknownOutcome, Err: fmt.Errorf("await %s's answer: %w", service, err)}
}

// RetryAfter reads the headers Retry-After and Date (RFC 9110, 10.2.3): seconds, or a time by the service's own clock, which Date
// shows; without Date, now is taken for that. It is 0 if they say neither, and at most an hour.
func RetryAfter(retry, date string, now time.Time) (wait time.Duration) {
	if retry = strings.TrimSpace(retry); retry == "" {
		return 0
	}
	if n, err := strconv.ParseInt(retry, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		wait = time.Duration(min(max(n, 0), int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(retry); err == nil {
		if own, err := http.ParseTime(date); err == nil {
			now = own
		}
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// Said is what a service said, on one line of at most 300 bytes, see transport.Answer.
func Said(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return Cut(strings.TrimSpace(text), maxSaid)
}

// Cut shortens a text to this many bytes, between characters.
func Cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
