package api

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
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
	CodeSaleOpen          Code = "sale_open"
	CodeOwed              Code = "owed"
	CodeChanged           Code = "changed"
	CodeIDUsed            Code = "id_used"
	CodeTooLate           Code = "too_late"
	CodeNotCounted        Code = "not_counted"
	CodeLockHeld          Code = "lock_held"
	CodeLockDone          Code = "lock_done"
	CodeLockExhausted     Code = "lock_exhausted"
	CodeLockLost          Code = "lock_lost"
	CodeTooManyNames      Code = "too_many_names"
	CodeQueueFull         Code = "queue_full"
	CodeChannelsExhausted Code = "channels_exhausted"
	CodeChannelsRefused   Code = "channels_refused"
	CodeEnded             Code = "ended"
	CodeVersionMismatch   Code = "version_mismatch"
	CodePayloadTooLarge   Code = "payload_too_large"
	CodeUnsupportedMedia  Code = "unsupported_media_type"
	CodeMisdirected       Code = "misdirected_request"
	CodeValidation        Code = "validation_failed"
	CodeUnknownEventType  Code = "unknown_event_type"
	CodeUnknownApp        Code = "unknown_app"
	CodeReservedKey       Code = "reserved_key"
	CodeAlreadyExpired    Code = "already_expired"
	CodeIdempotencyReused Code = "idempotency_key_reused"
	CodeRateLimited       Code = "rate_limited"
	CodeInternal          Code = "internal"
	CodeUnavailable       Code = "unavailable"
	CodeUnknownOutcome    Code = "unknown_outcome"
	CodeOverloaded        Code = "overloaded"
)

// Meaning is what a code implies.
type Meaning struct {
	Status int
	// Title is the same for every problem of the code.
	Title string
	// Retryable: the same request, unchanged, may succeed later.
	Retryable bool
	// About says, in Markdown, when the code is answered and what helps. It is in the table of
	// docs/spec/http.md, which is generated.
	About string
}

