package handlers

import (
	"context"
	"net/http"
	"reflect"

	"fanfare/api"
)

// endpoint is what a route runs once a request may pass.
type endpoint struct {
	maxBody int64 // 0: the call takes no body
	// guard says when and how long it runs.
	guard func(s *server, next http.HandlerFunc) http.HandlerFunc
	serve func(s *server, w http.ResponseWriter, r *http.Request, maxBody int64) error
}

// upTo gives an endpoint another limit for its body than api.MaxBody.
func (e endpoint) upTo(limit int64) endpoint {
	e.maxBody = limit
	return e
}

// always lets an endpoint answer also when the server has too much to do: it
// is for probes.
func (e endpoint) always() endpoint {
	e.guard = (*server).timed
	return e
}

// waiting lets an endpoint be a long poll, by its parameter wait_ms.
func (e endpoint) waiting() endpoint {
	e.guard = (*server).polled
	return e
}

// handle makes an endpoint of a method: In says what the method takes (see
// plan), Out is its answer's body.
func handle[In, Out any](method func(context.Context, *In) (*reply[Out], error)) endpoint {
	plan := planOf(reflect.TypeFor[In]())
	e := endpoint{guard: (*server).bounded}
	if plan.body != nil {
		e.maxBody = api.MaxBody
	}
	e.serve = func(s *server, w http.ResponseWriter, r *http.Request, maxBody int64) error {
		in := new(In)
		if err := s.fill(w, r, plan, reflect.ValueOf(in).Elem(), maxBody); err != nil {
			return err
		}
		out, err := method(r.Context(), in)
		if err != nil {
			return err
		}
		out.write(w)
		return nil
	}
	return e
}

// plain makes an endpoint of a handler that writes its own answers.
func plain(h http.Handler) endpoint {
	return endpoint{guard: (*server).timed, serve: func(_ *server, w http.ResponseWriter, r *http.Request, _ int64) error {
		h.ServeHTTP(w, r)
		return nil
	}}
}

// fill reads, binds and checks all that a request carries. A body that is not
// JSON is told first; then all broken rules at once.
func (s *server) fill(w http.ResponseWriter, r *http.Request, p *plan, in reflect.Value, maxBody int64) error {
	var body []byte
	var err error
	if p.body != nil {
		if body, err = s.readBody(w, r, maxBody, p.optional); err != nil {
			return err
		}
	}
	if err := p.decodeBody(body, in); err != nil {
		return err
	}
	if err := p.fillIdempotency(r, in, body); err != nil {
		return err
	}
	bad := p.fill(r, in)
	return api.InvalidFields(append(bad, without(s.rules.Check(in.Addr().Interface()), bad)...))
}

// decodeBody fills the Body field; a body that was left out leaves it nil.
func (p *plan) decodeBody(body []byte, in reflect.Value) error {
	if p.body == nil || body == nil {
		return nil
	}
	field := in.FieldByIndex(p.body)
	if !p.optional {
		return decode(body, field.Addr().Interface())
	}
	field.Set(reflect.New(field.Type().Elem()))
	return decode(body, field.Interface())
}

// without leaves out the failures of fields that have been told already.
func without(fields, told []api.FieldError) []api.FieldError {
	if len(told) == 0 {
		return fields
	}
	known := make(map[string]bool, len(told))
	for _, f := range told {
		known[f.Field] = true
	}
	var rest []api.FieldError
	for _, f := range fields {
		if !known[f.Field] {
			rest = append(rest, f)
		}
	}
	return rest
}

// nothing is the body of answers that have none.
type nothing struct{}

// reply is a method's answer: status, body and the few headers that depend on
// what happened.
type reply[T any] struct {
	status   int
	body     *T
	location string // where the thing can be looked at; "": not said
	etag     string // its version; "": not said
	replayed bool
}

// ok answers 200 with body.
func ok[T any](body *T) *reply[T] { return &reply[T]{status: http.StatusOK, body: body} }

// put answers 201 when the thing was made, 200 when it was changed.
func put[T any](body *T, created bool) *reply[T] {
	if created {
		return &reply[T]{status: http.StatusCreated, body: body}
	}
	return ok(body)
}

// made answers 201 and says whether this is the first answer again.
func made[T any](body *T, replayed bool) *reply[T] {
	return &reply[T]{status: http.StatusCreated, body: body, replayed: replayed}
}

// accepted answers 202 and says whether this is the first answer again.
func accepted[T any](body *T, replayed bool) *reply[T] {
	return &reply[T]{status: http.StatusAccepted, body: body, replayed: replayed}
}

// at says where the thing can be looked at.
func (a *reply[T]) at(location string) *reply[T] {
	a.location = location
	return a
}

// version says which version of the thing this is.
func (a *reply[T]) version(v int64) *reply[T] {
	a.etag = etag(v)
	return a
}

// again says whether this is the first answer again.
func (a *reply[T]) again(replayed bool) *reply[T] {
	a.replayed = replayed
	return a
}

// done answers 204.
func done() *reply[nothing] { return &reply[nothing]{status: http.StatusNoContent} }

func (a *reply[T]) write(w http.ResponseWriter) {
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
	writeJSON(w, a.status, "application/json", a.body)
}
