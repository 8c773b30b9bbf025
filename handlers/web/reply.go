package web

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Nothing is the request type of calls without input, and the body type of answers without a body.
type Nothing struct{}

// Reply is a method's reply: status, body and the few headers that depend on the outcome.
type Reply[T any] struct {
	status   int
	body     *T
	location string // where the result can be read; "": not set
	version  int64  // version of the result, for the ETag; 0: not set
	tagged   bool   // the ETag also distinguishes this form of the version
	ifNone   string // If-None-Match of a call that reads
	replayed bool
}

// OK answers 200 with body.
func OK[T any](body *T) *Reply[T] { return &Reply[T]{status: http.StatusOK, body: body} }

// Created answers 201 with body.
func Created[T any](body *T) *Reply[T] { return &Reply[T]{status: http.StatusCreated, body: body} }

// Accepted answers 202 with body.
func Accepted[T any](body *T) *Reply[T] { return &Reply[T]{status: http.StatusAccepted, body: body} }

// NoContent answers 204.
func NoContent() *Reply[Nothing] { return &Reply[Nothing]{status: http.StatusNoContent} }

// Put answers 201 if the thing was made, and 200 if it was changed.
func Put[T any](body *T, created bool) *Reply[T] {
	if created {
		return Created(body)
	}
	return OK(body)
}

// WithStatus answers with another status.
func (a *Reply[T]) WithStatus(status int) *Reply[T] {
	a.status = status
	return a
}

// At sets the URL at which the result can be read.
func (a *Reply[T]) At(location string) *Reply[T] {
	a.location = location
	return a
}

// Version sets the version of the thing in the reply.
func (a *Reply[T]) Version(version int64) *Reply[T] {
	a.version = version
	return a
}

// Tagged sets the version of a reply whose body is the whole thing. The ETag then changes with
// anything in the body.
func (a *Reply[T]) Tagged(version int64) *Reply[T] {
	a.version, a.tagged = version, true
	return a
}

// UnlessMatched answers a read with 304 and no body when the request's If-None-Match names the
// ETag of the reply.
func (a *Reply[T]) UnlessMatched(ifNoneMatch string) *Reply[T] {
	a.ifNone = ifNoneMatch
	return a
}

// Replayed says whether the reply repeats the first reply to an idempotency key.
func (a *Reply[T]) Replayed(replayed bool) *Reply[T] {
	a.replayed = replayed
	return a
}

// write sends the reply, unless its body is refused for its length.
func (a *Reply[T]) write(s *Server, w http.ResponseWriter, r *http.Request) error {
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return nil
	}
	body, err := encode(a.body)
	if a.version != 0 {
		tag := etag(a.version)
		if a.tagged {
			tag = etagOf(a.version, body)
		}
		w.Header().Set("ETag", tag)
		if a.ifNone != "" && names(a.ifNone, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if r.Method == http.MethodGet {
		release, err := s.holdAnswer(infoOf(r.Context()), len(body))
		if err != nil {
			w.Header().Del("ETag")
			return err
		}
		defer release()
	}
	writeBody(w, a.status, jsonMedia, body, err)
	return nil
}

// encodeOptions give tags the meaning that they have in encoding/json. In addition an empty list is
// [], never null, and < > & are not escaped.
var encodeOptions = json.JoinOptions(
	jsonv1.OmitEmptyWithLegacySemantics(true), json.Deterministic(true), jsontext.AllowInvalidUTF8(true),
)

// encodingFailed is the response when even the problem cannot be encoded as JSON.
const encodingFailed = `{"type":"about:blank","title":"Internal error","status":500,"code":"internal","retryable":true}`

// encode writes v in the form of every response.
func encode(v any) ([]byte, error) { return json.Marshal(v, encodeOptions) }

// The values of Content-Type, shared by all answers.
var (
	jsonMedia    = []string{"application/json"}
	problemMedia = []string{"application/problem+json"}
)

// counted is the size from which a body's length must be set. Below it net/http sets the length
// by itself, without an entry in the header map: a map of nine entries takes twice the memory of
// eight.
const counted = 2 << 10

// writeBody answers with a body, unless it could not be encoded.
func writeBody(w http.ResponseWriter, status int, media []string, body []byte, err error) {
	if err != nil {
		status, media, body = http.StatusInternalServerError, problemMedia, []byte(encodingFailed)
	}
	h := w.Header()
	h["Content-Type"] = media
	if len(body) >= counted {
		h.Set("Content-Length", strconv.Itoa(len(body)+1))
	}
	w.WriteHeader(status)
	// The caller may have gone, so the error cannot be reported.
	_, _ = w.Write(append(body, '\n'))
}
