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
	fail(w, r, api.Errorf(api.CodeSoldOut, "sold out").With("available", map[string]int{"a": 0}).With("status", "mine").With("retryable", "never"))
	want := `{"type":"urn:fanfare:problem:sold_out","title":"Sold out","status":409,"detail":"sold out","code":"sold_out","retryable":true,"request_id":"","available":{"a":0}}` + "\n"
	if w.Body.String() != want {
		t.Errorf("%s", w.Body)
	}
}

// TestProblemText: the text that is written by hand is equal to that of the encoder.
func TestProblemText(t *testing.T) {
	t.Parallel()
	type whole struct {
		api.Problem
		Facts map[string]any `json:",embed"`
	}
	for name, p := range map[string]whole{
		"nothing":    {},
		"a sentence": {Problem: api.Problem{Type: "urn:x", Title: "Sold out", Status: 409, Detail: "there is not enough left", Code: api.CodeSoldOut, Retryable: true, RequestID: "QV7Z"}},
		"odd signs":  {Problem: api.Problem{Detail: "\"<a>\" & \\ \n\x00\u2028 \xff ü", RequestID: "a.b_c-d"}},
		"fields": {Problem: api.Problem{Status: 422, RetryAfterMS: 12, Errors: []api.FieldError{
			{Field: "users[3]", Rule: "max", Message: "must be <\xff>"}, {Field: "b"},
		}}},
		"facts": {Facts: map[string]any{"b": map[string]int64{"z": 1, "a": 0}, "a": "<text>", "ü": nil, "sale": api.SaleItem{SKU: "x", Total: 3}}},
	} {
		want, err := encode(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := appendProblem(nil, &p.Problem, p.Facts); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s\n%s", name, err, got, want)
		}
	}
	if _, err := appendProblem(nil, &api.Problem{}, map[string]any{"x": func() {}}); err == nil {
		t.Error("a function is written as JSON")
	}
}

// TestDeadlines: after a time-out, a call that only reads is answered as unavailable, and a call
// that writes as having an unknown outcome.
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
