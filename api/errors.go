package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Code names a kind of failure for machines. Codes are stable: clients branch
// on them, so a code is never renamed.
type Code string

// The codes that fanfare answers with. errorTable says what each one means.
const (
	CodeInvalidJSON       Code = "invalid_json"
	CodeInvalidRequest    Code = "invalid_request"
	CodeUnauthorized      Code = "unauthorized"
	CodeForbidden         Code = "forbidden"
	CodeNotAMember        Code = "not_a_member"
	CodeNotFound          Code = "not_found"
	CodeSaleNotFound      Code = "sale_not_found"
	CodeMethodNotAllowed  Code = "method_not_allowed"
	CodeRequestTimeout    Code = "request_timeout"
	CodeConflict          Code = "conflict"
	CodeBounds            Code = "bounds"
	CodeNotStarted        Code = "not_started"
	CodeSoldOut           Code = "sold_out"
	CodeLimitReached      Code = "limit_reached"
	CodeNotHeld           Code = "not_held"
	CodeEnded             Code = "ended"
	CodeVersionMismatch   Code = "version_mismatch"
	CodePayloadTooLarge   Code = "payload_too_large"
	CodeUnsupportedMedia  Code = "unsupported_media_type"
	CodeMisdirected       Code = "misdirected_request"
	CodeValidation        Code = "validation_failed"
	CodeUnknownEventType  Code = "unknown_event_type"
	CodeUnknownApp        Code = "unknown_app"
	CodeAlreadyExpired    Code = "already_expired"
	CodeIdempotencyReused Code = "idempotency_key_reused"
	CodeRateLimited       Code = "rate_limited"
	CodeInternal          Code = "internal"
	CodeUnavailable       Code = "unavailable"
	CodeUnknownOutcome    Code = "unknown_outcome"
	CodeOverloaded        Code = "overloaded"
)

// Meaning is what a code implies: its HTTP status, a title for people, and whether the same
// request may succeed later.
type Meaning struct {
	Status    int
	Title     string
	Retryable bool
}

// errorTable is the only place that decides a code's status and whether to retry.
var errorTable = map[Code]Meaning{
	CodeInvalidJSON:       {http.StatusBadRequest, "The body is not the JSON this call takes", false},
	CodeInvalidRequest:    {http.StatusBadRequest, "The request is malformed", false},
	CodeUnauthorized:      {http.StatusUnauthorized, "A valid API key or user token is needed", false},
	CodeForbidden:         {http.StatusForbidden, "Not allowed", false},
	CodeNotAMember:        {http.StatusForbidden, "Not a member of this chat", false},
	CodeNotFound:          {http.StatusNotFound, "Not found", false},
	CodeSaleNotFound:      {http.StatusNotFound, "No such sale", false},
	CodeMethodNotAllowed:  {http.StatusMethodNotAllowed, "Method not allowed", false},
	CodeRequestTimeout:    {http.StatusRequestTimeout, "The body did not arrive in time", true},
	CodeConflict:          {http.StatusConflict, "Conflict", false},
	CodeBounds:            {http.StatusConflict, "Outside the bounds of what is held and sold", false},
	CodeNotStarted:        {http.StatusConflict, "The sale has not started", true},
	CodeSoldOut:           {http.StatusConflict, "Sold out", true},
	CodeLimitReached:      {http.StatusConflict, "The user's limit is reached", false},
	CodeNotHeld:           {http.StatusConflict, "The reservation is not held", false},
	CodeEnded:             {http.StatusGone, "The sale has ended", false},
	CodeVersionMismatch:   {http.StatusPreconditionFailed, "The version has changed", false},
	CodePayloadTooLarge:   {http.StatusRequestEntityTooLarge, "The body is too large", false},
	CodeUnsupportedMedia:  {http.StatusUnsupportedMediaType, "Unsupported media type", false},
	CodeMisdirected:       {http.StatusMisdirectedRequest, "Misdirected request", false},
	CodeValidation:        {http.StatusUnprocessableEntity, "The request breaks a rule", false},
	CodeUnknownEventType:  {http.StatusUnprocessableEntity, "Unknown event type", false},
	CodeUnknownApp:        {http.StatusUnprocessableEntity, "No such app", false},
	CodeAlreadyExpired:    {http.StatusUnprocessableEntity, "Already expired", false},
	CodeIdempotencyReused: {http.StatusUnprocessableEntity, "The idempotency key was used for another request", false},
	CodeRateLimited:       {http.StatusTooManyRequests, "Too many requests", true},
	CodeInternal:          {http.StatusInternalServerError, "Internal error", true},
	CodeUnavailable:       {http.StatusServiceUnavailable, "A dependency is out of reach; nothing happened", true},
	CodeUnknownOutcome:    {http.StatusServiceUnavailable, "The outcome is unknown; the same Idempotency-Key finds out", true},
	CodeOverloaded:        {http.StatusServiceUnavailable, "Overloaded", true},
}

// MeaningOf says what a code implies. An unknown code means CodeInternal.
func MeaningOf(c Code) Meaning {
	if m, ok := errorTable[c]; ok {
		return m
	}
	return errorTable[CodeInternal]
}

// FieldError names one field that broke a rule, by its JSON path.
type FieldError struct {
	Field   string `json:"field" example:"recipients[3]"`
	Rule    string `json:"rule" example:"max"`
	Message string `json:"message" example:"must be at most 128 bytes"`
}

// Error is an expected outcome: a code for machines and a sentence for people.
type Error struct {
	Code   Code
	Detail string
	// Fields lists the fields that broke a rule (CodeValidation).
	Fields []FieldError
	// Facts are extra members of the problem document (available, version, ...).
	Facts map[string]any
	// RetryAfter, when positive, is sent as Retry-After (rounded up to seconds)
	// and as retry_after_ms.
	RetryAfter time.Duration

	cause error
}

// Errorf makes an Error. A %w in the format keeps the cause for the log. Callers see the whole
// text as the detail, so never wrap the internal cause of a 5xx with it: use Because for that.
func Errorf(code Code, format string, args ...any) *Error {
	if len(args) == 0 && !strings.Contains(format, "%") {
		return &Error{Code: code, Detail: format} // formatting takes time, and there may be many refusals
	}
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Detail: err.Error(), cause: errors.Unwrap(err)}
}

// Because returns a copy of e that unwraps to cause. The cause is logged and never shown to callers.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// With returns a copy of e with one more fact in its problem document.
func (e *Error) With(name string, value any) *Error {
	c := *e
	c.Facts = make(map[string]any, len(e.Facts)+1)
	for k, v := range e.Facts {
		c.Facts[k] = v
	}
	c.Facts[name] = value
	return &c
}

// Error returns the code and the sentence for people.
func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Detail, e.cause)
	}
	return fmt.Sprintf("%s: %s", e.Code, e.Detail)
}

// Unwrap returns the cause, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// CodeOf finds the code of the first Error in err's chain, CodeInternal for
// any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}

// Passing tells whether an error is temporary: a dependency of the call was out of reach or
// overloaded.
func Passing(err error) bool {
	switch CodeOf(err) {
	case CodeUnavailable, CodeUnknownOutcome, CodeOverloaded:
		return true
	}
	return false
}

// Invalid is a validation failure of one field.
func Invalid(field, rule, format string, args ...any) *Error {
	message := fmt.Sprintf(format, args...)
	return &Error{
		Code:   CodeValidation,
		Detail: field + " " + message,
		Fields: []FieldError{{Field: field, Rule: rule, Message: message}},
	}
}
