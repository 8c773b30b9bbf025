package web

import (
	"net/http"
	"strconv"
	"strings"
)

// Nothing is what calls take that take nothing, and the body of answers that
// have none.
type Nothing struct{}

// Reply is a method's answer: status, body and the few headers that depend on
// what happened.
type Reply[T any] struct {
	status   int
	body     *T
	location string // where the thing can be read; "": not said
	etag     string // its version; "": not said
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

// Put answers 201 when the thing was made, 200 when it was changed.
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

// At says where the thing can be read.
func (a *Reply[T]) At(location string) *Reply[T] {
	a.location = location
	return a
}

// Version says which version of the thing this is.
func (a *Reply[T]) Version(version int64) *Reply[T] {
	a.etag = etag(version)
	return a
}

// Replayed says whether this is the first answer to an idempotency key again.
func (a *Reply[T]) Replayed(replayed bool) *Reply[T] {
	a.replayed = replayed
	return a
}

func (a *Reply[T]) write(w http.ResponseWriter) {
	if a.replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.etag != "" {
		w.Header().Set("ETag", a.etag)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	body, err := encode(a.body)
	writeBody(w, a.status, jsonMedia, body, err)
}

// etag is the entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// ParseETag reads one entity tag. The version is 0 for a tag that is well-formed
// but names no version of ours, such as a weak one; ok is false for what is no
// entity tag at all.
func ParseETag(tag string) (version int64, ok bool) {
	inner, weak := strings.CutPrefix(tag, "W/")
	text, opened := strings.CutPrefix(inner, `"`)
	text, closed := strings.CutSuffix(text, `"`)
	if !opened || !closed || strings.ContainsAny(text, "\" ,\t") || !printable(text) {
		return 0, false
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version <= 0 || weak || etag(version) != tag {
		return 0, true
	}
	return version, true
}
