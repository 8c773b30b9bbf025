package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fanfare/api"
)

func TestFactsDoNotShadow(t *testing.T) {
	t.Parallel()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
	fail(w, r, api.Errorf(api.CodeSoldOut, "sold out").With("available", map[string]int{"a": 0}).With("status", "mine"))
	want := `{"type":"urn:fanfare:problem:sold_out","title":"Sold out","status":409,"detail":"sold out","code":"sold_out","request_id":"","available":{"a":0}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("%s", w.Body)
	}
}

// TestDeadlines says what a caller is told when time is up: a call that only
// reads did nothing, one that writes may have.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]api.Code{"GET": api.CodeUnavailable, "HEAD": api.CodeUnavailable, "PUT": api.CodeUnknownOutcome, "POST": api.CodeUnknownOutcome, "DELETE": api.CodeUnknownOutcome} {
		err := fmt.Errorf("read: %w", context.DeadlineExceeded)
		if got := asError(httptest.NewRequest(method, "/", nil), err).Code; got != want {
			t.Errorf("%s: %s, want %s", method, got, want)
		}
	}
	if e := asError(httptest.NewRequest("GET", "/", nil), errors.New("secret")); e.Code != api.CodeInternal || strings.Contains(e.Detail, "secret") {
		t.Errorf("%+v", e)
	}
}
