package main

import (
	"net/http"

	"github.com/getkin/kin-openapi/openapi3"

	"fanfare/api"
)

// refusal is an answer that many calls share.
type refusal struct {
	code    api.Code
	about   string
	detail  string
	headers []string
}

// refusals describes the shared answers by one typical problem each.
func refusals() []refusal {
	return []refusal{
		{api.CodeInvalidJSON, "`invalid_json`: the body is not the JSON this call takes: an unknown or repeated field, a wrong type, not UTF-8, more than one value. " +
			"`invalid_request`: a malformed Idempotency-Key, or one where none is taken.", "titel is not a field of this call", nil},
		{api.CodeUnauthorized, "`unauthorized`: no API key, or a wrong one; a user token or a ticket that is not valid.", "send your API key as Authorization: Bearer <api key>", []string{"WWW-Authenticate"}},
		{api.CodeForbidden, "`forbidden`: the API key or the user token lacks the scope, or the token is another user's. A server without any key also refuses forwarded requests and pages of other origins.",
			"this API key lacks the scope push", []string{"WWW-Authenticate"}},
		{api.CodeRequestTimeout, "`request_timeout`: the body did not arrive in time.", "the body did not arrive in time", nil},
		{api.CodePayloadTooLarge, "`payload_too_large`: the body is larger than this call takes.", "the body may have at most 65536 bytes", nil},
		{api.CodeUnsupportedMedia, "`unsupported_media_type`: a body is sent as Content-Type: application/json.",
			"the body must be sent as Content-Type: application/json", nil},
		{api.CodeValidation, "`validation_failed`: fields break rules; `errors` names every one.", "user must be 1 to 128 bytes of A-Z a-z 0-9 . _ : @ -", nil},
		{api.CodeRateLimited, "`rate_limited`: the API key or the user has used up the requests, or this address sent too many wrong keys or tokens.",
			"this API key may make 500/s requests", []string{"Retry-After", "RateLimit", "RateLimit-Policy"}},
		{api.CodeInternal, "`internal`: our fault; the log has it under the request id.",
			"something went wrong on our side; the request id finds it in the log", nil},
		{api.CodeUnavailable, "`unavailable`: Redis or SQL is out of reach; nothing happened. `overloaded`: too much to do; nothing happened. " +
			"`unknown_outcome`: it may have happened; repeat with the same Idempotency-Key.", "redis is out of reach", []string{"Retry-After"}},
	}
}

func sharedResponses() openapi3.ResponseBodies {
	out := openapi3.ResponseBodies{}
	for _, r := range refusals() {
		out[responseName(api.MeaningOf(r.code).Status)] = &openapi3.ResponseRef{Value: r.response()}
	}
	return out
}

func (r refusal) response() *openapi3.Response {
	media := openapi3.NewMediaType().WithSchemaRef(openapi3.NewSchemaRef(problemRef, nil))
	media.Example = r.example()
	out := openapi3.NewResponse().WithDescription(r.about).WithContent(openapi3.Content{problemJSON: media})
	out.Headers = openapi3.Headers{}
	for _, name := range r.headers {
		out.Headers[name] = header(name)
	}
	return out
}

func (r refusal) example() map[string]any {
	m := api.MeaningOf(r.code)
	e := map[string]any{
		"type": "urn:fanfare:problem:" + string(r.code), "title": m.Title, "status": m.Status, "detail": r.detail,
		"code": string(r.code), "request_id": "QV7Z2M6JKX4T3YRN5WAHBCDEFG",
	}
	if m.Status == http.StatusServiceUnavailable || m.Status == http.StatusTooManyRequests {
		e["retry_after_ms"] = 1000
	}
	return e
}

func header(name string) *openapi3.HeaderRef {
	about := map[string]string{
		"Retry-After":      "Seconds to wait before trying again",
		"RateLimit":        `What is left: "key" (or "user");r=<requests>;t=<seconds until all are back>`,
		"RateLimit-Policy": `The limit: "key" (or "user");q=<requests>;w=<seconds>`,
		"WWW-Authenticate": "How to send the API key",
	}
	h := &openapi3.Header{}
	h.Description = about[name]
	h.Schema = openapi3.NewSchemaRef("", openapi3.NewStringSchema())
	return &openapi3.HeaderRef{Value: h}
}
