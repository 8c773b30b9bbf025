package storetest

import (
	"testing"

	"fanfare/api"
)

// Must fails the test for an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantCode fails the test unless the error has this code.
func WantCode(t testing.TB, err error, want api.Code) {
	t.Helper()
	if got := api.CodeOf(err); got != want {
		t.Fatalf("code %q, want %q (error: %v)", got, want, err)
	}
}
