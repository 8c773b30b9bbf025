package main

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"fanfare/api"
)

// details has an example of `detail` for each code.
var details = map[api.Code]string{
	api.CodeInvalidJSON:       "titel is not a field of this call",
	api.CodeInvalidRequest:    "Idempotency-Key must be 1 to 255 printable bytes",
	api.CodeUnauthorized:      "send your API key as Authorization: Bearer <api key>; fanfare keys create makes one",
	api.CodeForbidden:         "this API key lacks the scope push",
	api.CodeNotAMember:        "alice is not a member of this chat",
	api.CodeNotFound:          "there is nothing of this id",
	api.CodeSaleNotFound:      "there is no such sale",
	api.CodeRequestTimeout:    "the body did not arrive in time",
	api.CodeConflict:          "it exists with other content",
	api.CodeBounds:            "a sku or the number of partitions cannot go, nor units that are held or sold",
	api.CodeNotStarted:        "the sale has not started",
	api.CodeSoldOut:           "there is not enough left",
	api.CodeLimitReached:      "this user may have 1 more",
	api.CodeNotHeld:           "the reservation is expired",
	api.CodeSaleOpen:          "the sale sells; it can be deleted before it starts and after it has ended",
	api.CodeOwed:              "a hold has not ended yet, or an order is not on record yet",
	api.CodeChanged:           "15 dead letters match, more than the 12 that were expected",
	api.CodeIDUsed:            "a sale with this id was deleted, and it had reservations",
	api.CodeTooLate:           "it has ended",
	api.CodeNotCounted:        "the event's type does not count who opens its notifications",
	api.CodeChannelsExhausted: "APNs' management host answered 400 CannotCreateChannelConfig",
	api.CodeChannelsRefused:   "APNs' management host answered 400 FeatureNotEnabled",
	api.CodeEnded:             "the sale has ended",
	api.CodeVersionMismatch:   "it is not the version that the condition asks for",
	api.CodePayloadTooLarge:   "the body may have at most 65536 bytes",
	api.CodeUnsupportedMedia:  "the body must be sent as Content-Type: application/json",
	api.CodeMisdirected:       "without an API key this server answers only to localhost",
	api.CodeValidation:        "user must be 1 to 128 bytes of A-Z a-z 0-9 . _ : @ -",
	api.CodeUnknownEventType:  "there is no event type photo.shared, and the event has no alert",
	api.CodeReservedKey:       "data.from is a name that FCM or fanfare uses",
	api.CodeUnknownApp:        "no app is configured for this topic and environment",
	api.CodeAlreadyExpired:    "expires_at is past",
	api.CodeLockHeld:          "another holds the lock",
	api.CodeLockDone:          "the work of this lock is done",
	api.CodeLockExhausted:     "the attempts of this lock are used up",
	api.CodeLockLost:          "the lock is lost",
	api.CodeQueueFull:         "the queue emails has as many jobs as it may have, 1000000",
	api.CodeTooManyNames:      "there are as many names as there may be, some 1048576",
	api.CodeIdempotencyReused: "this Idempotency-Key was used with another body",
	api.CodeRateLimited:       "this API key may make 500/s requests",
	api.CodeInternal:          "something went wrong on our side; the request id finds it in the log",
	api.CodeUnavailable:       "redis is out of reach",
	api.CodeUnknownOutcome:    "the answer did not come in time",
	api.CodeOverloaded:        "there is too much to do",
}

