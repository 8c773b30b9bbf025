package main

import "github.com/getkin/kin-openapi/openapi3"

// refusal is an answer that many calls share. Its description in about names its codes.
type refusal struct {
	status  int
	about   string
	headers []string
}

// refusals describes the shared answers.
func refusals() []refusal {
	return []refusal{
		{400, "`invalid_json`: the body is not the JSON that this call takes: it has an unknown or repeated field, a wrong type or more than one value, or is not UTF-8. " +
			"`invalid_request`: the Idempotency-Key is malformed, or the call takes none.", nil},
		{401, "`unauthorized`: there is no API key, or the key, user token or ticket is not valid.", []string{"WWW-Authenticate"}},
		{403, "`forbidden`: the API key or the user token lacks the scope, or the token belongs to another user. A server on which no key was ever made also refuses forwarded requests and pages of other origins.",
			[]string{"WWW-Authenticate"}},
		{408, "`request_timeout`: the body did not arrive in time.", nil},
		{413, "`payload_too_large`: the body is larger than this call takes.", nil},
		{415, "`unsupported_media_type`: the body was not sent as Content-Type: application/json.", nil},
		{421, "`misdirected_request`: a server on which no key was ever made answers only to localhost.", nil},
		{422, "`validation_failed`: fields break rules; `errors` lists them.", nil},
		{429, "`rate_limited`: the API key or the user has made too many requests, or this address has sent too many wrong keys or tokens.",
			[]string{"Retry-After", "RateLimit", "RateLimit-Policy"}},
		{500, "`internal`: the server failed; its log has the error under the request id.", nil},
		{503, "`unavailable`: Redis or SQL is out of reach; nothing happened. `overloaded`: the server has too much to do; nothing happened. " +
			"`unknown_outcome`: the change may have happened; repeat the call with the same Idempotency-Key.", []string{"Retry-After"}},
	}
}

func sharedResponses() openapi3.ResponseBodies {
	out := openapi3.ResponseBodies{}
	for _, r := range refusals() {
		out[responseName(r.status)] = &openapi3.ResponseRef{Value: r.response()}
	}
	return out
}

func (r refusal) response() *openapi3.Response {
	out := openapi3.NewResponse().WithDescription(r.about).WithContent(openapi3.Content{problemJSON: problemMedia(r.status, r.about)})
	out.Headers = openapi3.Headers{}
	for _, name := range r.headers {
		out.Headers[name] = header(name)
	}
	return out
}

func header(name string) *openapi3.HeaderRef {
	about := map[string]string{
		"Retry-After":      "Seconds to wait before trying again",
		"RateLimit":        `The remaining quota: "key" (or "user", "user-messages", "user-message-bytes");r=<requests or bytes>;t=<seconds until all are back>`,
		"RateLimit-Policy": `The limit: "key" (or "user", "user-messages", "user-message-bytes");q=<requests or bytes>;w=<seconds>`,
		"WWW-Authenticate": "How to send the API key",
	}
	h := &openapi3.Header{}
	h.Description = about[name]
	h.Schema = openapi3.NewSchemaRef("", openapi3.NewStringSchema())
	return &openapi3.HeaderRef{Value: h}
}
