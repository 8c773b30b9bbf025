package fanfare

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an answer that refuses a call (RFC 9457). docs/spec/http.md lists the codes.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says in a sentence what went wrong with this request.
	Detail string `json:"detail"`
	// Code is for programs, such as sold_out. It is "" if the answer does not come from fanfare but from a proxy.
	Code string `json:"code"`
	// Retryable says whether the same request, unchanged, may succeed later.
	Retryable bool `json:"retryable"`
	// RequestID is the id under which the server's log has the request.
	RequestID string `json:"request_id"`
	// Errors names every field that broke a rule.
	Errors []FieldError `json:"errors"`
	// RetryAfter is how long to wait at least before the same again, 0 if the server does not say.
	RetryAfter time.Duration `json:"-"`

	body []byte
}

// FieldError is a field that broke a rule.
type FieldError struct {
	Field   string `json:"field"` // such as lines[3].sku
	Rule    string `json:"rule"`
	Message string `json:"message"`
}

// Error is one line for a log.
func (p *Problem) Error() string {
	text := strconv.Itoa(p.Status)
	for _, part := range []string{p.Code, p.Detail} {
		if part != "" {
			text += " " + part
		}
	}
	if p.RequestID != "" {
		text += " (request " + p.RequestID + ")"
	}
	return text
}

// Decode reads further members of the problem, such as available or version, into a pointer to a struct.
func (p *Problem) Decode(into any) error { return json.Unmarshal(p.body, into) }

// CallError is a call that failed.
type CallError struct {
	Method, Path string
	// IdempotencyKey is the key of a POST. To find out what happened later, make the same call with it again.
	IdempotencyKey string
	// Attempts is how often the call was made.
	Attempts int
	// Unknown says that the call may have happened, or may still happen: an answer was lost.
	Unknown bool
	// Err is the error of the last attempt, a *Problem if the server answered.
	Err error
}

// Error is one line for a log.
func (e *CallError) Error() string {
	text := fmt.Sprintf("fanfare: %s %s: %v", e.Method, e.Path, e.Err)
	if e.Attempts > 1 {
		text += fmt.Sprintf(" (%d attempts)", e.Attempts)
	}
	return text
}

// Unwrap returns the error of the last attempt.
func (e *CallError) Unwrap() error { return e.Err }

// CodeOf is the code of the problem with which the server refused a call, "" for any other error.
func CodeOf(err error) string {
	var p *Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// problemOf makes a problem of an answer. A body that is none, from a proxy, leaves only the status.
func problemOf(resp *http.Response, text []byte) *Problem {
	p := &Problem{}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/problem+json") || json.Unmarshal(text, p) != nil {
		p = &Problem{Title: resp.Status}
	}
	p.Status, p.body = resp.StatusCode, text
	var wait struct {
		MS int64 `json:"retry_after_ms"`
	}
	if p.Code != "" {
		_ = json.Unmarshal(text, &wait) // its other members were read above
	}
	p.RetryAfter = time.Duration(wait.MS) * time.Millisecond
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		p.RetryAfter = max(p.RetryAfter, time.Duration(seconds)*time.Second)
	} else if at, err := http.ParseTime(resp.Header.Get("Retry-After")); err == nil {
		p.RetryAfter = max(p.RetryAfter, time.Until(at))
	}
	return p
}