// facts has examples of the additional members that problems of some codes have.
var facts = map[api.Code]map[string]any{
	api.CodeForbidden:       {"scope": "push"},
	api.CodeNotStarted:      {"retry_after_ms": 60000},
	api.CodeBounds:          {"value": 10},
	api.CodeSoldOut:         {"available": map[string]any{"sneaker:42": 0}},
	api.CodeLimitReached:    {"remaining": 1},
	api.CodeNotHeld:         {"state": "expired"},
	api.CodeChanged:         {"matched": 15},
	api.CodeChannelsRefused: {"reason": "FeatureNotEnabled"},
	api.CodeLockHeld:        {"attempt": 1, "retry_after_ms": 29500},
	api.CodeLockExhausted:   {"first": true},
	api.CodeVersionMismatch: {"version": 2, "sale": saleExample, "event_type": eventTypeExample, "webhook": webhookExample, "value": map[string]any{"theme": "dark"}},
	api.CodePayloadTooLarge: {"max_bytes": api.MaxBody},
	api.CodeQueueFull:       {"retry_after_ms": 10000},
	api.CodeTooManyNames:    {"retry_after_ms": 10000},
	api.CodeRateLimited:     {"retry_after_ms": 1000},
	api.CodeUnavailable:     {"retry_after_ms": 1000},
	api.CodeUnknownOutcome:  {"retry_after_ms": 1000},
	api.CodeOverloaded:      {"retry_after_ms": 1000},
	api.CodeValidation: {"errors": []any{map[string]any{
		"field": "user", "rule": "identifier", "message": "must be 1 to 128 bytes of A-Z a-z 0-9 . _ : @ -",
	}}},
}

var saleExample = map[string]any{
	"id": "spring", "state": "open", "items": []any{map[string]any{"sku": "sneaker:42", "total": 150, "available": 147, "held": 2, "sold": 1, "low_at": nil}},
	"starts_at": "2026-01-01T00:00:00.000Z", "ends_at": "2126-01-01T00:00:00.000Z", "per_user_limit": 2, "hold_ms": 600000, "max_hold_ms": nil, "idle_ms": nil, "partitions": 1, "version": 2,
}

var eventTypeExample = map[string]any{
	"type": "photo.shared", "title": "New photo", "body": "{{.actor}} shared {{.data.album}}", "push_type": "alert", "collapse": true,
	"retry_unknown": true, "revision": 2, "created_at": "2026-01-02T15:04:05.000Z", "updated_at": "2026-01-02T15:04:06.000Z",
}

var webhookExample = map[string]any{
	"id": "shop", "version": 2, "url": "https://shop.example.com/hooks/fanfare", "types": []any{"event.done"}, "max": 100, "state": "on",
	"secret_at": "2026-01-02T15:04:05.000Z", "created_at": "2026-01-02T15:04:05.000Z", "updated_at": "2026-01-02T15:04:06.000Z",
}

// typical is the code of a status whose description names no code.
var typical = map[int]api.Code{http.StatusUnprocessableEntity: api.CodeValidation, http.StatusNotFound: api.CodeNotFound}

var word = regexp.MustCompile(`[a-z]+(_[a-z]+)*`)

// codesIn lists the codes of a status that the description of an answer names.
func codesIn(about string, status int) []api.Code {
	var out []api.Code
	for _, w := range word.FindAllString(about, -1) {
		if code := api.Code(w); details[code] != "" && api.MeaningOf(code).Status == status {
			out = append(out, code)
		}
	}
	if len(out) == 0 && typical[status] != "" {
		out = append(out, typical[status])
	}
	return out
}

// problemMedia is the content of an answer that is a problem, with an example for each of its codes.
func problemMedia(status int, about string) *openapi3.MediaType {
	media := openapi3.NewMediaType().WithSchemaRef(openapi3.NewSchemaRef(problemRef, nil))
	media.Examples = openapi3.Examples{}
	for _, code := range codesIn(about, status) {
		media.Examples[string(code)] = &openapi3.ExampleRef{Value: openapi3.NewExample(problemExample(code, about))}
	}
	return media
}

// problemExample shows a problem. Of the things that it may contain, it has those that about names.
func problemExample(code api.Code, about string) map[string]any {
	m := api.MeaningOf(code)
	e := map[string]any{
		"type": "urn:fanfare:problem:" + string(code), "title": m.Title, "status": m.Status, "detail": details[code],
		"code": string(code), "retryable": m.Retryable, "request_id": "QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	}
	for name, value := range facts[code] {
		if !slices.Contains([]string{"sale", "event_type", "webhook", "value"}, name) || strings.Contains(about, "with ") && strings.Contains(about, name) {
			e[name] = value
		}
	}
	return e
}