// errorTable is the only place that decides what a code implies.
var errorTable = map[Code]Meaning{
	CodeInvalidJSON: {http.StatusBadRequest, "The body is not the JSON this call takes", false,
		"The body is not JSON, or has an unknown field, a duplicate key or a wrong type. `detail` names the field"},
	CodeInvalidRequest: {http.StatusBadRequest, "The request is malformed", false,
		"The Idempotency-Key is malformed, the call takes no such key or no API key, or the body broke off"},
	CodeUnauthorized: {http.StatusUnauthorized, "A valid API key or user token is needed", false,
		"The API key, user token or ticket is missing, wrong or revoked, or it has expired"},
	CodeForbidden: {http.StatusForbidden, "Not allowed", false,
		"The API key or user token does not give access to this. `scope` names the scope that it lacks"},
	CodeNotAMember: {http.StatusForbidden, "Not a member of this chat", false,
		"The user is not a member of the chat"},
	CodeNotFound: {http.StatusNotFound, "Not found", false,
		"There is nothing at this path or of this id, or it is no longer kept"},
	CodeSaleNotFound: {http.StatusNotFound, "No such sale", false,
		"There is no sale of this id"},
	CodeMethodNotAllowed: {http.StatusMethodNotAllowed, "Method not allowed", false,
		"The path takes other methods, which the header `Allow` lists"},
	CodeRequestTimeout: {http.StatusRequestTimeout, "The body did not arrive in time", true,
		"The body did not arrive in time. Nothing happened"},
	CodeConflict: {http.StatusConflict, "Conflict", false,
		"There is something of this id with other content, the job of a dead letter was queued again already, or the device registered for another user later"},
	CodeBounds: {http.StatusConflict, "Outside the bounds", false,
		"The change would take away a sku, a partition, or units that are held or sold; or the counter would leave its bounds, and `value` is its present number"},
	CodeNotStarted: {http.StatusConflict, "Not started", true,
		"The sale or the counter starts in `retry_after_ms`"},
	CodeSoldOut: {http.StatusConflict, "Sold out", true,
		"Fewer units are available than the request asks for; `available` has their number. Held units may come back"},
	CodeLimitReached: {http.StatusConflict, "The user's limit is reached", false,
		"The user may hold and buy `remaining` more units in this sale"},
	CodeNotHeld: {http.StatusConflict, "The reservation is not held", false,
		"The reservation was sold or released, or it has expired; `state` says which"},
	CodeSaleOpen: {http.StatusConflict, "The sale sells", false,
		"The sale sells now. It can be deleted before it starts and after it ended"},
	CodeOwed: {http.StatusConflict, "The sale has holds, or orders that are not on record yet", true,
		"A hold of the sale lives, or a confirmation is not on record yet"},
	CodeChanged: {http.StatusConflict, "There are more than expected", false,
		"More dead letters match than the `expect` of the call; `matched` has their number. Nothing happened"},
	CodeIDUsed: {http.StatusConflict, "The id was used by a deleted sale", false,
		"Reservations were made in a deleted sale of this id, so that the id is not free again"},
	CodeTooLate: {http.StatusConflict, "Nothing is left to cancel", false,
		"Every notification of the event has ended, or it expired before it was targeted; or the job is done or dead"},
	CodeNotCounted: {http.StatusConflict, "The event's type does not count that", false,
		"The event's type does not count who opens its notifications, because it has no `opened: true`, or had none when the event was posted"},
	CodeLockHeld: {http.StatusConflict, "Another holds the lock", true,
		"Another holds the lock, with its `attempt`, for `retry_after_ms` at most unless it renews its lease"},
	CodeLockDone: {http.StatusConflict, "The work of the lock is done", false,
		"A holder said that the work is done, and that is still remembered"},
	CodeLockExhausted: {http.StatusConflict, "The attempts of the lock are used up", false,
		"As many attempts failed as there may be. `first` is true for one caller at most, who should see to it; a repeat under the same Idempotency-Key is told again"},
	CodeLockLost: {http.StatusConflict, "The lock is lost", false,
		"Another has acquired the lock since, or the hold has ended. Nothing was changed"},
	CodeChannelsExhausted: {http.StatusConflict, "The app has as many channels as it may have", true,
		"APNs makes no more channels for the app: it may have 10,000. Those of other broadcasts that end make room"},
	CodeChannelsRefused: {http.StatusConflict, "The push service refuses channels of this app", false,
		"APNs refuses channels of the app, such as one that may not broadcast. `reason` has Apple's reason"},
	CodeEnded: {http.StatusGone, "Ended", false,
		"The sale or the counter has ended"},
	CodeVersionMismatch: {http.StatusPreconditionFailed, "The version has changed", false,
		"The condition in `If-Match` or `If-None-Match` does not hold. The answer has the present content, its `version` and its ETag"},
	CodePayloadTooLarge: {http.StatusRequestEntityTooLarge, "The body is too large", false,
		"The body has more than `max_bytes`"},
	CodeUnsupportedMedia: {http.StatusUnsupportedMediaType, "Unsupported media type", false,
		"The body was not sent as `application/json` in UTF-8 without a Content-Encoding"},
	CodeMisdirected: {http.StatusMisdirectedRequest, "Misdirected request", false,
		"As long as no API key was ever made, the server answers only requests to localhost"},
	CodeValidation: {http.StatusUnprocessableEntity, "The request breaks a rule", false,
		"`errors` lists every field that breaks a rule"},
	CodeUnknownEventType: {http.StatusUnprocessableEntity, "Unknown event type", false,
		"The event's type is not registered, and the event has no `alert`"},
	CodeReservedKey: {http.StatusUnprocessableEntity, "A name in data is reserved", false,
		"The event's `data` has a name that FCM or fanfare uses, and the server that answered has an app of FCM. `errors` lists every such name"},
	CodeUnknownApp: {http.StatusUnprocessableEntity, "No such app", false,
		"The server that answered has no app for the device's topic and environment"},
	CodeAlreadyExpired: {http.StatusUnprocessableEntity, "Already expired", false,
		"The event's `expires_at` is in the past"},
	CodeIdempotencyReused: {http.StatusUnprocessableEntity, "The idempotency key was used for another request", false,
		"The same Idempotency-Key came with another body before"},
	CodeRateLimited: {http.StatusTooManyRequests, "Too many requests", true,
		"The API key, the user or the address has too many requests or streams, or has sent too many wrong keys. Wait for `Retry-After`"},
	CodeQueueFull: {http.StatusTooManyRequests, "The queue is full", true,
		"The queue has 1,000,000 jobs that have not ended. Nothing was enqueued"},
	CodeTooManyNames: {http.StatusTooManyRequests, "Too many names", true,
		"There are as many values, or counters, as there may be: some 1,000,000; or there are 1,000 queues of jobs, 1,000 schedules, 100 webhooks, or 3 secrets of a webhook that sign. Those that expire, are deleted, or are empty and unused for 7 days, make room"},
	CodeInternal: {http.StatusInternalServerError, "Internal error", true,
		"A fault of the server; its log has it under the `request_id`. A change may have happened"},
	CodeUnavailable: {http.StatusServiceUnavailable, "A dependency is out of reach; nothing happened", true,
		"Redis or the database is out of reach. Nothing happened"},
	CodeUnknownOutcome: {http.StatusServiceUnavailable, "The outcome is unknown; the same Idempotency-Key finds out", true,
		"A change may have happened. Repeat the call with the same Idempotency-Key to find out"},
	CodeOverloaded: {http.StatusServiceUnavailable, "Overloaded", true,
		"The server has too much to do, or Redis' memory is nearly full. Nothing happened"},
}

// Codes lists all codes, by status and then by name.
func Codes() []Code {
	return slices.SortedFunc(maps.Keys(errorTable), func(a, b Code) int {
		return cmp.Or(cmp.Compare(errorTable[a].Status, errorTable[b].Status), cmp.Compare(a, b))
	})
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

// Passing reports whether an error is temporary: a dependency of the call was out of reach or
// overloaded.
func Passing(err error) bool {
	switch CodeOf(err) {
	case CodeUnavailable, CodeUnknownOutcome, CodeOverloaded:
		return true
	}
	return false
}

// AfterAChange is the error of a call that had changed something before err came. One that says that nothing happened becomes
// CodeUnknownOutcome; any other stays as it is.
func AfterAChange(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != CodeUnavailable && e.Code != CodeOverloaded {
		return err
	}
	u := Errorf(CodeUnknownOutcome, "a part of the change was made").Because(err)
	u.RetryAfter = e.RetryAfter
	return u
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
