package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"fanfare/api"
)

// TestTicketsAreBounded: requests with tickets, for which Redis is asked, have the deadline of a
// request and count against the limit of requests in flight.
func TestTicketsAreBounded(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan time.Time, 1), make(chan struct{})
	s := New(Options{MaxInFlight: 1, RequestTimeout: time.Minute, Users: Users{
		Take: func(ctx context.Context, _ string) (*api.User, error) {
			ends, _ := ctx.Deadline()
			asked <- ends
			<-answer
			return nil, api.Errorf(api.CodeUnauthorized, "no ticket")
		},
	}})
	method := func(context.Context, *conditional) (*Reply[conditional], error) { return OK(&conditional{}), nil }
	endpoint := Handle(method)
	endpoint.tickets = true
	h := s.Handler([]Route{{Method: http.MethodGet, Pattern: "/things/{name}", Scope: api.ScopeChat, User: AnyUser, Endpoint: endpoint}})
	open := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/things/a?ticket=x", nil))
		return w.Code
	}
	first := make(chan int)
	go func() { first <- open() }()
	if left := time.Until(<-asked); left < 30*time.Second || left > time.Minute {
		t.Errorf("a ticket has %v", left)
	}
	if code := open(); code != http.StatusServiceUnavailable {
		t.Errorf("a second ticket meanwhile: %d", code)
	}
	close(answer)
	if code := <-first; code != http.StatusUnauthorized {
		t.Errorf("a wrong ticket: %d", code)
	}
	if open() != http.StatusUnauthorized || s.requests.places.taken.Load() != 0 {
		t.Errorf("%d are still being answered", s.requests.places.taken.Load())
	}
}
