package web

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"fanfare/api"
)

// LongPoll lets a request wait if it has the query parameter, a number of milliseconds of at most
// api.MaxPollWait. Requests that wait have the limits of streams. If the parameter is absent or 0,
// the request is handled like any other.
func (e Endpoint) LongPoll(parameter string) Endpoint {
	e.tickets = true
	e.limits = func(s *Server, next http.HandlerFunc) http.HandlerFunc { return s.polled(parameter, next) }
	return e
}

// HandleLongPoll makes an endpoint of a method whose requests say in their body whether they wait. Those that do
// have the limits of streams, as with [Endpoint.LongPoll]. The limits begin once the body was read.
func HandleLongPoll[In, Out any](waits func(*In) bool, method func(context.Context, *In) (*Reply[Out], error)) Endpoint {
	e := Handle(method)
	plan := e.plan
	e.limits = func(_ *Server, next http.HandlerFunc) http.HandlerFunc { return next }
	e.serve = func(s *Server, w http.ResponseWriter, r *http.Request, maxBody int64) error {
		in := new(In)
		if err := s.fill(w, r, plan, reflect.ValueOf(in).Elem(), maxBody); err != nil {
			return err
		}
		run := func(w http.ResponseWriter, r *http.Request) {
			if err := answerWith(s, w, r, in, method); err != nil {
				fail(w, r, err)
			}
		}
		if waits(in) {
			s.waiting(run)(w, r)
		} else {
			s.bounded(run)(w, r)
		}
		return nil
	}
	return e
}

// polled runs next like any request. If the parameter asks to wait, it runs next like a stream,
// without the request's deadline.
func (s *Server) polled(parameter string, next http.HandlerFunc) http.HandlerFunc {
	bounded, waiting := s.bounded(next), s.waiting(next)
	return func(w http.ResponseWriter, r *http.Request) {
		if wait := r.URL.Query().Get(parameter); wait == "" || wait == "0" {
			bounded(w, r)
			return
		}
		waiting(w, r)
	}
}

// waiting runs a long poll.
func (s *Server) waiting(next http.HandlerFunc) http.HandlerFunc {
	return s.streams.polls.around(func(w http.ResponseWriter, r *http.Request) {
		answered := time.Now().Add(api.MaxPollWait + 2*s.o.RequestTimeout + slowAfter)
		if err := errors.Join(liftReads(w, r), http.NewResponseController(w).SetWriteDeadline(answered)); err != nil {
			fail(w, r, err)
			return
		}
		next(w, r)
	})
}

// Left returns an error if the caller of a request has left. net/http ends the context of a request once its goroutine has
// read the end of the connection, which takes a while if many callers leave together; so the connection is asked as well.
func (s *Server) Left(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if c := connectionOf(ctx); c != nil && hasEnded(c) {
		return context.Canceled
	}
	return nil
}

// WaitContext gives a context that ends after a time, with its request, or when the process begins to stop.
func (s *Server) WaitContext(ctx context.Context, atMost time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	go func() {
		select {
		case <-s.Closing():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
