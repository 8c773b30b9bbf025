package web

import (
	"context"
	"net/http"
	"reflect"

	"fanfare/api"
)

// Endpoint is the handler of a route, which runs once the request is allowed.
type Endpoint struct {
	maxBody int64 // 0: the call takes no body
	plan    *plan // nil: it reads requests itself
	tickets bool  // it takes tickets, because a browser's EventSource can send no header
	// limits wraps a call in its deadline and in the limit of concurrent calls.
	limits func(s *Server, next http.HandlerFunc) http.HandlerFunc
	serve  func(s *Server, w http.ResponseWriter, r *http.Request, maxBody int64) error
}

// MaxBody is the limit of the request's body; 0: the call takes none.
func (e Endpoint) MaxBody() int64 { return e.maxBody }

// Tickets reports whether the endpoint takes tickets.
func (e Endpoint) Tickets() bool { return e.tickets }

// WithMaxBody sets a limit of the body other than api.MaxBody.
func (e Endpoint) WithMaxBody(limit int64) Endpoint {
	e.maxBody = limit
	return e
}

// Always lets an endpoint answer even if the server has too much to do, and with any query. It is for
// probes.
func (e Endpoint) Always() Endpoint {
	e.limits = (*Server).timed
	e.plan.anyQuery = true
	return e
}

// Secret marks an endpoint whose replies are never stored: a POST takes no Idempotency-Key.
func (e Endpoint) Secret() Endpoint {
	e.plan.secret = true
	return e
}

// Message marks an endpoint that sends a message to others: Options.UserMessageRateLimit and
// UserMessageBytes hold for it.
func (e Endpoint) Message() Endpoint {
	e.plan.message = true
	return e
}

// Handle makes an endpoint of a method. The tags of In say what the method takes (see the package
// comment), and Out is the body of the answer.
func Handle[In, Out any](method func(context.Context, *In) (*Reply[Out], error)) Endpoint {
	plan := planOf(reflect.TypeFor[In]())
	e := Endpoint{limits: (*Server).bounded, plan: plan}
	if plan.body != nil {
		e.maxBody = api.MaxBody
	}
	e.serve = func(s *Server, w http.ResponseWriter, r *http.Request, maxBody int64) error {
		in := new(In)
		if err := s.fill(w, r, plan, reflect.ValueOf(in).Elem(), maxBody); err != nil {
			return err
		}
		return answerWith(s, w, r, in, method)
	}
	return e
}

// answerWith calls the method of an endpoint and writes its answer.
func answerWith[In, Out any](s *Server, w http.ResponseWriter, r *http.Request, in *In, method func(context.Context, *In) (*Reply[Out], error)) error {
	out, err := method(r.Context(), in)
	if err != nil {
		return err
	}
	return out.write(s, w, r)
}

// HandlePlain makes an endpoint of a handler that writes its own answers.
func HandlePlain(h http.Handler) Endpoint {
	return Endpoint{limits: (*Server).timed, serve: func(_ *Server, w http.ResponseWriter, r *http.Request, _ int64) error {
		h.ServeHTTP(w, r)
		return nil
	}}
}

// fill reads, binds and checks a whole request. A body that is not JSON is refused first; after
// that all broken rules are reported together.
func (s *Server) fill(w http.ResponseWriter, r *http.Request, p *plan, in reflect.Value, maxBody int64) error {
	body, err := s.bodyOf(w, r, p, maxBody)
	if err != nil {
		return err
	}
	if info := infoOf(r.Context()); p.message && info.user != nil {
		n := len(body)
		if r.Header.Get("Idempotency-Key") != "" {
			n += recordBytes
		}
		if err := s.spendBytes(info, n, w.Header()); err != nil {
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
	if u := infoOf(r.Context()).user; u != nil {
		if err := p.fillSubject(in, u); err != nil {
			return err
		}
	}
	if err := api.InvalidFields(append(bad, without(s.rules.Check(in.Addr().Interface()), bad)...)); err != nil {
		return err
	}
	return s.spendMore(infoOf(r.Context()), p.requests(in)-1, w.Header())
}

// bodyOf reads the body of a call. A call that takes no body refuses a body with fields, so that the
// caller learns that they have no effect. An object without fields is the same as no body.
func (s *Server) bodyOf(w http.ResponseWriter, r *http.Request, p *plan, maxBody int64) ([]byte, error) {
	switch {
	case p.body != nil:
		return s.readBody(w, r, maxBody, p.optional)
	case r.ContentLength == 0, r.Method == http.MethodGet, r.Method == http.MethodHead:
		return nil, nil
	default:
		body, err := s.readBody(w, r, api.MaxBody, true)
		if err == nil && body != nil {
			err = decode(body, &struct{}{})
		}
		return nil, err
	}
}

// decodeBody fills the field Body. If the body was left out, the field stays nil.
func (p *plan) decodeBody(body []byte, in reflect.Value) error {
	if body == nil {
		return nil
	}
	field := in.FieldByIndex(p.body)
	if !p.optional {
		return decode(body, field.Addr().Interface())
	}
	field.Set(reflect.New(field.Type().Elem()))
	return decode(body, field.Interface())
}

// without leaves out fields that were already reported.
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
